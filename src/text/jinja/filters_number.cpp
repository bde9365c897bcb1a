// Filters that make numbers, and default.
#include <cmath>
#include <cstdio>

#include "base/error.h"
#include "text/jinja/builtins.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/iteration.h"
#include "text/jinja/number_text.h"
#include "text/jinja/operators.h"
#include "text/jinja/python_text.h"

namespace roundel::jinja {
namespace {

void refuse_undefined(const Value& value) {
  if (value.is_undefined()) fail(ErrorCode::kInvalid, "{}", undefined_message(value));
}

const Value& number_argument(std::string_view function, const Value& value) {
  refuse_undefined(value);
  if (!value.is_number())
    fail(ErrorCode::kInvalid, "{} expects a number, got '{}'", function, type_name(value));
  return value;
}

Value int_of(double value) {
  if (!(std::fabs(value) < 9223372036854775808.0))
    fail(ErrorCode::kLimit, "{} does not fit an integer of 64 bits", float_text(value));
  return Value::integer(static_cast<int64_t>(value));
}

Value abs_filter(Interpreter&, const Value& self, Arguments& arguments) {
  bind_none("abs", arguments);
  const Value& value = number_argument("abs", self);
  if (value.is(Kind::kFloat)) return Value::number(std::fabs(value.as_double()));
  return value.as_int() < 0 ? negated(value) : Value::integer(value.as_int());
}

Value int_filter(Interpreter&, const Value& self, Arguments& arguments) {
  auto [otherwise, base] = bind<2>("int", arguments, {"default", "base"});
  refuse_undefined(self);
  if (self.is_integral()) return Value::integer(self.as_int());
  if (self.is_string()) {
    if (auto whole = parse_int(self.text(), int_argument("int", base, 10))) return Value::integer(*whole);
    auto value = parse_float(self.text());
    if (value && std::isfinite(*value)) return int_of(*value);
  } else if (self.is(Kind::kFloat) && !std::isnan(self.as_double())) {
    return int_of(self.as_double());
  }
  return otherwise.is_absent() ? Value::integer(0) : otherwise;
}

Value float_filter(Interpreter&, const Value& self, Arguments& arguments) {
  auto [otherwise] = bind<1>("float", arguments, {"default"});
  refuse_undefined(self);
  if (self.is_number()) return Value::number(self.as_double());
  if (self.is_string())
    if (auto value = parse_float(self.text())) return Value::number(*value);
  return otherwise.is_absent() ? Value::number(0.0) : otherwise;
}

// Python's round(): to the nearest decimal of the exact value, ties to even.
double rounded(double value, int64_t digits) {
  if (!std::isfinite(value) || digits > 330) return value;
  if (digits < -310) return std::copysign(0.0, value);
  if (digits < 0) {
    double unit = std::pow(10.0, static_cast<double>(-digits));
    return std::nearbyint(value / unit) * unit;
  }
  char buffer[700];
  snprintf(buffer, sizeof buffer, "%.*f", static_cast<int>(digits), std::fabs(value));
  return std::copysign(decimal_value(buffer), value);
}

int64_t rounded(int64_t value, int64_t digits) {
  if (digits >= 0) return value;
  if (digits < -18) return 0;
  int64_t unit = 1;
  for (int64_t i = digits; i < 0; ++i) unit *= 10;
  int64_t rest = value % unit, low = value - rest;
  int64_t twice = std::abs(rest) - (unit - std::abs(rest));  // which neighbour is nearer
  bool away = twice > 0 || (twice == 0 && (low / unit) % 2 != 0);
  if (!away) return low;
  if (__builtin_add_overflow(low, value < 0 ? -unit : unit, &low))
    fail(ErrorCode::kLimit, "round: {} does not fit 64 bits", value);
  return low;
}

Value round_filter(Interpreter&, const Value& self, Arguments& arguments) {
  auto [precision, method] = bind<2>("round", arguments, {"precision", "method"});
  const Value& value = number_argument("round", self);
  int64_t digits = int_argument("round", precision, 0);
  std::string_view how = method.is_absent() ? "common" : std::string_view(text_argument("round", method));
  if (how == "common") {
    if (value.is_integral()) return Value::integer(rounded(value.as_int(), digits));
    return Value::number(rounded(value.as_double(), digits));
  }
  if (how != "ceil" && how != "floor")
    fail(ErrorCode::kInvalid, "round: method must be common, ceil or floor");
  double unit = std::pow(10.0, static_cast<double>(digits)), scaled = value.as_double() * unit;
  if (!std::isfinite(scaled)) fail(ErrorCode::kInvalid, "round: {} is not finite", float_text(scaled));
  double whole = how == "ceil" ? std::ceil(scaled) : std::floor(scaled);
  return Value::number((whole + 0.0) / unit);  // + 0.0: Python has no integer -0
}

Value sum_filter(Interpreter& in, const Value& self, Arguments& arguments) {
  auto [path, start] = bind<2>("sum", arguments, {"attribute", "start"});
  Items items = items_of(self, in.budget());
  Value sum = start.is_absent() ? Value::integer(0) : start;
  if (sum.is_string()) fail(ErrorCode::kInvalid, "sum: strings are put together with join");
  for (size_t i = 0; i < items.size(); ++i)
    sum = arithmetic(Operator::kAdd, sum, at_path(in, items[i], path), in.budget());
  return sum;
}

Value default_filter(Interpreter& in, const Value& self, Arguments& arguments) {
  auto [otherwise, falsy] = bind<2>("default", arguments, {"default_value", "boolean"});
  if (!self.is_undefined() && !(truthy(falsy) && !truthy(self))) return self;
  return otherwise.is_absent() ? make_string(in.budget(), "") : otherwise;
}

Value length_filter(Interpreter& in, const Value& self, Arguments& arguments) {
  bind_none("length", arguments);
  switch (self.kind()) {
    case Kind::kUndefined:
      return Value::integer(0);
    case Kind::kString:
      return Value::integer(
          static_cast<int64_t>(static_cast<const StringObject*>(self.object())->characters));
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kRange:
    case Kind::kView:
      return Value::integer(static_cast<int64_t>(self.items().size()));
    case Kind::kDict:
      return Value::integer(static_cast<int64_t>(self.dict().entries.size()));
    case Kind::kLoop:
      return in.loop_attribute(self.loop(), "length");
    default:
      fail(ErrorCode::kInvalid, "a '{}' has no length", type_name(self));
  }
}

}  // namespace

Native find_number_filter(std::string_view name) {
  static constexpr NamedNative kFilters[] = {
      {"abs", abs_filter},     {"int", int_filter},       {"float", float_filter},
      {"round", round_filter}, {"sum", sum_filter},       {"default", default_filter},
      {"d", default_filter},   {"length", length_filter}, {"count", length_filter},
  };
  return find_in(kFilters, name);
}

}  // namespace roundel::jinja
