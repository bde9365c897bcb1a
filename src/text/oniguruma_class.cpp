#include "text/oniguruma_class.h"

#include <algorithm>
#include <array>
#include <vector>

#include "base/error.h"
#include "base/regex.h"
#include "base/utf8.h"
#include "text/unicode_recent.h"

namespace roundel {
namespace {

constexpr int kMaxNesting = 32;

// White_Space. PCRE2's own \s also has U+180E.
constexpr std::string_view kSpace =
    "\\x{9}-\\x{D}\\x{20}\\x{85}\\x{A0}\\x{1680}\\x{2000}-\\x{200A}\\x{2028}\\x{2029}\\x{202F}\\x{205F}\\x{"
    "3000}";

struct CategoryName {
  std::string_view name;  // lower case, without separators
  std::string_view category;
};
constexpr CategoryName kCategories[] = {
    {"l", "L"},   {"letter", "L"},
    {"lu", "Lu"}, {"uppercaseletter", "Lu"},
    {"ll", "Ll"}, {"lowercaseletter", "Ll"},
    {"lt", "Lt"}, {"titlecaseletter", "Lt"},
    {"lm", "Lm"}, {"modifierletter", "Lm"},
    {"lo", "Lo"}, {"otherletter", "Lo"},
    {"m", "M"},   {"mark", "M"},
    {"mn", "Mn"}, {"nonspacingmark", "Mn"},
    {"mc", "Mc"}, {"spacingmark", "Mc"},
    {"me", "Me"}, {"enclosingmark", "Me"},
    {"n", "N"},   {"number", "N"},
    {"nd", "Nd"}, {"decimalnumber", "Nd"},
    {"nl", "Nl"}, {"letternumber", "Nl"},
    {"no", "No"}, {"othernumber", "No"},
    {"p", "P"},   {"punctuation", "P"},
    {"pc", "Pc"}, {"connectorpunctuation", "Pc"},
    {"pd", "Pd"}, {"dashpunctuation", "Pd"},
    {"ps", "Ps"}, {"openpunctuation", "Ps"},
    {"pe", "Pe"}, {"closepunctuation", "Pe"},
    {"pi", "Pi"}, {"initialpunctuation", "Pi"},
    {"pf", "Pf"}, {"finalpunctuation", "Pf"},
    {"po", "Po"}, {"otherpunctuation", "Po"},
    {"s", "S"},   {"symbol", "S"},
    {"sm", "Sm"}, {"mathsymbol", "Sm"},
    {"sc", "Sc"}, {"currencysymbol", "Sc"},
    {"sk", "Sk"}, {"modifiersymbol", "Sk"},
    {"so", "So"}, {"othersymbol", "So"},
    {"z", "Z"},   {"separator", "Z"},
    {"zs", "Zs"}, {"spaceseparator", "Zs"},
    {"zl", "Zl"}, {"lineseparator", "Zl"},
    {"zp", "Zp"}, {"paragraphseparator", "Zp"},
    {"cc", "Cc"}, {"control", "Cc"},
    {"cf", "Cf"}, {"format", "Cf"},
};

std::string category_members(std::string_view category) {
  std::string members = fmt::format("\\p{{{}}}", category);
  append_recent_ranges(&members, category);
  return members;
}

// Marks that became alphabetic after Unicode 14.
constexpr std::string_view kAlphabeticMarks =
    "\\x{363}-\\x{36F}\\x{897}\\x{C04}\\x{CF3}\\x{F82}\\x{F83}\\x{1DD3}-\\x{1DE6}\\x{10D69}\\x{10EFC}\\x{"
    "11080}"
    "\\x{11081}\\x{11241}\\x{113B8}-\\x{113C0}\\x{113C2}\\x{113C5}\\x{113C7}-\\x{113CA}\\x{113CC}\\x{113CD}"
    "\\x{11F00}\\x{11F01}\\x{11F03}\\x{11F34}-\\x{11F3A}\\x{11F3E}-\\x{11F40}\\x{1611E}-\\x{1612E}\\x{1E08F}";

std::string alphabetic_members() {
  std::string members = "\\p{Alphabetic}";
  members += kAlphabeticMarks;
  append_recent_ranges(&members, "L");
  return members;
}

// POSIX names, in brackets or as a property.
std::optional<std::string> posix_members(std::string_view name) {
  if (name == "alpha") return alphabetic_members();
  if (name == "alnum") return alphabetic_members() + category_members("Nd");
  if (name == "blank") return "\\x{9}" + category_members("Zs");
  if (name == "cntrl") return category_members("Cc");
  if (name == "digit") return category_members("Nd");
  if (name == "lower") return "\\p{Lowercase}" + category_members("Ll");
  if (name == "upper") return "\\p{Uppercase}" + category_members("Lu");
  if (name == "punct") return category_members("P") + category_members("S");
  if (name == "space") return std::string(kSpace);
  if (name == "xdigit") return "0-9A-Fa-f";
  if (name == "word") return unicode_word_members();
  if (name == "ascii") return "\\x{0}-\\x{7F}";
  return std::nullopt;
}

bool compiles(const std::string& pattern) {
  try {
    const Regex checked(pattern, Regex::kNone, "");
    return true;
  } catch (const Error&) {
    return false;
  }
}

std::string property_members(std::string_view written, const std::string& where) {
  std::string name;
  for (const char c : written) {
    if (c == ' ' || c == '_' || c == '-') continue;
    name += c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  }
  const auto known = std::find_if(std::begin(kCategories), std::end(kCategories),
                                  [&](const CategoryName& k) { return k.name == name; });
  if (known != std::end(kCategories)) return category_members(known->category);
  if (auto members = posix_members(name)) return *members;
  const bool plain = !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
  });
  // A script, or a property of two values. Scripts do not include the characters that they share with others.
  for (const char* form : {"\\p{{sc:{}}}", "\\p{{{}}}"}) {
    std::string members = fmt::format(fmt::runtime(form), name);
    if (!plain || !compiles(members)) continue;
    if (name == "han") members += "\\x{2B739}\\x{2EBF0}-\\x{2EE5D}\\x{31350}-\\x{323AF}";  // since Unicode 14
    return members;
  }
  fail(ErrorCode::kUnsupported, "{}: the property \\p{{{}}} in the pattern is not known", where, written);
}

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// Up to max_digits hexadecimal digits from *at.
char32_t read_hex(std::string_view pattern, size_t* at, size_t max_digits, const std::string& where) {
  char32_t value = 0;
  size_t digits = 0;
  for (; digits < max_digits && *at < pattern.size() && hex_value(pattern[*at]) >= 0; ++digits, ++*at)
    value = value * 16 + static_cast<char32_t>(hex_value(pattern[*at]));
  if (digits == 0 || value > 0x10FFFF || (value >= 0xD800 && value <= 0xDFFF))
    fail(ErrorCode::kInvalid, "{}: the pattern \"{}\" has a wrong hexadecimal escape at byte {}", where,
         pattern, *at);
  return value;
}

char32_t read_x_escape(std::string_view pattern, size_t* at, const std::string& where) {
  *at += 2;
  if (*at < pattern.size() && pattern[*at] == '{') {
    ++*at;
    const char32_t c = read_hex(pattern, at, 8, where);
    if (*at >= pattern.size() || pattern[*at] != '}')
      fail(ErrorCode::kInvalid, "{}: the pattern \"{}\" lacks a }} at byte {}", where, pattern, *at);
    ++*at;
    return c;
  }
  const char32_t c = read_hex(pattern, at, 2, where);
  if (c >= 0x80)
    fail(ErrorCode::kUnsupported,
         "{}: the pattern \"{}\" names the byte {:#x}; only characters are supported", where, pattern,
         static_cast<uint32_t>(c));
  return c;
}

class BracketReader {
 public:
  BracketReader(std::string_view pattern, size_t at, const std::string& where)
      : pattern_(pattern), at_(at), where_(where) {}
  size_t at() const { return at_; }

  std::string read(int depth) {
    if (depth > kMaxNesting)
      fail(ErrorCode::kLimit, "{}: sets nested deeper than {} in a pattern", where_, kMaxNesting);
    const size_t begin = at_++;
    const bool negated = peek() == '^';
    if (negated) ++at_;
    std::vector<Operand> operands(1);
    for (bool first = true;; first = false) {
      if (at_ >= pattern_.size())
        fail(ErrorCode::kInvalid, "{}: the pattern \"{}\" does not compile: missing ] for the [ at byte {}",
             where_, pattern_, begin);
      if (peek() == ']' && !first) break;
      if (pattern_.substr(at_, 2) == "&&") {
        operands.emplace_back();
        at_ += 2;
      } else {
        read_item(&operands.back(), depth);
      }
    }
    ++at_;
    return combined(operands, negated);
  }

 private:
  struct Operand {
    std::string members;              // the inside of a class
    std::vector<std::string> nested;  // patterns of one character each
    std::string pattern() const {
      if (nested.empty()) return members.empty() ? "(?!)" : "[" + members + "]";
      std::string all = members.empty() ? "" : "[" + members + "]|";
      for (size_t i = 0; i < nested.size(); ++i) all += (i ? "|" : "") + nested[i];
      return "(?:" + all + ")";
    }
  };

  char peek(size_t ahead = 0) const { return at_ + ahead < pattern_.size() ? pattern_[at_ + ahead] : '\0'; }

  static std::string combined(const std::vector<Operand>& operands, bool negated) {
    if (operands.size() == 1 && operands[0].nested.empty() && !operands[0].members.empty())
      return CharacterSet{operands[0].members, negated}.pattern();
    std::string all;
    for (size_t i = 0; i + 1 < operands.size(); ++i) all += "(?=" + operands[i].pattern() + ")";
    all += operands.back().pattern();
    return negated ? "(?:(?!" + all + ")(?s:.))" : "(?:" + all + ")";
  }

  void add(Operand* operand, const CharacterSet& set) {
    if (set.negated) {
      operand->nested.push_back(set.pattern());
    } else {
      operand->members += set.members;
    }
  }

  bool read_posix(Operand* operand) {
    if (pattern_.substr(at_, 2) != "[:") return false;
    const size_t end = pattern_.find(":]", at_ + 2);
    if (end == std::string_view::npos) return false;
    std::string_view name = pattern_.substr(at_ + 2, end - at_ - 2);
    const bool negated = name.starts_with('^');
    if (negated) name.remove_prefix(1);
    const auto members = posix_members(name);
    if (!members)
      fail(ErrorCode::kUnsupported, "{}: the set [:{}:] in the pattern is not known", where_, name);
    add(operand, {*members, negated});
    at_ = end + 2;
    return true;
  }

  char32_t read_end_point() {
    const size_t begin = at_;
    const auto c = read_code_point(pattern_, &at_, true, where_);
    if (!c)
      fail(ErrorCode::kUnsupported, "{}: the pattern \"{}\" has an escape at byte {} that a set cannot hold",
           where_, pattern_, begin);
    return *c;
  }

  void read_item(Operand* operand, int depth) {
    if (read_posix(operand)) return;
    if (peek() == '[') {
      operand->nested.push_back(read(depth + 1));
      return;
    }
    if (const auto set = read_class_escape(pattern_, &at_, true, where_)) return add(operand, *set);
    const char32_t low = read_end_point();
    operand->members += escaped_code_point(low);
    if (peek() != '-' || peek(1) == ']' || peek(1) == '\0') return;
    size_t behind = at_ + 1;
    if (peek(1) == '[' || pattern_.substr(behind, 2) == "&&" ||
        read_class_escape(pattern_, &behind, true, where_))
      return;
    ++at_;
    const char32_t high = read_end_point();
    if (high < low)
      fail(ErrorCode::kInvalid, "{}: the pattern \"{}\" has an empty range before byte {}", where_, pattern_,
           at_);
    operand->members += "-" + escaped_code_point(high);
  }

  std::string_view pattern_;
  size_t at_;
  const std::string& where_;
};

}  // namespace

std::string escaped_code_point(char32_t c) {
  if ((c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z'))
    return {static_cast<char>(c)};
  return fmt::format("\\x{{{:X}}}", static_cast<uint32_t>(c));
}

std::string space_members() {
  return std::string(kSpace);
}

std::string unicode_word_members() {
  return alphabetic_members() + category_members("M") + category_members("Nd") + category_members("Pc");
}

std::string word_members() {
  return unicode_word_members() + "\\x{B2}\\x{B3}\\x{B9}\\x{BC}-\\x{BE}";
}

std::optional<CharacterSet> read_class_escape(std::string_view pattern, size_t* at, bool in_class,
                                              const std::string& where) {
  if (*at + 1 >= pattern.size() || pattern[*at] != '\\') return std::nullopt;
  const char letter = pattern[*at + 1];
  if (letter == 'p' || letter == 'P') {
    const size_t end = pattern.find('}', *at);
    if (*at + 2 >= pattern.size() || pattern[*at + 2] != '{' || end == std::string_view::npos)
      fail(ErrorCode::kInvalid, "{}: the pattern \"{}\" does not compile: malformed \\{} at byte {}", where,
           pattern, letter, *at);
    std::string_view name = pattern.substr(*at + 3, end - *at - 3);
    const bool caret = name.starts_with('^');
    if (caret) name.remove_prefix(1);
    *at = end + 1;
    return CharacterSet{property_members(name, where), caret != (letter == 'P')};
  }
  std::string members;
  switch (letter) {
    case 's':
    case 'S':
      members = kSpace;
      break;
    case 'd':
    case 'D':
      members = category_members("Nd");
      break;
    case 'w':
    case 'W':
      members = in_class ? unicode_word_members() : word_members();
      break;
    case 'h':
    case 'H':
      members = "0-9A-Fa-f";
      break;
    default:
      return std::nullopt;
  }
  *at += 2;
  return CharacterSet{members, letter < 'a'};
}

std::optional<char32_t> read_code_point(std::string_view pattern, size_t* at, bool in_class,
                                        const std::string& where) {
  if (pattern[*at] != '\\') return next_code_point(pattern, at);
  if (*at + 1 >= pattern.size())
    fail(ErrorCode::kInvalid, "{}: the pattern \"{}\" does not compile: it ends in a backslash", where,
         pattern);
  constexpr std::string_view kLetters = "tnrfaev";
  constexpr std::array<char32_t, 7> kControls = {'\t', '\n', '\r', '\f', '\a', 0x1B, '\v'};
  const char letter = pattern[*at + 1];
  if (const size_t i = kLetters.find(letter); i != std::string_view::npos) {
    *at += 2;
    return kControls[i];
  }
  if (letter == 'x') return read_x_escape(pattern, at, where);
  if (letter == 'u') {
    *at += 2;
    return read_hex(pattern, at, 4, where);
  }
  if (letter == 'b' && in_class) {
    *at += 2;
    return '\b';
  }
  const bool word = (letter >= '0' && letter <= '9') || (letter >= 'A' && letter <= 'Z') ||
                    (letter >= 'a' && letter <= 'z');
  if (word) return std::nullopt;
  ++*at;
  return next_code_point(pattern, at);
}

std::string read_bracket(std::string_view pattern, size_t* at, const std::string& where) {
  BracketReader reader(pattern, *at, where);
  std::string rewritten = reader.read(0);
  *at = reader.at();
  return rewritten;
}

}  // namespace roundel
