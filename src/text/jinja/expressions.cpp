#include <algorithm>

#include "base/error.h"
#include "text/jinja/builtins.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/iteration.h"
#include "text/jinja/print.h"
#include "text/jinja/slice.h"

namespace roundel::jinja {

Value Interpreter::eval(const Expression& expression, Scope& scope) {
  budget_.step();
  if (expression.kind == ExpressionKind::kConstant) return expression.constant;
  if (expression.kind == ExpressionKind::kName) {
    line_ = expression.line;
    return eval_name(expression.name, scope);
  }
  return eval_inner(expression, scope);
}

Value Interpreter::eval_name(int name, Scope& scope) {
  for (Scope* at = &scope; at; at = at->parent)
    for (const auto& [number, value] : at->variables)
      if (number == name) return value;
  const std::string& spelled = program_.names[static_cast<size_t>(name)];
  if (Native function = find_global(spelled)) return make_method(budget_, spelled, function, Value());
  return make_undefined(budget_, fmt::format("'{}' is undefined", spelled));
}

Value Interpreter::eval_inner(const Expression& expression, Scope& scope) {
  Depth depth(budget_);
  line_ = expression.line;
  switch (expression.kind) {
    case ExpressionKind::kList:
    case ExpressionKind::kTuple:
      return eval_items(expression, scope);
    case ExpressionKind::kDict:
      return eval_dict(expression, scope);
    case ExpressionKind::kNot:
      return Value::boolean(!truthy(eval(*expression.operands[0], scope)));
    case ExpressionKind::kNegate:
      return negated(eval(*expression.operands[0], scope));
    case ExpressionKind::kPlus:
      return plus(eval(*expression.operands[0], scope));
    case ExpressionKind::kArithmetic:
      return eval_arithmetic(expression, scope);
    case ExpressionKind::kCompare:
      return eval_compare(expression, scope);
    case ExpressionKind::kAnd:
    case ExpressionKind::kOr:
      return eval_logic(expression, scope);
    case ExpressionKind::kConcat:
      return eval_concat(expression, scope);
    case ExpressionKind::kCondition:
      return eval_condition(expression, scope);
    default:
      return eval_postfixes(expression, expression.postfixes.size(), scope);
  }
}

Value Interpreter::eval_items(const Expression& expression, Scope& scope) {
  std::vector<Value> items;
  items.reserve(expression.operands.size());
  for (const auto& operand : expression.operands) items.push_back(eval(*operand, scope));
  return make_sequence(budget_, expression.kind == ExpressionKind::kList ? Kind::kList : Kind::kTuple,
                       std::move(items));
}

Value Interpreter::eval_dict(const Expression& expression, Scope& scope) {
  std::vector<DictObject::Entry> entries;
  for (size_t i = 0; i + 1 < expression.operands.size(); i += 2) {
    Value key = eval(*expression.operands[i], scope);
    entries.emplace_back(std::move(key), eval(*expression.operands[i + 1], scope));
  }
  return make_dict(budget_, std::move(entries));
}

Value Interpreter::eval_arithmetic(const Expression& expression, Scope& scope) {
  Value left = eval(*expression.operands[0], scope);
  for (size_t i = 0; i < expression.operators.size(); ++i) {
    Value right = eval(*expression.operands[i + 1], scope);
    line_ = expression.line;
    left = arithmetic(expression.operators[i], left, right, budget_);
  }
  return left;
}

Value Interpreter::eval_compare(const Expression& expression, Scope& scope) {
  Value left = eval(*expression.operands[0], scope);
  for (size_t i = 0; i < expression.operators.size(); ++i) {
    Value right = eval(*expression.operands[i + 1], scope);
    line_ = expression.line;
    if (!compare(expression.operators[i], left, right, budget_)) return Value::boolean(false);
    left = std::move(right);
  }
  return Value::boolean(true);
}

Value Interpreter::eval_logic(const Expression& expression, Scope& scope) {
  bool stop = expression.kind == ExpressionKind::kOr;
  Value value;
  for (const auto& operand : expression.operands) {
    value = eval(*operand, scope);
    if (truthy(value) == stop) break;
  }
  return value;
}

Value Interpreter::eval_concat(const Expression& expression, Scope& scope) {
  std::string out;
  for (const auto& operand : expression.operands) append_text(eval(*operand, scope), out, budget_);
  return make_string(budget_, std::move(out));
}

Value Interpreter::eval_condition(const Expression& expression, Scope& scope) {
  const auto& operands = expression.operands;  // value, condition, value, condition ... value
  for (size_t i = 0; i + 1 < operands.size(); i += 2)
    if (truthy(eval(*operands[i + 1], scope))) return eval(*operands[i], scope);
  if (operands.size() % 2 == 1) return eval(*operands.back(), scope);
  return make_undefined(budget_,
                        fmt::format("the inline if-expression on line {} evaluated to false and no else "
                                    "section was defined.",
                                    expression.line));
}

Value Interpreter::eval_postfixes(const Expression& expression, size_t count, Scope& scope) {
  Value value = eval(*expression.operands[0], scope);
  for (size_t i = 0; i < count; ++i) value = apply(expression.postfixes[i], value, scope);
  return value;
}

Value Interpreter::apply(const Postfix& postfix, const Value& value, Scope& scope) {
  switch (postfix.kind) {
    case PostfixKind::kAttribute:
      line_ = postfix.line;
      return attribute(value, postfix.name);
    case PostfixKind::kItem: {
      Value key = eval(*postfix.first, scope);
      line_ = postfix.line;
      return item(value, key);
    }
    case PostfixKind::kSlice:
      return apply_slice(postfix, value, scope);
    default:
      return apply_with_arguments(postfix, value, scope);
  }
}

Value Interpreter::apply_with_arguments(const Postfix& postfix, const Value& value, Scope& scope) {
  Arguments given;
  arguments(postfix.call, scope, given);
  line_ = postfix.line;
  switch (postfix.kind) {
    case PostfixKind::kCall:
      return call(value, given);
    case PostfixKind::kFilter:
      return filter(postfix.name, value, given);
    default:
      return Value::boolean(test(postfix.name, value, given) == (postfix.kind == PostfixKind::kTest));
  }
}

Value Interpreter::apply_slice(const Postfix& postfix, const Value& value, Scope& scope) {
  Value bounds[3];
  const Expression* expressions[] = {postfix.first.get(), postfix.second.get(), postfix.third.get()};
  for (int i = 0; i < 3; ++i) bounds[i] = expressions[i] ? eval(*expressions[i], scope) : Value::none();
  line_ = postfix.line;
  if (value.is_undefined()) fail(ErrorCode::kInvalid, "{}", undefined_message(value));
  return sliced(value, bounds[0], bounds[1], bounds[2], budget_);
}

void Interpreter::arguments(const CallNode& node, Scope& scope, Arguments& to) {
  for (const auto& expression : node.positional) to.positional.push_back(eval(*expression, scope));
  for (const auto& [name, expression] : node.named) to.named.emplace_back(name, eval(*expression, scope));
  if (node.list) {
    Items items = items_of(eval(*node.list, scope), budget_);
    budget_.step(items.size());
    for (size_t i = 0; i < items.size(); ++i) to.positional.push_back(items[i]);
  }
  if (!node.dict) return;
  Value dict = eval(*node.dict, scope);
  if (!dict.is(Kind::kDict)) fail(ErrorCode::kInvalid, "** needs a mapping, not a '{}'", type_name(dict));
  for (const auto& [key, value] : dict.dict().entries) {
    const std::string& name = text_argument("** of a call", key);
    budget_.step(1 + to.named.size() / 16);
    if (to.find(name)) fail(ErrorCode::kInvalid, "the argument '{}' is given twice", name);
    to.named.emplace_back(name, value);
  }
}

Value Interpreter::filter(std::string_view name, const Value& input, Arguments& given) {
  Depth depth(budget_);
  budget_.step();
  Native function = find_filter(name);
  if (!function) fail(ErrorCode::kUnsupported, "there is no filter named '{}'", name);
  return function(*this, input, given);
}

bool Interpreter::test(std::string_view name, const Value& input, Arguments& given) {
  Depth depth(budget_);
  budget_.step();
  Native function = find_test(name);
  if (!function) fail(ErrorCode::kUnsupported, "there is no test named '{}'", name);
  return truthy(function(*this, input, given));
}

}  // namespace roundel::jinja
