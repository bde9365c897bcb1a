#include "text/jinja/lexer.h"

#include <utf8proc.h>

#include <algorithm>

#include "base/error.h"
#include "text/jinja/python_text.h"

namespace roundel::jinja {
namespace {

constexpr size_t kMaxBytes = 1u << 20;
constexpr auto kNowhere = std::string_view::npos;

std::string normalized(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\r') {
      out += text[i];
    } else {
      out += '\n';
      if (i + 1 < text.size() && text[i + 1] == '\n') ++i;
    }
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

class Lexer {
 public:
  Lexer(const std::string& name, Lexed& lexed) : name_(name), source_(*lexed.source), tokens_(lexed.tokens) {}

  void run() {
    while (at_ < source_.size()) root();
    add(TokenType::kEnd, source_.size(), source_.size());
  }

 private:
  [[noreturn]] void error(std::string message) const {
    fail(ErrorCode::kInvalid, "{}: line {}: {}", name_, line_, message);
  }
  void add(TokenType type, size_t begin, size_t end) {
    tokens_.push_back({type, line_, source_.substr(begin, end - begin)});
  }
  void advance(size_t to) {
    line_ += static_cast<int>(std::count(source_.begin() + static_cast<ptrdiff_t>(at_),
                                         source_.begin() + static_cast<ptrdiff_t>(to), '\n'));
    line_starting_ = to > at_ ? source_[to - 1] == '\n' : line_starting_;
    at_ = to;
  }
  bool matches(size_t at, std::string_view what) const { return source_.substr(at, what.size()) == what; }
  size_t skip_space(size_t at) const {
    while (at < source_.size()) {
      size_t next = at;
      if (!is_space(take_character(source_, next))) break;
      at = next;
    }
    return at;
  }

  size_t find_tag(size_t from) const {
    for (size_t at = from; (at = source_.find('{', at)) != kNowhere; ++at) {
      char next = at + 1 < source_.size() ? source_[at + 1] : '\0';
      if (next == '%' || next == '{' || next == '#') return at;
    }
    return kNowhere;
  }

  // Text up to the tag at `tag`, less the white space that the tag takes away.
  void data(size_t tag, char sign, bool variable) {
    std::string_view text = source_.substr(at_, tag - at_);
    if (sign == '-') {
      text = strip(text, Side::kRight);
    } else if (sign != '+' && !variable) {
      size_t line_start = text.rfind('\n') + 1;  // npos + 1 is 0
      if ((line_start > 0 || line_starting_) && strip(text.substr(line_start), Side::kBoth).empty())
        text = text.substr(0, line_start);
    }
    if (!text.empty()) tokens_.push_back({TokenType::kData, line_, text});
    advance(tag);
  }

  char sign_at(size_t at) const {
    char c = at < source_.size() ? source_[at] : '\0';
    return c == '-' || c == '+' ? c : '\0';
  }

  void root() {
    size_t tag = find_tag(at_);
    if (tag == kNowhere) {
      add(TokenType::kData, at_, source_.size());
      return advance(source_.size());
    }
    char kind = source_[tag + 1], sign = sign_at(tag + 2);
    data(tag, sign, kind == '{');
    size_t inside = tag + 2 + (sign != '\0');
    if (kind == '%')
      if (size_t end = raw_begin(inside); end != kNowhere) {
        advance(end);
        return raw();
      }
    if (kind == '#') {
      advance(inside);
      return comment();
    }
    add(kind == '{' ? TokenType::kVariableBegin : TokenType::kBlockBegin, tag, inside);
    advance(inside);
    line_starting_ = false;
    inside_tag(kind == '{' ? '}' : '%');
  }

  // End of "raw %}" when it stands at `at`.
  size_t raw_begin(size_t at) const {
    at = skip_space(at);
    if (!matches(at, "raw")) return kNowhere;
    at = skip_space(at + 3);
    if (matches(at, "-%}")) return skip_space(at + 3);
    return matches(at, "%}") ? at + 2 : kNowhere;
  }

  // End of the tag that begins to end at `at` ("-%}", "+%}", "%}" and the like); kNowhere when none does.
  size_t tag_end(size_t at, std::string_view end, bool plus, bool trim) const {
    if (matches(at, end)) {
      at += end.size();
      return trim && at < source_.size() && source_[at] == '\n' ? at + 1 : at;
    }
    if (!matches(at + 1, end)) return kNowhere;
    if (source_[at] == '-') return skip_space(at + 1 + end.size());
    return plus && source_[at] == '+' ? at + 1 + end.size() : kNowhere;
  }

  void raw() {
    for (size_t tag = at_; (tag = source_.find("{%", tag)) != kNowhere; ++tag) {
      char sign = sign_at(tag + 2);
      size_t at = skip_space(tag + 2 + (sign != '\0'));
      if (!matches(at, "endraw")) continue;
      size_t end = skip_space(at + 6);
      if (end >= source_.size()) break;
      end = tag_end(end, "%}", true, true);
      if (end == kNowhere) continue;
      data(tag, sign, false);
      return advance(end);
    }
    if (at_ < source_.size()) error("the raw block has no end");
  }

  void comment() {
    if (at_ == source_.size()) return;  // Jinja does not mind either
    size_t hit = source_.find("#}", at_);
    if (hit == kNowhere) error("the comment has no end");
    char sign = hit > at_ ? sign_at(hit - 1) : '\0';
    advance(tag_end(sign ? hit - 1 : hit, "#}", true, true));
  }

  void inside_tag(char kind) {
    std::string_view end_text = kind == '}' ? "}}" : "%}";
    bool block = kind == '%';
    std::string open;  // closing brackets that are still to come
    while (at_ < source_.size()) {
      if (open.empty()) {
        if (size_t end = tag_end(at_, end_text, block, block); end != kNowhere) {
          add(block ? TokenType::kBlockEnd : TokenType::kVariableEnd, at_, end);
          return advance(end);
        }
      }
      if (size_t space = skip_space(at_); space != at_) {
        advance(space);
        continue;
      }
      token(open);
    }
  }

  void token(std::string& open) {
    char c = source_[at_];
    if (is_digit(c)) return number();
    if (c == '\'' || c == '"') return string(c);
    if (size_t end = name_end(); end != at_) {
      add(TokenType::kName, at_, end);
      return advance(end);
    }
    static constexpr std::string_view kLong[] = {"//", "**", "==", "!=", ">=", "<="};
    size_t length = 1;
    for (std::string_view op : kLong)
      if (matches(at_, op)) length = 2;
    if (length == 1 && std::string_view("+-/*%~[](){}><=.:|,;").find(c) == kNowhere) {
      size_t end = at_;
      take_character(source_, end);
      error(fmt::format("unexpected character {}", repr_of(source_.substr(at_, end - at_))));
    }
    balance(c, open);
    add(TokenType::kOperator, at_, at_ + length);
    advance(at_ + length);
  }

  void balance(char c, std::string& open) const {
    switch (c) {
      case '{':
        open += '}';
        return;
      case '(':
        open += ')';
        return;
      case '[':
        open += ']';
        return;
      case '}':
      case ')':
      case ']':
        if (open.empty()) error(fmt::format("unexpected '{}'", c));
        if (open.back() != c) error(fmt::format("unexpected '{}', expected '{}'", c, open.back()));
        open.pop_back();
        return;
      default:
        return;
    }
  }

  size_t name_end() const {
    size_t end = at_;
    while (end < source_.size()) {
      size_t next = end;
      char32_t c = take_character(source_, next);
      bool good = c < 0x80 ? c == '_' || is_digit(static_cast<char>(c)) || (c >= 'a' && c <= 'z') ||
                                 (c >= 'A' && c <= 'Z')
                           : word_character(c);
      if (!good) break;
      end = next;
    }
    return end;
  }

  static bool word_character(char32_t c) {
    auto k = utf8proc_category(static_cast<utf8proc_int32_t>(c));
    return (k >= UTF8PROC_CATEGORY_LU && k <= UTF8PROC_CATEGORY_NL) || k == UTF8PROC_CATEGORY_PC;
  }

  // digits, single "_" between them
  size_t digits_end(size_t at, std::string_view alphabet) const {
    size_t end = at, start = at;
    while (at < source_.size()) {
      char c = source_[at] >= 'A' && source_[at] <= 'F' ? static_cast<char>(source_[at] + 32) : source_[at];
      if (alphabet.find(c) != kNowhere) {
        end = ++at;
      } else if (c == '_' && end == at && at > start) {
        ++at;
      } else {
        break;
      }
    }
    return end;
  }

  void number() {
    constexpr std::string_view kDecimal = "0123456789";
    size_t end = digits_end(at_, kDecimal);
    bool is_float = false;
    bool after_dot = at_ > 0 && source_[at_ - 1] == '.';
    if (!after_dot) {
      if (end < source_.size() && source_[end] == '.')
        if (size_t more = digits_end(end + 1, kDecimal); more != end + 1) {
          end = more;
          is_float = true;
        }
      if (end < source_.size() && (source_[end] | 32) == 'e') {
        size_t exponent = end + 1;
        if (exponent < source_.size() && (source_[exponent] == '+' || source_[exponent] == '-')) ++exponent;
        if (size_t more = digits_end(exponent, kDecimal); more != exponent) {
          end = more;
          is_float = true;
        }
      }
    }
    if (!is_float && source_[at_] == '0') end = based_end();
    add(is_float ? TokenType::kFloat : TokenType::kInteger, at_, end);
    advance(end);
  }

  // An integer that begins with 0: 0x1f, 0o7, 0b1 or zeros.
  size_t based_end() const {
    char letter = at_ + 1 < source_.size() ? static_cast<char>(source_[at_ + 1] | 32) : '\0';
    std::string_view alphabet = letter == 'x'   ? "0123456789abcdef"
                                : letter == 'o' ? "01234567"
                                : letter == 'b' ? "01"
                                                : "";
    if (!alphabet.empty()) {
      size_t first = at_ + (matches(at_ + 2, "_") ? 3 : 2);
      if (size_t end = digits_end(first, alphabet); end != first) return end;
    }
    return digits_end(at_, "0");
  }

  void string(char quote) {
    size_t end = at_ + 1;
    while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2u : 1u;
    if (end >= source_.size()) error("a string has no end");
    add(TokenType::kString, at_, end + 1);
    advance(end + 1);
  }

  const std::string& name_;
  std::string_view source_;
  std::vector<Token>& tokens_;
  size_t at_ = 0;
  int line_ = 1;
  bool line_starting_ = true;
};

}  // namespace

Lexed lex(const std::string& name, std::string_view text) {
  if (text.size() > kMaxBytes)
    fail(ErrorCode::kLimit, "{}: the template has {} bytes, at most {} are accepted", name, text.size(),
         kMaxBytes);
  for (size_t at = 0; at < text.size();) {
    utf8proc_int32_t character = 0;
    auto length = utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data() + at),
                                   static_cast<utf8proc_ssize_t>(text.size() - at), &character);
    if (length <= 0) fail(ErrorCode::kInvalid, "{}: the template is not valid UTF-8 at byte {}", name, at);
    at += static_cast<size_t>(length);
  }
  Lexed lexed;
  lexed.source = std::make_unique<const std::string>(normalized(text));
  Lexer(name, lexed).run();
  return lexed;
}

}  // namespace roundel::jinja
