// Regular expressions of tokenizer.json are written for Oniguruma (Ruby syntax). This rewrites one for PCRE2, so that it
// means the same: multi-line ^ and $, (?m) for "dot matches newline", {n,m}+ that repeats and does not possess, sets with
// && and nested sets, \h for hexadecimal digits, and the classes \s \d \w \p{..} with Oniguruma's members.
//
//   Regex split(pattern_from_oniguruma("\\p{N}{1,3}| ?[^\\s\\p{L}]+", where), Regex::kMultiline, where);
#pragma once
#include <string>
#include <string_view>

namespace roundel {

// `where` names the pattern's source in messages. What cannot be rewritten throws Error(kUnsupported), what is not a
// pattern at all Error(kInvalid) here or later from Regex.
std::string pattern_from_oniguruma(std::string_view pattern, const std::string& where);

}  // namespace roundel
