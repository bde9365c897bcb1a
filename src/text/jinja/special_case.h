// Letters whose upper or title case is more than one letter (Unicode's SpecialCasing.txt, the rules without conditions).
#pragma once

namespace roundel::jinja {

struct SpecialCase {
  char32_t letter;
  const char* upper;  // UTF-8
  const char* title;  // empty: one letter, not special
};

// Null for letters that are not special.
const SpecialCase* special_case(char32_t letter);

}  // namespace roundel::jinja
