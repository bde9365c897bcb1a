// Upper and lower case, character classes, repr of strings and floats as Python has them.
#include <fmt/format.h>
#include <utf8proc.h>

#include <charconv>
#include <cmath>

#include "text/jinja/python_text.h"
#include "text/jinja/special_case.h"

namespace roundel::jinja {
namespace {

utf8proc_category_t category(char32_t c) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(c));
}

bool is_upper(char32_t c) {
  return category(c) == UTF8PROC_CATEGORY_LU || utf8proc_isupper(static_cast<int>(c));
}
bool is_lower(char32_t c) {
  return category(c) == UTF8PROC_CATEGORY_LL || utf8proc_islower(static_cast<int>(c));
}
bool is_titled(char32_t c) {
  return category(c) == UTF8PROC_CATEGORY_LT;
}
bool is_cased(char32_t c) {
  return is_upper(c) || is_lower(c) || is_titled(c);
}

bool is_letter(char32_t c) {
  auto k = category(c);
  return k >= UTF8PROC_CATEGORY_LU && k <= UTF8PROC_CATEGORY_LO;
}
bool is_decimal(char32_t c) {
  return category(c) == UTF8PROC_CATEGORY_ND;
}
bool is_digit(char32_t c) {
  return is_decimal(c) || c == 0xB2 || c == 0xB3 || c == 0xB9 || c == 0x2070 ||
         (c >= 0x2074 && c <= 0x2079) || (c >= 0x2080 && c <= 0x2089) || (c >= 0x2460 && c <= 0x2468);
}
bool is_numeric(char32_t c) {
  auto k = category(c);
  return k == UTF8PROC_CATEGORY_ND || k == UTF8PROC_CATEGORY_NL || k == UTF8PROC_CATEGORY_NO;
}
bool is_printable(char32_t c) {
  if (c == ' ') return true;
  switch (category(c)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_ZS:
      return false;
    default:
      return true;
  }
}

// Marks and the like, which do not separate a letter from the sigma at the end of a word.
bool is_case_ignorable(char32_t c) {
  switch (category(c)) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_SK:
      return true;
    default:
      return c == '\'' || c == '.' || c == ':' || c == 0xB7 || c == 0x2019;
  }
}

void append_upper(std::string& out, char32_t c) {
  if (const SpecialCase* special = special_case(c)) {
    out += special->upper;
  } else {
    append_character(out, static_cast<char32_t>(utf8proc_toupper(static_cast<int>(c))));
  }
}

void append_title(std::string& out, char32_t c) {
  const SpecialCase* special = special_case(c);
  if (special && *special->title) {
    out += special->title;
  } else {
    append_character(out, static_cast<char32_t>(utf8proc_totitle(static_cast<int>(c))));
  }
}

// `at` is behind the sigma; `cased`: a letter stands before it.
bool ends_word(std::string_view text, size_t at, bool cased) {
  if (!cased) return false;
  while (at < text.size()) {
    char32_t c = take_character(text, at);
    if (!is_case_ignorable(c)) return !is_cased(c);
  }
  return true;
}

// Follows whether the last character that is not ignorable is cased.
struct WordState {
  bool cased = false;
  void see(char32_t c) {
    if (!is_case_ignorable(c)) cased = is_cased(c);
  }
};

void append_lower(std::string& out, char32_t c, std::string_view text, size_t at, bool cased) {
  if (c == 0x130) {
    out += "i\xCC\x87";
  } else if (c == 0x3A3 && ends_word(text, at, cased)) {
    append_character(out, 0x3C2);
  } else {
    append_character(out, static_cast<char32_t>(utf8proc_tolower(static_cast<int>(c))));
  }
}

// Python's rule for a whole text: some cased character, and none of the wrong case.
bool all_of_case(std::string_view text, bool upper) {
  bool any = false;
  for (size_t at = 0; at < text.size();) {
    char32_t c = take_character(text, at);
    if (is_titled(c) || (upper ? is_lower(c) : is_upper(c))) return false;
    any = any || is_cased(c);
  }
  return any;
}

bool is_title_text(std::string_view text) {
  bool any = false, cased = false;
  for (size_t at = 0; at < text.size();) {
    char32_t c = take_character(text, at);
    bool head = is_upper(c) || is_titled(c);
    if (head ? cased : is_lower(c) && !cased) return false;
    cased = head || is_lower(c);
    any = any || cased;
  }
  return any;
}

}  // namespace

bool text_is(std::string_view text, std::string_view name) {
  if (name == "lower") return all_of_case(text, false);
  if (name == "upper") return all_of_case(text, true);
  if (name == "title") return is_title_text(text);
  if (text.empty()) return false;
  for (size_t at = 0; at < text.size();) {
    char32_t c = take_character(text, at);
    bool good = name == "alpha"     ? is_letter(c)
                : name == "digit"   ? is_digit(c)
                : name == "decimal" ? is_decimal(c)
                : name == "numeric" ? is_numeric(c)
                : name == "space"   ? is_space(c)
                                    : is_letter(c) || is_numeric(c);
    if (!good) return false;
  }
  return true;
}

std::string to_upper(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) append_upper(out, take_character(text, at));
  return out;
}

std::string to_lower(std::string_view text) {
  std::string out;
  WordState word;
  for (size_t at = 0; at < text.size();) {
    char32_t c = take_character(text, at);
    append_lower(out, c, text, at, word.cased);
    word.see(c);
  }
  return out;
}

std::string to_title(std::string_view text) {
  std::string out;
  bool inside = false;
  WordState word;
  for (size_t at = 0; at < text.size();) {
    char32_t c = take_character(text, at);
    if (inside) {
      append_lower(out, c, text, at, word.cased);
    } else {
      append_title(out, c);
    }
    word.see(c);
    inside = is_cased(c);
  }
  return out;
}

std::string to_capitalized(std::string_view text) {
  std::string out;
  WordState word;
  for (size_t at = 0; at < text.size();) {
    bool first = at == 0;
    char32_t c = take_character(text, at);
    if (first) {
      append_title(out, c);
    } else {
      append_lower(out, c, text, at, word.cased);
    }
    word.see(c);
  }
  return out;
}

std::string repr_of(std::string_view text) {
  bool single = text.find('\'') != text.npos, twice = text.find('"') != text.npos;
  char quote = single && !twice ? '"' : '\'';
  std::string out(1, quote);
  auto hex = [&](char letter, char32_t value, int digits) {
    out += '\\';
    out += letter;
    for (int i = digits - 1; i >= 0; --i) out += "0123456789abcdef"[(value >> (4 * i)) & 15];
  };
  for (size_t at = 0; at < text.size();) {
    size_t start = at;
    char32_t c = take_character(text, at);
    if (c == static_cast<char32_t>(quote) || c == '\\') {
      out += '\\';
      out += static_cast<char>(c);
    } else if (c == '\n' || c == '\r' || c == '\t') {
      out += c == '\n' ? "\\n" : c == '\r' ? "\\r" : "\\t";
    } else if (is_printable(c)) {
      out += text.substr(start, at - start);
    } else if (c < 0x100) {
      hex('x', c, 2);
    } else if (c < 0x10000) {
      hex('u', c, 4);
    } else {
      hex('U', c, 8);
    }
  }
  return out += quote;
}

std::string float_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[40];
  auto end = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific).ptr;
  std::string_view text(buffer, static_cast<size_t>(end - buffer));
  std::string sign(text.front() == '-' ? 1 : 0, '-');
  if (!sign.empty()) text.remove_prefix(1);
  size_t e = text.find('e');
  std::string digits(1, text[0]);
  if (e > 2) digits += text.substr(2, e - 2);
  int exponent = 0;
  bool negative = text[e + 1] == '-';
  std::from_chars(text.data() + e + 2, text.data() + text.size(), exponent);
  if (negative) exponent = -exponent;
  if (exponent < -4 || exponent >= 16) {  // as repr does
    std::string_view rest = std::string_view(digits).substr(1);
    return fmt::format("{}{}{}{}e{}{:02}", sign, digits[0], rest.empty() ? "" : ".", rest,
                       exponent < 0 ? '-' : '+', std::abs(exponent));
  }
  if (exponent < 0) return fmt::format("{}0.{:0>{}}{}", sign, "", -exponent - 1, digits);
  auto whole = static_cast<size_t>(exponent) + 1;
  if (digits.size() <= whole) return fmt::format("{}{:0<{}}.0", sign, digits, whole);
  digits.insert(whole, 1, '.');
  return sign + digits;
}

}  // namespace roundel::jinja
