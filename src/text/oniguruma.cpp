#include "text/oniguruma.h"

#include <optional>
#include <vector>

#include "base/error.h"
#include "base/utf8.h"
#include "text/oniguruma_class.h"

namespace roundel {
namespace {

constexpr size_t kNone = static_cast<size_t>(-1);
constexpr size_t kMaxGroups = 200;

class Rewriter {
 public:
  Rewriter(std::string_view pattern, const std::string& where) : pattern_(pattern), where_(where) {}

  std::string run() {
    groups_.push_back({0, 0});
    while (at_ < pattern_.size()) step();
    if (groups_.size() != 1) fail_at("does not compile: missing )", groups_.back().begin_in_pattern);
    close_options();
    return std::move(out_);
  }

 private:
  struct Group {
    size_t begin;             // in the output
    size_t begin_in_pattern;  // for messages
    int open_options = 0;     // groups that an option in the middle of this one opened
  };

  [[noreturn]] void fail_at(const char* problem, size_t at) const {
    fail(ErrorCode::kInvalid, "{}: the pattern \"{}\" {} at byte {}", where_, pattern_, problem, at);
  }
  [[noreturn]] void unsupported(const char* what) const {
    fail(ErrorCode::kUnsupported, "{}: the pattern \"{}\" has {} at byte {}, which is not supported", where_,
         pattern_, what, at_);
  }
  char peek(size_t ahead = 0) const { return at_ + ahead < pattern_.size() ? pattern_[at_ + ahead] : '\0'; }
  bool next_is(std::string_view text) const { return pattern_.substr(at_, text.size()) == text; }

  // The element that a quantifier behind it repeats begins here.
  void begin_atom() {
    atom_ = out_.size();
    quantified_ = false;
  }

  void step() {
    switch (peek()) {
      case '\\':
        return escape();
      case '[':
        begin_atom();
        out_ += read_bracket(pattern_, &at_, where_);
        return;
      case '(':
        return open_group();
      case ')':
        return close_group();
      case '*':
      case '+':
      case '?':
        return simple_quantifier();
      case '{':
        return interval();
      case '|':
      case '^':
      case '$':
        out_ += pattern_[at_++];
        atom_ = kNone;
        return;
      default: {
        begin_atom();
        const size_t length = utf8_length(peek());
        out_ += pattern_.substr(at_, length);
        at_ += length;
      }
    }
  }

  void escape() {
    const char letter = peek(1);
    if (letter == 'b' || letter == 'B') {  // PCRE2's own takes other characters for parts of words
      const std::string w = word_members();
      out_ += letter == 'b' ? fmt::format("(?:(?<=[{0}])(?![{0}])|(?<![{0}])(?=[{0}]))", w)
                            : fmt::format("(?:(?<=[{0}])(?=[{0}])|(?<![{0}])(?![{0}]))", w);
      at_ += 2;
      atom_ = kNone;
      return;
    }
    begin_atom();
    if (const auto set = read_class_escape(pattern_, &at_, false, where_)) {
      out_ += set->pattern();
    } else if (const auto c = read_code_point(pattern_, &at_, false, where_)) {
      out_ += escaped_code_point(*c);
    } else {
      other_escape(letter);
    }
  }

  // Escapes that mean the same for both, and those that only one of them knows.
  void other_escape(char letter) {
    constexpr std::string_view kSame = "AzZGRXKkg0123456789";
    if (letter == 'O') {
      out_ += "(?s:.)";
    } else if (letter == 'N') {
      out_ += "[^\\n]";
    } else if (kSame.find(letter) != std::string_view::npos) {
      out_ += '\\';
      out_ += letter;
    } else {
      unsupported("an unknown escape");
    }
    at_ += 2;
  }

  void open_group() {
    if (groups_.size() > kMaxGroups) fail_at("nests too many groups", at_);
    if (next_is("(*")) unsupported("(*");
    if (next_is("(?#")) {
      const size_t end = pattern_.find(')', at_);
      if (end == std::string_view::npos) fail_at("does not compile: missing )", at_);
      at_ = end + 1;
      return;
    }
    const size_t begin_in_pattern = at_;
    if (!next_is("(?")) {
      groups_.push_back({out_.size(), begin_in_pattern});
      out_ += pattern_[at_++];
    } else if (const char kind = peek(2); kind == ':' || kind == '=' || kind == '!' || kind == '>') {
      groups_.push_back({out_.size(), begin_in_pattern});
      out_ += pattern_.substr(at_, 3);
      at_ += 3;
    } else if (kind == '<' || kind == '\'') {
      groups_.push_back({out_.size(), begin_in_pattern});
      lookbehind_or_name(kind);
    } else {
      options(begin_in_pattern);
    }
    atom_ = kNone;
  }

  void lookbehind_or_name(char kind) {
    size_t end = at_ + 4;
    if (kind == '\'' || (peek(3) != '=' && peek(3) != '!')) {
      end = pattern_.find(kind == '<' ? '>' : '\'', at_ + 3);
      if (end == std::string_view::npos) fail_at("does not compile: unfinished name", at_);
      ++end;
    }
    out_ += pattern_.substr(at_, end - at_);
    at_ = end;
  }

  // (?imx-imx) up to the end of the enclosing branch and its alternatives, or (?imx-imx:...). Ruby's m is PCRE2's s.
  void options(size_t begin_in_pattern) {
    std::string letters;
    size_t end = at_ + 2;
    for (; end < pattern_.size() && pattern_[end] != ')' && pattern_[end] != ':'; ++end) {
      const char c = pattern_[end];
      if (c == 'i' || c == '-') {
        letters += c;
      } else if (c == 'm') {
        letters += 's';
      } else {
        unsupported("an unknown group option");
      }
    }
    if (end >= pattern_.size()) fail_at("does not compile: missing )", at_);
    if (pattern_[end] == ':') {
      groups_.push_back({out_.size(), begin_in_pattern});
    } else {
      ++groups_.back().open_options;
    }
    out_ += "(?" + letters + ":";
    at_ = end + 1;
  }

  void close_options() { out_.append(static_cast<size_t>(groups_.back().open_options), ')'); }

  void close_group() {
    if (groups_.size() == 1) fail_at("does not compile: unmatched )", at_);
    close_options();
    out_ += ')';
    ++at_;
    atom_ = groups_.back().begin;
    quantified_ = false;
    groups_.pop_back();
  }

  // A second quantifier repeats the repeated element; PCRE2 wants a group for that.
  void before_quantifier() {
    if (atom_ == kNone) fail_at("does not compile: nothing to repeat", at_);
    if (quantified_) {
      out_.insert(atom_, "(?:");
      out_ += ')';
    }
    quantified_ = true;
  }

  void simple_quantifier() {
    before_quantifier();
    out_ += pattern_[at_++];
    if (peek() == '?' || peek() == '+') out_ += pattern_[at_++];
  }

  // {n}, {n,}, {,m}, {n,m}, lazy with ?. A + behind is a quantifier of its own, and so is the ? of {n}?.
  void interval() {
    const auto digits = [this](size_t from) {
      size_t end = from;
      while (end < pattern_.size() && pattern_[end] >= '0' && pattern_[end] <= '9') ++end;
      return end;
    };
    const size_t low_end = digits(at_ + 1);
    const bool comma = low_end < pattern_.size() && pattern_[low_end] == ',';
    const size_t high_end = comma ? digits(low_end + 1) : low_end;
    const bool any = low_end > at_ + 1 || (comma && high_end > low_end + 1);
    if (!any || high_end >= pattern_.size() || pattern_[high_end] != '}') {  // an ordinary brace
      begin_atom();
      out_ += "\\{";
      ++at_;
      return;
    }
    before_quantifier();
    const std::string_view low = pattern_.substr(at_ + 1, low_end - at_ - 1);
    out_ += '{';
    out_ += low.empty() ? "0" : low;
    out_ += pattern_.substr(low_end, high_end + 1 - low_end);
    at_ = high_end + 1;
    if (comma && peek() == '?') out_ += pattern_[at_++];
  }

  std::string_view pattern_;
  const std::string& where_;
  std::string out_;
  size_t at_ = 0;
  size_t atom_ = kNone;
  bool quantified_ = false;
  std::vector<Group> groups_;
};

}  // namespace

std::string pattern_from_oniguruma(std::string_view pattern, const std::string& where) {
  return Rewriter(pattern, where).run();
}

}  // namespace roundel
