#include <cmath>
#include <limits>

#include "base/error.h"
#include "text/jinja/operators.h"
#include "text/jinja/print.h"
#include "text/jinja/python_text.h"

namespace roundel::jinja {
namespace {

[[noreturn]] void no_operator(Operator op, const Value& a, const Value& b) {
  for (const Value* side : {&a, &b})
    if (side->is_undefined()) fail(ErrorCode::kInvalid, "{}", undefined_message(*side));
  fail(ErrorCode::kInvalid, "operator {} does not work with '{}' and '{}'", spelling(op), type_name(a),
       type_name(b));
}

[[noreturn]] void overflow(Operator op, int64_t a, int64_t b) {
  fail(ErrorCode::kLimit, "{} {} {} does not fit 64 bits", a, spelling(op), b);
}

int64_t int_power(int64_t base, int64_t exponent) {
  int64_t result = 1, square = base;
  for (int64_t left = exponent; left > 0; left >>= 1) {
    if ((left & 1) && __builtin_mul_overflow(result, square, &result))
      overflow(Operator::kPow, base, exponent);
    if (left > 1 && __builtin_mul_overflow(square, square, &square)) overflow(Operator::kPow, base, exponent);
  }
  return result;
}

Value int_arithmetic(Operator op, int64_t a, int64_t b) {
  int64_t r = 0;
  bool bad = false;
  switch (op) {
    case Operator::kAdd:
      bad = __builtin_add_overflow(a, b, &r);
      break;
    case Operator::kSub:
      bad = __builtin_sub_overflow(a, b, &r);
      break;
    case Operator::kMul:
      bad = __builtin_mul_overflow(a, b, &r);
      break;
    case Operator::kPow:
      return Value::integer(int_power(a, b));
    default:  // kFloorDiv, kMod: rounded towards minus infinity
      if (b == 0) fail(ErrorCode::kInvalid, "division by zero");
      if (b == -1) {
        bad = op == Operator::kFloorDiv && __builtin_sub_overflow(int64_t{0}, a, &r);
        break;
      }
      int64_t quotient = a / b, rest = a % b;
      if (rest != 0 && (rest < 0) != (b < 0)) {
        --quotient;
        rest += b;
      }
      r = op == Operator::kMod ? rest : quotient;
  }
  if (bad) overflow(op, a, b);
  return Value::integer(r);
}

double float_rest(double a, double b) {
  double rest = std::fmod(a, b);
  if (rest == 0) return std::copysign(0.0, b);
  return (rest < 0) != (b < 0) ? rest + b : rest;
}

// Python's float_floor_div: from the remainder, so that quotient and rest fit together.
double float_quotient(double a, double b) {
  double rest = std::fmod(a, b), quotient = (a - rest) / b;
  if (rest != 0 && (b < 0) != (rest < 0)) quotient -= 1;
  if (quotient == 0) return std::copysign(0.0, a / b);
  double whole = std::floor(quotient);
  return quotient - whole > 0.5 ? whole + 1 : whole;
}

double float_power(double a, double b) {
  if (a == 0 && b < 0) fail(ErrorCode::kInvalid, "0 cannot be raised to a negative power");
  if (a < 0 && std::isfinite(a) && std::isfinite(b) && b != std::floor(b))
    fail(ErrorCode::kUnsupported, "a negative number to a fractional power is complex");
  double r = std::pow(a, b);
  if (std::isinf(r) && std::isfinite(a) && std::isfinite(b))
    fail(ErrorCode::kInvalid, "{} ** {} is too large", float_text(a), float_text(b));
  return r;
}

Value float_arithmetic(Operator op, double a, double b) {
  switch (op) {
    case Operator::kAdd:
      return Value::number(a + b);
    case Operator::kSub:
      return Value::number(a - b);
    case Operator::kMul:
      return Value::number(a * b);
    case Operator::kPow:
      return Value::number(float_power(a, b));
    default:
      break;
  }
  if (b == 0) fail(ErrorCode::kInvalid, "division by zero");
  if (op == Operator::kDiv) return Value::number(a / b);
  return Value::number(op == Operator::kMod ? float_rest(a, b) : float_quotient(a, b));
}

Value number_arithmetic(Operator op, const Value& a, const Value& b) {
  bool whole =
      a.is_integral() && b.is_integral() && op != Operator::kDiv && !(op == Operator::kPow && b.as_int() < 0);
  if (whole) return int_arithmetic(op, a.as_int(), b.as_int());
  if (op == Operator::kDiv && a.is_integral() && b.is_integral() && b.as_int() != 0)  // beyond 2^53, too
    return Value::number(
        static_cast<double>(static_cast<long double>(a.as_int()) / static_cast<long double>(b.as_int())));
  return float_arithmetic(op, a.as_double(), b.as_double());
}

// text * count, list * count
Value repeated(const Value& value, int64_t count, Budget& budget) {
  auto times = static_cast<uint64_t>(std::max<int64_t>(count, 0));
  if (value.is_string()) {
    const std::string& text = value.text();
    if (times > 0 && text.size() > budget.limits().max_output / times)
      budget.check_text(std::numeric_limits<size_t>::max());
    std::string out;
    out.reserve(text.size() * times);
    if (!text.empty())
      for (uint64_t i = 0; i < times; ++i) out += text;
    return make_string(budget, std::move(out), value.is_markup());
  }
  const auto& items = value.items();
  std::vector<Value> out;
  if (!items.empty()) {
    for (uint64_t i = 0; i < times; ++i) {
      budget.step(items.size());
      out.insert(out.end(), items.begin(), items.end());
    }
  }
  return make_sequence(budget, value.kind(), std::move(out));
}

bool repeats(const Value& value) {
  return value.is_string() || value.is(Kind::kList) || value.is(Kind::kTuple);
}

}  // namespace

Value concatenated(const Value& a, const Value& b, Budget& budget) {
  bool markup = a.is_markup() || b.is_markup();
  auto piece = [&](const Value& side) {
    budget.work(side.text().size());
    return markup && !side.is_markup() ? escaped_html(side.text()) : std::string();
  };
  if (!markup) {
    budget.check_text(a.text().size() + b.text().size());
    std::string out;
    out.reserve(a.text().size() + b.text().size());
    out += a.text();
    out += b.text();
    return make_string(budget, std::move(out));
  }
  std::string out = a.is_markup() ? a.text() : piece(a);
  out += b.is_markup() ? b.text() : piece(b);
  return make_string(budget, std::move(out), true);
}

Value arithmetic(Operator op, const Value& a, const Value& b, Budget& budget) {
  budget.step();
  if (a.is_number() && b.is_number()) return number_arithmetic(op, a, b);
  if (op == Operator::kAdd && a.kind() == b.kind()) {
    if (a.is_string()) return concatenated(a, b, budget);
    if (a.is(Kind::kList) || a.is(Kind::kTuple)) {
      budget.step(a.items().size() + b.items().size());
      std::vector<Value> items = a.items();
      items.insert(items.end(), b.items().begin(), b.items().end());
      return make_sequence(budget, a.kind(), std::move(items));
    }
  }
  if (op == Operator::kMul && repeats(a) && b.is_integral()) return repeated(a, b.as_int(), budget);
  if (op == Operator::kMul && a.is_integral() && repeats(b)) return repeated(b, a.as_int(), budget);
  if (op == Operator::kMod && a.is_string())
    return make_string(budget, percent_format(a.text(), b, budget), a.is_markup());
  no_operator(op, a, b);
}

Value negated(const Value& value) {
  if (value.is(Kind::kFloat)) return Value::number(-value.as_double());
  if (!value.is_integral()) no_operator(Operator::kSub, Value::integer(0), value);
  int64_t r = 0;
  if (__builtin_sub_overflow(int64_t{0}, value.as_int(), &r)) overflow(Operator::kSub, 0, value.as_int());
  return Value::integer(r);
}

Value plus(const Value& value) {
  if (value.is(Kind::kFloat)) return value;
  if (!value.is_integral()) no_operator(Operator::kAdd, Value::integer(0), value);
  return Value::integer(value.as_int());
}

}  // namespace roundel::jinja
