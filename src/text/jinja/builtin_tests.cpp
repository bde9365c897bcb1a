// What can stand behind `is`.
#include "base/error.h"
#include "text/jinja/builtins.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/iteration.h"
#include "text/jinja/operators.h"
#include "text/jinja/print.h"
#include "text/jinja/python_text.h"

namespace roundel::jinja {
namespace {

using Check = bool (*)(const Value&);

template <Check kCheck>
Value plain_test(Interpreter&, const Value& self, Arguments& arguments) {
  bind_none("the test", arguments);
  return Value::boolean(kCheck(self));
}

bool is_defined(const Value& v) {
  return !v.is_undefined();
}
bool is_undefined(const Value& v) {
  return v.is_undefined();
}
bool is_none(const Value& v) {
  return v.is(Kind::kNone);
}
bool is_boolean(const Value& v) {
  return v.is(Kind::kBool);
}
bool is_true(const Value& v) {
  return v.is(Kind::kBool) && v.as_bool();
}
bool is_false(const Value& v) {
  return v.is(Kind::kBool) && !v.as_bool();
}
bool is_integer(const Value& v) {
  return v.is(Kind::kInt);
}
bool is_float(const Value& v) {
  return v.is(Kind::kFloat);
}
bool is_number(const Value& v) {
  return v.is_number();
}
bool is_string(const Value& v) {
  return v.is_string();
}
bool is_mapping(const Value& v) {
  return v.is(Kind::kDict);
}
bool is_escaped(const Value& v) {
  return v.is_markup();
}
bool is_callable(const Value& v) {
  return v.is(Kind::kCallable) || v.is(Kind::kLoop) || v.is_undefined();
}
// has a length and can be indexed: so also dicts, and in Jinja undefined values
bool has_items(const Value& v) {
  return v.is_string() || v.is_sequence() || v.is(Kind::kDict) || v.is_undefined();
}

template <Operator kOperator>
Value compare_test(Interpreter& in, const Value& self, Arguments& arguments) {
  auto [other] = bind<1>("the test", arguments, {"other"}, 1);
  return Value::boolean(compare(kOperator, self, other, in.budget()));
}

Value remainder(Interpreter& in, const Value& value, const Value& by) {
  return arithmetic(Operator::kMod, value, by, in.budget());
}

template <int kRest>
Value parity_test(Interpreter& in, const Value& self, Arguments& arguments) {
  bind_none("the test", arguments);
  return Value::boolean(equal(remainder(in, self, Value::integer(2)), Value::integer(kRest), in.budget()));
}

Value divisible_test(Interpreter& in, const Value& self, Arguments& arguments) {
  auto [by] = bind<1>("divisibleby", arguments, {"num"}, 1);
  return Value::boolean(equal(remainder(in, self, by), Value::integer(0), in.budget()));
}

template <bool kUpper>
Value case_test(Interpreter& in, const Value& self, Arguments& arguments) {
  bind_none("the test", arguments);
  std::string text = text_of(self, in.budget());
  in.budget().step(1 + text.size() / 64);
  return Value::boolean(text_is(text, kUpper ? "upper" : "lower"));
}

Value same_test(Interpreter& in, const Value& self, Arguments& arguments) {
  auto [other] = bind<1>("sameas", arguments, {"other"}, 1);
  if (self.kind() != other.kind()) return Value::boolean(false);
  if (self.object() || other.object()) return Value::boolean(self.object() == other.object());
  return Value::boolean(equal(self, other, in.budget()));
}

template <Native (*kFind)(std::string_view)>
Value known_test(Interpreter&, const Value& self, Arguments& arguments) {
  bind_none("the test", arguments);
  return Value::boolean(self.is_string() && kFind(self.text()));
}

}  // namespace

Native find_test(std::string_view name) {
  static constexpr NamedNative kTests[] = {
      {"defined", plain_test<is_defined>},
      {"undefined", plain_test<is_undefined>},
      {"none", plain_test<is_none>},
      {"boolean", plain_test<is_boolean>},
      {"true", plain_test<is_true>},
      {"false", plain_test<is_false>},
      {"integer", plain_test<is_integer>},
      {"float", plain_test<is_float>},
      {"number", plain_test<is_number>},
      {"string", plain_test<is_string>},
      {"mapping", plain_test<is_mapping>},
      {"sequence", plain_test<has_items>},
      {"iterable", plain_test<is_iterable>},
      {"callable", plain_test<is_callable>},
      {"escaped", plain_test<is_escaped>},
      {"lower", case_test<false>},
      {"upper", case_test<true>},
      {"odd", parity_test<1>},
      {"even", parity_test<0>},
      {"divisibleby", divisible_test},
      {"sameas", same_test},
      {"in", compare_test<Operator::kIn>},
      {"==", compare_test<Operator::kEqual>},
      {"eq", compare_test<Operator::kEqual>},
      {"equalto", compare_test<Operator::kEqual>},
      {"!=", compare_test<Operator::kNotEqual>},
      {"ne", compare_test<Operator::kNotEqual>},
      {">", compare_test<Operator::kGreater>},
      {"gt", compare_test<Operator::kGreater>},
      {"greaterthan", compare_test<Operator::kGreater>},
      {">=", compare_test<Operator::kGreaterEqual>},
      {"ge", compare_test<Operator::kGreaterEqual>},
      {"<", compare_test<Operator::kLess>},
      {"lt", compare_test<Operator::kLess>},
      {"lessthan", compare_test<Operator::kLess>},
      {"<=", compare_test<Operator::kLessEqual>},
      {"le", compare_test<Operator::kLessEqual>},
      {"filter", known_test<find_filter>},
      {"test", known_test<find_test>},
  };
  return find_in(kTests, name);
}

}  // namespace roundel::jinja
