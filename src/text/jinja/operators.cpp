#include "text/jinja/operators.h"

#include "base/error.h"
#include "text/jinja/python_text.h"

namespace roundel::jinja {
namespace {

std::partial_ordering order_numbers(const Value& a, const Value& b) {
  if (a.is_integral() && b.is_integral()) return a.as_int() <=> b.as_int();
  auto wide = [](const Value& v) {  // exact for both types
    return v.is_integral() ? static_cast<long double>(v.as_int()) : static_cast<long double>(v.as_double());
  };
  return wide(a) <=> wide(b);
}

bool equal_items(const std::vector<Value>& a, const std::vector<Value>& b, Budget& budget) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i)
    if (!equal(a[i], b[i], budget)) return false;
  return true;
}

bool equal_dicts(const DictObject& a, const DictObject& b, Budget& budget) {
  if (a.entries.size() != b.entries.size()) return false;
  for (const auto& [key, value] : a.entries) {
    const Value* other = b.find(key, budget);
    if (!other || !equal(value, *other, budget)) return false;
  }
  return true;
}

}  // namespace

std::string_view spelling(Operator op) {
  constexpr std::string_view kSpellings[] = {
      "+", "-", "*", "/", "//", "%", "**", "==", "!=", "<", "<=", ">", ">=", "in", "not in"};
  return kSpellings[static_cast<size_t>(op)];
}

bool truthy(const Value& value) {
  switch (value.kind()) {
    case Kind::kAbsent:
    case Kind::kUndefined:
    case Kind::kNone:
      return false;
    case Kind::kBool:
    case Kind::kInt:
      return value.as_int() != 0;
    case Kind::kFloat:
      return value.as_double() != 0;
    case Kind::kString:
      return !value.text().empty();
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kRange:
    case Kind::kView:
      return !value.items().empty();
    case Kind::kDict:
      return !value.dict().entries.empty();
    default:
      return true;
  }
}

bool equal(const Value& a, const Value& b, Budget& budget) {
  budget.step();
  if (a.is_number() && b.is_number()) return order_numbers(a, b) == 0;
  if (a.kind() != b.kind()) return false;
  if (a.object() && a.object() == b.object()) return true;
  switch (a.kind()) {
    case Kind::kUndefined:
    case Kind::kNone:
      return true;
    case Kind::kString:
      return a.text() == b.text();
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kRange:
    case Kind::kView: {
      Depth depth(budget);
      return equal_items(a.items(), b.items(), budget);
    }
    case Kind::kDict: {
      Depth depth(budget);
      return equal_dicts(a.dict(), b.dict(), budget);
    }
    default:
      return false;
  }
}

std::partial_ordering order(const Value& a, const Value& b, Operator op, Budget& budget) {
  budget.step();
  if (a.is_number() && b.is_number()) return order_numbers(a, b);
  if (a.is_string() && b.is_string()) return a.text() <=> b.text();
  if (a.kind() == b.kind() && (a.is(Kind::kList) || a.is(Kind::kTuple))) {
    Depth depth(budget);
    const auto &x = a.items(), &y = b.items();
    for (size_t i = 0; i < x.size() && i < y.size(); ++i)
      if (!equal(x[i], y[i], budget)) return order(x[i], y[i], op, budget);
    return x.size() <=> y.size();
  }
  for (const Value* side : {&a, &b})
    if (side->is_undefined()) fail(ErrorCode::kInvalid, "{}", undefined_message(*side));
  fail(ErrorCode::kInvalid, "'{}' not supported between '{}' and '{}'", spelling(op), type_name(a),
       type_name(b));
}

bool contains(const Value& container, const Value& item, Budget& budget) {
  switch (container.kind()) {
    case Kind::kUndefined:
      return false;
    case Kind::kString:
      if (!item.is_string())
        fail(ErrorCode::kInvalid, "'in <string>' requires a string on the left, not '{}'", type_name(item));
      budget.work(container.text().size());
      return find_text(container.text(), item.text()) != std::string::npos;
    case Kind::kDict:
      return container.dict().find(item, budget) != nullptr;
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kRange:
    case Kind::kView:
    case Kind::kIterator: {
      const auto& items = container.items();
      size_t first = container.is(Kind::kIterator) ? container.sequence().next : 0;
      for (size_t i = first; i < items.size(); ++i) {
        if (!equal(items[i], item, budget)) continue;
        if (container.is(Kind::kIterator)) container.sequence().next = i + 1;
        return true;
      }
      if (container.is(Kind::kIterator)) container.sequence().next = items.size();
      return false;
    }
    default:
      fail(ErrorCode::kInvalid, "'in' needs a container, not '{}'", type_name(container));
  }
}

bool compare(Operator op, const Value& a, const Value& b, Budget& budget) {
  switch (op) {
    case Operator::kEqual:
      return equal(a, b, budget);
    case Operator::kNotEqual:
      return !equal(a, b, budget);
    case Operator::kIn:
      return contains(b, a, budget);
    case Operator::kNotIn:
      return !contains(b, a, budget);
    case Operator::kLess:
      return order(a, b, op, budget) < 0;
    case Operator::kLessEqual:
      return order(a, b, op, budget) <= 0;
    case Operator::kGreater:
      return order(a, b, op, budget) > 0;
    default:
      return order(a, b, op, budget) >= 0;
  }
}

}  // namespace roundel::jinja
