// "..." % values and "...".format(values).
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/error.h"
#include "text/jinja/operators.h"
#include "text/jinja/print.h"
#include "text/jinja/python_text.h"

namespace roundel::jinja {
namespace {

constexpr int kMaxWidth = 1000;

struct Directive {  // %[flags][width][.precision]type
  bool left = false, plus = false, space = false, zero = false, alternate = false;
  int width = 0;
  int precision = -1;
  char type = 0;
};

std::string padded(std::string text, size_t characters, const Directive& d, bool number) {
  auto width = static_cast<size_t>(d.width);
  if (characters >= width) return text;
  size_t missing = width - characters;
  if (d.left) return text + std::string(missing, ' ');
  if (d.zero && number) {
    size_t sign = text.empty() || (text[0] != '-' && text[0] != '+' && text[0] != ' ') ? 0 : 1;
    return text.insert(sign, missing, '0');
  }
  return std::string(missing, ' ') + text;
}

std::string int_digits(int64_t value, char type) {
  auto size = static_cast<uint64_t>(value < 0 ? -(value + 1) : value) + (value < 0 ? 1 : 0);
  switch (type) {
    case 'x':
      return fmt::format("{:x}", size);
    case 'X':
      return fmt::format("{:X}", size);
    case 'o':
      return fmt::format("{:o}", size);
    default:
      return fmt::format("{}", size);
  }
}

std::string float_digits(double value, const Directive& d) {
  int precision = d.precision < 0 ? 6 : d.precision;
  std::string format = fmt::format("%{}.{}{}", d.alternate ? "#" : "", precision, d.type);
  char buffer[1500];  // 308 digits, kMaxWidth decimals
  int length = snprintf(buffer, sizeof buffer, format.c_str(), std::fabs(value));
  return std::string(buffer, static_cast<size_t>(std::clamp(length, 0, static_cast<int>(sizeof buffer) - 1)));
}

std::string formatted_number(const Value& value, const Directive& d) {
  if (!value.is_number())
    fail(ErrorCode::kInvalid, "%{} expects a number, got '{}'", d.type, type_name(value));
  bool based = d.type == 'x' || d.type == 'X' || d.type == 'o';
  bool whole = based || d.type == 'd' || d.type == 'i' || d.type == 'u';
  if (based && !value.is_integral())
    fail(ErrorCode::kInvalid, "%{} expects an integer, got '{}'", d.type, type_name(value));
  std::string text;
  bool negative = false;
  if (whole) {
    int64_t number = 0;
    if (value.is_integral()) {
      number = value.as_int();
    } else {
      double f = value.as_double();
      if (!(std::fabs(f) < 9.2e18))
        fail(ErrorCode::kInvalid, "%{}: {} is no integer of 64 bits", d.type, float_text(f));
      number = static_cast<int64_t>(f);
    }
    negative = number < 0;
    text = int_digits(number, d.type);
    if (d.precision > static_cast<int>(text.size()))
      text.insert(0, static_cast<size_t>(d.precision) - text.size(), '0');
    if (d.alternate && based) text = std::string("0") + d.type + text;
  } else {
    negative = std::signbit(value.as_double());
    text = float_digits(value.as_double(), d);
  }
  text = (negative ? "-" : d.plus ? "+" : d.space ? " " : "") + text;
  size_t size = text.size();
  return padded(std::move(text), size, d, true);
}

std::string formatted(const Value& value, const Directive& d, Budget& budget) {
  if (d.type != 's' && d.type != 'r' && d.type != 'a' && d.type != 'c') return formatted_number(value, d);
  std::string text;
  if (d.type == 's') {
    append_text(value, text, budget);
  } else if (d.type == 'c') {
    if (!value.is_string() || count_characters(value.text()) != 1)
      fail(ErrorCode::kInvalid, "%c expects one character");
    text = value.text();
  } else {
    append_repr(value, text, budget);
  }
  size_t characters = count_characters(text);
  if (d.precision >= 0 && characters > static_cast<size_t>(d.precision)) {
    text.resize(byte_of(text, characters, static_cast<size_t>(d.precision)));
    characters = static_cast<size_t>(d.precision);
  }
  return padded(std::move(text), characters, d, false);
}

class PercentFormat {
 public:
  PercentFormat(std::string_view format, const Value& values, Budget& budget)
      : format_(format), values_(values), budget_(budget) {}

  std::string run() {
    std::string out;
    while (at_ < format_.size()) {
      size_t percent = std::min(format_.find('%', at_), format_.size());
      out += format_.substr(at_, percent - at_);
      at_ = percent;
      if (at_ == format_.size()) break;
      ++at_;
      out += directive();
      budget_.step();
      budget_.check_text(out.size());
    }
    // Python lets pass what could be a mapping
    bool mapping = named_ || values_.is(Kind::kDict) || values_.is(Kind::kList) || values_.is(Kind::kRange) ||
                   values_.is_undefined();
    bool unused = values_.is(Kind::kTuple) ? next_ < values_.items().size() : !mapping && next_ == 0;
    if (unused) fail(ErrorCode::kInvalid, "not all arguments were used by the format \"{}\"", format_);
    return out;
  }

 private:
  char peek() const {
    if (at_ >= format_.size()) fail(ErrorCode::kInvalid, "incomplete format \"{}\"", format_);
    return format_[at_];
  }

  std::string directive() {
    Value value = Value::absent();
    if (peek() == '(') {
      size_t end = format_.find(')', at_);
      if (end == format_.npos || !values_.is(Kind::kDict))
        fail(ErrorCode::kInvalid, "format \"{}\" needs a mapping and a closing parenthesis", format_);
      std::string_view key = format_.substr(at_ + 1, end - at_ - 1);
      const Value* found = values_.dict().find(key);
      if (!found) fail(ErrorCode::kInvalid, "format \"{}\": no value for '{}'", format_, key);
      value = *found;
      named_ = true;
      at_ = end + 1;
    }
    Directive d = parse();
    if (d.type == '%') return "%";
    if (value.is_absent()) value = next_value();
    return formatted(value, d, budget_);
  }

  Directive parse() {
    Directive d;
    for (;; ++at_) {
      char c = peek();
      bool* flag = c == '-'   ? &d.left
                   : c == '+' ? &d.plus
                   : c == ' ' ? &d.space
                   : c == '0' ? &d.zero
                   : c == '#' ? &d.alternate
                              : nullptr;
      if (!flag) break;
      *flag = true;
    }
    d.width = size(d.left);
    if (peek() == '.') {
      ++at_;
      bool ignored = false;
      d.precision = size(ignored);
    }
    d.type = peek();
    ++at_;
    if (std::string_view("sradiuxXofFeEgGc%").find(d.type) == std::string_view::npos)
      fail(ErrorCode::kInvalid, "format \"{}\": '%{}' is not supported", format_, d.type);
    return d;
  }

  int size(bool& left) {
    int64_t value = 0;
    if (peek() == '*') {
      ++at_;
      value = int_argument("format", next_value());
      if (value < 0) left = true;
      value = std::abs(std::max<int64_t>(value, -kMaxWidth - 1));
    } else {
      while (peek() >= '0' && peek() <= '9' && value <= kMaxWidth)
        value = value * 10 + (format_[at_++] - '0');
    }
    if (value > kMaxWidth) fail(ErrorCode::kLimit, "format \"{}\": a width above {}", format_, kMaxWidth);
    return static_cast<int>(value);
  }

  Value next_value() {
    if (!values_.is(Kind::kTuple)) {
      if (next_++ > 0) fail(ErrorCode::kInvalid, "not enough arguments for format \"{}\"", format_);
      return values_;
    }
    if (next_ >= values_.items().size())
      fail(ErrorCode::kInvalid, "not enough arguments for format \"{}\"", format_);
    return values_.items()[next_++];
  }

  std::string_view format_;
  const Value& values_;
  Budget& budget_;
  size_t at_ = 0;
  size_t next_ = 0;
  bool named_ = false;
};

Value field_value(std::string_view field, const Arguments& arguments, size_t& next) {
  if (field.empty() || std::all_of(field.begin(), field.end(), [](char c) { return c >= '0' && c <= '9'; })) {
    size_t index = 0;
    if (field.empty()) index = next++;
    for (char c : field) index = std::min<size_t>(index * 10 + static_cast<size_t>(c - '0'), 1u << 20);
    if (index >= arguments.positional.size())
      fail(ErrorCode::kInvalid, "format() has no argument number {}", index);
    return arguments.positional[index];
  }
  const Value* named = arguments.find(field);
  if (!named)
    fail(ErrorCode::kInvalid, "format(): no argument '{}' (plain names and numbers are supported)", field);
  return *named;
}

}  // namespace

std::string percent_format(std::string_view format, const Value& values, Budget& budget) {
  budget.work(format.size());
  return PercentFormat(format, values, budget).run();
}

std::string brace_format(std::string_view format, const Arguments& arguments, Budget& budget) {
  budget.work(format.size());
  std::string out;
  size_t next = 0;
  for (size_t at = 0; at < format.size();) {
    char c = format[at];
    if (c != '{' && c != '}') {
      out += c;
      ++at;
      continue;
    }
    if (at + 1 < format.size() && format[at + 1] == c) {
      out += c;
      at += 2;
      continue;
    }
    size_t end = c == '{' ? format.find('}', at) : format.npos;
    if (end == format.npos) fail(ErrorCode::kInvalid, "format(): single '{}' in \"{}\"", c, format);
    std::string_view field = format.substr(at + 1, end - at - 1);
    if (field.find_first_of(":!.[{") != field.npos)
      fail(ErrorCode::kUnsupported,
           "format(): the field \"{}\" is not supported, only plain names and numbers are", field);
    append_text(field_value(field, arguments, next), out, budget);
    budget.step();
    at = end + 1;
  }
  return out;
}

}  // namespace roundel::jinja
