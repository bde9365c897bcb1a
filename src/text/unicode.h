// Properties, lower case and normal forms of Unicode, as the `tokenizers` package has them. Its parts follow different
// versions of Unicode; where the library used here (utf8proc) differs from one of them, the difference is spelled out.
//
//   std::string composed = normalize_unicode("e\u0301", NormalForm::kNfc);   // "\u00E9"
#pragma once
#include <string>
#include <string_view>

namespace roundel {

enum class NormalForm { kNfc, kNfd, kNfkc, kNfkd };

// The text must be valid UTF-8. Linear in the length of the text up to the sorting of runs of combining marks.
std::string normalize_unicode(std::string_view text, NormalForm form);
void append_lower(std::string* out,
                  char32_t c);  // the full mapping of one character, without regard to its neighbours

bool is_space(char32_t c);        // property White_Space
bool is_numeric(char32_t c);      // general categories Nd, Nl, No
bool is_punctuation(char32_t c);  // general categories P*, and all that is neither letter nor digit in ASCII

}  // namespace roundel
