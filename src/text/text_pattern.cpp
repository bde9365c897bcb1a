#include "text/text_pattern.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/utf8.h"
#include "text/oniguruma.h"
#include "text/oniguruma_class.h"

namespace roundel {
namespace {

std::string word_set() {
  return unicode_word_members() + "\\x{200C}\\x{200D}";
}

}  // namespace

TextPattern TextPattern::literal(std::string text) {
  TextPattern pattern;
  if (text.empty()) {  // matches between all characters, which the search for a text cannot find
    pattern.regex_.emplace("", Regex::kNone, "");
  } else {
    pattern.literal_ = std::move(text);
  }
  return pattern;
}

TextPattern TextPattern::regex(std::string_view oniguruma, const std::string& where) {
  TextPattern pattern;
  const std::string rewritten = pattern_from_oniguruma(oniguruma, where);
  try {
    pattern.regex_.emplace(rewritten, Regex::kMultiline, where);
  } catch (Error& e) {
    if (rewritten != oniguruma) e.add_context(fmt::format("{}: pattern \"{}\", rewritten", where, oniguruma));
    throw;
  }
  return pattern;
}

TextPattern TextPattern::words_and_symbols() {
  TextPattern pattern;
  const std::string word = word_set();
  pattern.regex_.emplace(fmt::format("[{0}]+|[^{0}{1}]+", word, space_members()), Regex::kNone, "");
  return pattern;
}

bool is_word_character(char32_t c) {
  static const Regex word("[" + word_set() + "]", Regex::kAnchored, "");
  std::string text;
  append_utf8(&text, c);
  return word.matches(text);
}

TextPattern TextPattern::parse(const Json& value, const std::string& where) {
  if (value.is_object() && value.size() == 1 && value.begin()->is_string()) {
    const std::string& text = value.begin()->get_ref<const std::string&>();
    if (value.begin().key() == "String") return literal(text);
    if (value.begin().key() == "Regex") return regex(text, where);
  }
  fail(ErrorCode::kInvalid, "{}: pattern must be {{\"String\": text}} or {{\"Regex\": text}}", where);
}

void TextPattern::for_each(std::string_view text, FunctionRef<void(size_t, size_t)> found) const {
  if (text.empty()) return;
  if (!regex_) {
    for (size_t at = text.find(literal_); at != std::string_view::npos;
         at = text.find(literal_, at + literal_.size()))
      found(at, at + literal_.size());
    return;
  }
  constexpr size_t kNoMatchYet = static_cast<size_t>(-1);
  size_t last_end = kNoMatchYet;
  size_t begin = 0, end = 0;
  for (size_t at = 0; at <= text.size() && regex_->find(text, at, &begin, &end);) {
    if (begin == end && end == last_end) {
      if (at >= text.size()) return;
      at += utf8_length(text[at]);
      continue;
    }
    last_end = at = end;
    found(begin, end);
  }
}

}  // namespace roundel
