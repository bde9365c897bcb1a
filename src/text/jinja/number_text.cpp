#include "text/jinja/number_text.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <string>

#include "base/error.h"
#include "text/jinja/python_text.h"

namespace roundel::jinja {
namespace {

// Digits without "_"; nothing when a "_" is not between two letters or digits.
std::optional<std::string> without_underscores(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      out += text[i];
      continue;
    }
    auto digit = [&](size_t at) { return at < text.size() && text[at] >= '0' && text[at] <= '9'; };
    if (i == 0 || !digit(i - 1) || !digit(i + 1)) return std::nullopt;
  }
  return out;
}

int digit_of(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  char lower = static_cast<char>(c | 32);
  return lower >= 'a' && lower <= 'z' ? lower - 'a' + 10 : 99;
}

// digits[.digits][e[+-]digits] with at least one digit before the exponent
bool is_decimal_float(std::string_view text) {
  size_t at = 0;
  auto digits = [&] {
    size_t start = at;
    while (at < text.size() && text[at] >= '0' && text[at] <= '9') ++at;
    return at - start;
  };
  size_t count = digits();
  if (at < text.size() && text[at] == '.') {
    ++at;
    count += digits();
  }
  if (count == 0) return false;
  if (at < text.size() && (text[at] | 32) == 'e') {
    ++at;
    if (at < text.size() && (text[at] == '+' || text[at] == '-')) ++at;
    if (digits() == 0) return false;
  }
  return at == text.size();
}

}  // namespace

std::optional<int64_t> parse_int(std::string_view text, int64_t base) {
  if (base != 0 && (base < 2 || base > 36))
    fail(ErrorCode::kInvalid, "int: base {} is not 0 or 2 to 36", base);
  text = strip(text, Side::kBoth);
  bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  if (text.size() > 2 && text[0] == '0') {
    char letter = static_cast<char>(text[1] | 32);
    int64_t prefix = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 0;
    if (prefix != 0 && (base == prefix || base == 0)) {
      base = prefix;
      text.remove_prefix(text[2] == '_' ? 3 : 2);
    }
  }
  if (base == 0) base = 10;
  int64_t value = 0;
  bool separated = true;  // a "_" may not stand here
  for (char c : text) {
    if (c == '_') {
      if (separated) return std::nullopt;
      separated = true;
      continue;
    }
    separated = false;
    int digit = digit_of(c);
    if (digit >= base) return std::nullopt;
    if (__builtin_mul_overflow(value, base, &value) || __builtin_sub_overflow(value, digit, &value))
      fail(ErrorCode::kLimit, "int: {} does not fit 64 bits", text.substr(0, 40));
  }
  if (separated) return std::nullopt;  // no digits, or "_" at the end
  if (negative) return value;          // collected with the negative sign, which has one more value
  if (value == std::numeric_limits<int64_t>::min())
    fail(ErrorCode::kLimit, "int: {} does not fit 64 bits", text.substr(0, 40));
  return -value;
}

double decimal_value(std::string_view digits) {
  double value = 0;
  auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (code != std::errc::result_out_of_range) return value;
  // the place of the first digit that is not 0 says whether it is too large or too small
  size_t e = std::min(digits.find_first_of("eE"), digits.size());
  size_t point = std::min(digits.find('.'), e), first = digits.find_first_of("123456789");
  int64_t place = static_cast<int64_t>(point) - static_cast<int64_t>(first);
  bool negative = digits.substr(std::min(e + 1, digits.size())).starts_with('-');
  int64_t exponent = 0;
  for (char c : digits.substr(e))
    if (c >= '0' && c <= '9') exponent = std::min<int64_t>(exponent * 10 + (c - '0'), 1 << 30);
  return place + (negative ? -exponent : exponent) > 0 ? std::numeric_limits<double>::infinity() : 0.0;
}

std::optional<double> parse_float(std::string_view text) {
  text = strip(text, Side::kBoth);
  auto plain = without_underscores(text);
  if (!plain) return std::nullopt;
  std::string_view digits = *plain;
  bool negative = digits.starts_with('-');
  if (negative || digits.starts_with('+')) digits.remove_prefix(1);
  std::string lower = to_lower(digits);
  double value = 0;
  if (lower == "inf" || lower == "infinity") {
    value = std::numeric_limits<double>::infinity();
  } else if (lower == "nan") {
    value = std::numeric_limits<double>::quiet_NaN();
  } else if (is_decimal_float(lower)) {
    value = decimal_value(lower);
  } else {
    return std::nullopt;
  }
  return negative ? -value : value;
}

}  // namespace roundel::jinja
