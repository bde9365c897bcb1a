// Code points younger than Unicode 14, the version that PCRE2 10.42 knows. Tokenizers in use know them, and their
// pre-tokenizers must see a new letter as a letter.
//
//   std::string set = "\\p{L}";
//   append_recent_ranges(&set, "L");   // "\\p{L}\\x{1C89}-..."
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace roundel {

// Appends the ranges of a general category ("Lu") or a group of them ("L") in the notation of a character class.
void append_recent_ranges(std::string* out, std::string_view category);
bool is_recent(char32_t c, std::string_view category);

}  // namespace roundel
