// What a tokenizer.json part looks for: a literal text or a regular expression, {"String": ".."} or {"Regex": ".."}.
//
//   TextPattern pattern = TextPattern::parse(json.at("pattern"), "tokenizer.json: pre_tokenizer");
//   pattern.for_each(text, [&](size_t begin, size_t end) { ... });
#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "base/function_ref.h"
#include "base/json.h"
#include "base/regex.h"

namespace roundel {

class TextPattern {
 public:
  // `where` names the field for messages. Throws Error when the value is of another form or does not compile.
  static TextPattern parse(const Json& value, const std::string& where);
  static TextPattern literal(std::string text);
  static TextPattern regex(std::string_view oniguruma, const std::string& where);
  static TextPattern
  words_and_symbols();  // runs of word characters, and runs of what is neither that nor space

  // Calls found(begin, end) for the matches from left to right. They do not overlap; an empty match right behind the
  // match before it does not count. The text must be valid UTF-8. Throws Error(kLimit) as Regex::find does.
  void for_each(std::string_view text, FunctionRef<void(size_t, size_t)> found) const;

 private:
  TextPattern() = default;
  std::string literal_;  // not empty when there is no regex
  std::optional<Regex> regex_;
};

// \w of Unicode's technical standard 18.
bool is_word_character(char32_t c);

}  // namespace roundel
