#include <algorithm>
#include <charconv>

#include "text/jinja/literals.h"
#include "text/jinja/number_text.h"
#include "text/jinja/parser_state.h"

namespace roundel::jinja {
namespace {

enum Level { kOr = 1, kAnd, kNot, kCompare, kAdd, kConcat, kMul, kPow };

ExpressionPtr make(ExpressionKind kind, int line) {
  auto expression = std::make_unique<Expression>();
  expression->kind = kind;
  expression->line = line;
  return expression;
}

ExpressionPtr constant(Value value, int line) {
  auto expression = make(ExpressionKind::kConstant, line);
  expression->constant = std::move(value);
  return expression;
}

ExpressionPtr with_operand(ExpressionKind kind, int line, ExpressionPtr operand) {
  auto expression = make(kind, line);
  expression->operands.push_back(std::move(operand));
  return expression;
}

ExpressionKind kind_of_chain(int level) {
  switch (level) {
    case kOr:
      return ExpressionKind::kOr;
    case kAnd:
      return ExpressionKind::kAnd;
    case kCompare:
      return ExpressionKind::kCompare;
    case kConcat:
      return ExpressionKind::kConcat;
    default:
      return ExpressionKind::kArithmetic;
  }
}

}  // namespace

ExpressionPtr Parser::expression(bool with_condition) {
  ExpressionPtr value = binary(kOr);
  return with_condition && at_name("if") ? condition_chain(std::move(value)) : std::move(value);
}

// a if b else c if d else e: one list, so that long chains are not deep. `a if b if c` nests.
ExpressionPtr Parser::condition_chain(ExpressionPtr value) {
  int line = peek().line;
  auto chain = with_operand(ExpressionKind::kCondition, line, std::move(value));
  int levels = 0;
  while (skip_name("if")) {
    chain->operands.push_back(binary(kOr));
    if (skip_name("else")) {
      chain->operands.push_back(binary(kOr));
    } else if (at_name("if")) {
      if (++levels > max_depth_) too_deep();
      chain = with_operand(ExpressionKind::kCondition, line, std::move(chain));
    }
  }
  return chain;
}

ExpressionPtr Parser::binary(int min_level) {
  Nesting nesting(*this);
  ExpressionPtr left;
  int line = peek().line;
  if (min_level <= kNot && skip_name("not")) {
    left = with_operand(ExpressionKind::kNot, line, binary(kNot));
  } else {
    left = unary(true);
  }
  for (int level = binary_level(); level >= min_level; level = binary_level())
    left = operator_chain(std::move(left), level);
  return left;
}

// 0: no operator follows.
int Parser::binary_level() const {
  const Token& token = peek();
  std::string_view text = token.text;
  if (token.type == TokenType::kName) {
    if (text == "or") return kOr;
    if (text == "and") return kAnd;
    return text == "in" || (text == "not" && at_name("in", 1)) ? kCompare : 0;
  }
  if (token.type != TokenType::kOperator) return 0;
  if (text == "+" || text == "-") return kAdd;
  if (text == "~") return kConcat;
  if (text == "*" || text == "/" || text == "//" || text == "%") return kMul;
  if (text == "**") return kPow;
  return text == "==" || text == "!=" || text == "<" || text == "<=" || text == ">" || text == ">=" ? kCompare
                                                                                                    : 0;
}

ExpressionPtr Parser::operator_chain(ExpressionPtr left, int level) {
  auto chain = with_operand(kind_of_chain(level), peek().line, std::move(left));
  while (binary_level() == level) {
    Operator op = take_operator(level);
    if (level == kCompare || chain->kind == ExpressionKind::kArithmetic) chain->operators.push_back(op);
    chain->operands.push_back(binary(level + 1));
  }
  return chain;
}

Operator Parser::take_operator(int level) {
  std::string_view text = take().text;
  if (text == "not") {
    take();
    return Operator::kNotIn;
  }
  if (level == kCompare || level >= kAdd)
    for (int i = 0; i <= static_cast<int>(Operator::kIn); ++i)
      if (spelling(static_cast<Operator>(i)) == text) return static_cast<Operator>(i);
  return Operator::kAdd;  // and, or, ~: the kind of the chain says it
}

ExpressionPtr Parser::unary(bool with_filter) {
  int line = peek().line;
  ExpressionPtr operand;
  if (at_operator("-") || at_operator("+")) {
    Nesting nesting(*this);
    auto kind = take().text == "-" ? ExpressionKind::kNegate : ExpressionKind::kPlus;
    operand = with_operand(kind, line, unary(false));
  } else {
    operand = primary();
  }
  return postfixed(std::move(operand), with_filter);
}

ExpressionPtr Parser::primary() {
  switch (peek().type) {
    case TokenType::kName:
      return name_or_literal();
    case TokenType::kString:
      return string_literal();
    case TokenType::kInteger:
    case TokenType::kFloat:
      return number_literal();
    case TokenType::kOperator:
      if (at_operator("(") || at_operator("[")) return bracketed();
      if (at_operator("{")) return dict_literal();
      [[fallthrough]];
    default:
      unexpected("an expression");
  }
}

ExpressionPtr Parser::name_or_literal() {
  const Token& token = take();
  std::string_view name = token.text;
  if (name == "true" || name == "True") return constant(Value::boolean(true), token.line);
  if (name == "false" || name == "False") return constant(Value::boolean(false), token.line);
  if (name == "none" || name == "None") return constant(Value::none(), token.line);
  auto result = make(ExpressionKind::kName, token.line);
  result->name = number_of(name);
  for (MacroNode* macro : macros_) {
    macro->uses_caller |= name == "caller";
    macro->uses_varargs |= name == "varargs";
    macro->uses_kwargs |= name == "kwargs";
  }
  return result;
}

ExpressionPtr Parser::string_literal() {
  int line = peek().line;
  std::string text;
  while (peek().type == TokenType::kString) {  // neighbours are one string
    const Token& token = take();
    try {
      text += unescaped(token.text.substr(1, token.text.size() - 2));
    } catch (const Error& e) {
      error(token.line, e.what());
    }
  }
  return constant(make_string(nullptr, std::move(text)), line);
}

ExpressionPtr Parser::number_literal() {
  const Token& token = take();
  std::string digits(token.text);
  std::erase(digits, '_');
  if (token.type == TokenType::kFloat) return constant(Value::number(decimal_value(digits)), token.line);
  int base = 10;
  size_t skip = 0;
  if (digits.size() > 1 && digits[0] == '0') {
    char letter = static_cast<char>(digits[1] | 32);
    base = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 10;
    skip = base == 10 ? 0 : 2;
  }
  int64_t value = 0;
  if (std::from_chars(digits.data() + skip, digits.data() + digits.size(), value, base).ec != std::errc())
    error(token.line, fmt::format("the number {} does not fit 64 bits", digits.substr(0, 40)));
  return constant(Value::integer(value), token.line);
}

ExpressionPtr Parser::bracketed() {
  int line = peek().line;
  if (take().text == "(") {
    ExpressionPtr inside = tuple(true, true);
    expect_operator(")");
    return inside;
  }
  auto list = make(ExpressionKind::kList, line);
  while (!at_operator("]")) {
    if (!list->operands.empty()) expect_operator(",");
    if (at_operator("]")) break;
    list->operands.push_back(expression());
  }
  expect_operator("]");
  return list;
}

ExpressionPtr Parser::dict_literal() {
  auto dict = make(ExpressionKind::kDict, take().line);
  while (!at_operator("}")) {
    if (!dict->operands.empty()) expect_operator(",");
    if (at_operator("}")) break;
    dict->operands.push_back(expression());
    expect_operator(":");
    dict->operands.push_back(expression());
  }
  expect_operator("}");
  return dict;
}

ExpressionPtr Parser::tuple(bool with_condition, bool parentheses, std::string_view end_name) {
  int line = peek().line;
  auto at_end = [&] {
    auto type = peek().type;
    return type == TokenType::kVariableEnd || type == TokenType::kBlockEnd || at_operator(")") ||
           (!end_name.empty() && at_name(end_name));
  };
  std::vector<ExpressionPtr> items;
  bool is_tuple = false;
  while (!at_end()) {
    items.push_back(expression(with_condition));
    if (!skip_operator(",")) break;
    is_tuple = true;
  }
  if (!is_tuple && items.size() == 1) return std::move(items[0]);
  if (items.empty() && !parentheses) unexpected("an expression");
  auto result = make(ExpressionKind::kTuple, line);
  result->operands = std::move(items);
  return result;
}

// with_filter: filters, tests and calls may follow, too.
ExpressionPtr Parser::postfixed(ExpressionPtr operand, bool with_filter) {
  std::vector<Postfix> postfixes;
  bool filtered = false;  // behind a filter come no subscripts
  for (;;) {
    int line = peek().line;
    if (at_operator("(")) {
      postfixes.push_back({PostfixKind::kCall, line});
      postfixes.back().call = call();
    } else if (!filtered && (at_operator(".") || at_operator("["))) {
      postfixes.push_back({PostfixKind::kAttribute, line});
      subscript(postfixes.back());
    } else if (with_filter && skip_operator("|")) {
      filtered = true;
      postfixes.push_back(filter());
    } else if (with_filter && at_name("is")) {
      filtered = true;
      postfixes.push_back(test());
    } else {
      break;
    }
  }
  if (postfixes.empty()) return operand;
  int line = operand->line;
  auto result = with_operand(ExpressionKind::kPostfix, line, std::move(operand));
  result->postfixes = std::move(postfixes);
  return result;
}

void Parser::subscript(Postfix& postfix) {
  if (skip_operator(".")) {
    const Token& token = peek();
    if (token.type == TokenType::kInteger) {
      postfix.kind = PostfixKind::kItem;
      postfix.first = number_literal();
    } else {
      postfix.name = expect_name("name of an attribute");
    }
    return;
  }
  expect_operator("[");
  if (!slice(postfix)) {
    postfix.kind = PostfixKind::kItem;
    int line = peek().line;
    std::vector<ExpressionPtr> items;
    while (!at_operator("]")) {
      if (!items.empty()) expect_operator(",");
      if (at_operator("]")) break;
      items.push_back(expression());
      if (at_operator(":") && items.size() == 1) {  // [start: ...]
        postfix.first = std::move(items[0]);
        if (slice(postfix)) break;
      }
    }
    if (postfix.kind == PostfixKind::kItem) {
      if (items.size() == 1) {
        postfix.first = std::move(items[0]);
      } else {
        postfix.first = make(ExpressionKind::kTuple, line);
        postfix.first->operands = std::move(items);
      }
    }
  }
  expect_operator("]");
}

// ":stop:step" at the current place.
bool Parser::slice(Postfix& postfix) {
  if (!skip_operator(":")) return false;
  postfix.kind = PostfixKind::kSlice;
  if (!at_operator(":") && !at_operator("]")) postfix.second = expression();
  if (skip_operator(":") && !at_operator("]")) postfix.third = expression();
  return true;
}

Postfix Parser::filter() {
  Postfix result{PostfixKind::kFilter, peek().line};
  result.name = expect_name("name of a filter");
  while (skip_operator(".")) result.name.append(".").append(expect_name("name of a filter"));
  if (at_operator("(")) result.call = call();
  return result;
}

Postfix Parser::test() {
  Postfix result{PostfixKind::kTest, take().line};
  if (skip_name("not")) result.kind = PostfixKind::kNotTest;
  result.name = expect_name("name of a test");
  while (skip_operator(".")) result.name.append(".").append(expect_name("name of a test"));
  if (at_operator("(")) {
    result.call = call();
    return result;
  }
  auto type = peek().type;
  bool value = type == TokenType::kString || type == TokenType::kInteger || type == TokenType::kFloat ||
               at_operator("[") || at_operator("{") ||
               (type == TokenType::kName && !at_name("else") && !at_name("or") && !at_name("and"));
  if (!value) return result;
  if (at_name("is")) error(peek().line, "tests cannot be chained with 'is'");
  Nesting nesting(*this);
  result.call.positional.push_back(postfixed(primary(), false));
  return result;
}

CallNode Parser::call() {
  constexpr size_t kMaxNamed = 1000;  // each is compared with the others
  expect_operator("(");
  CallNode node;
  while (!at_operator(")")) {
    int line = peek().line;
    if (skip_operator("*")) {
      if (node.list || node.dict) error(line, "invalid arguments of a call");
      node.list = expression();
    } else if (skip_operator("**")) {
      if (node.dict) error(line, "invalid arguments of a call");
      node.dict = expression();
    } else if (peek().type == TokenType::kName && at_operator("=", 1)) {
      if (node.dict) error(line, "invalid arguments of a call");
      std::string name(take().text);
      take();
      if (node.named.size() >= kMaxNamed) error(line, fmt::format("more than {} named arguments", kMaxNamed));
      for (const auto& other : node.named)
        if (other.first == name) error(line, fmt::format("the argument '{}' is given twice", name));
      node.named.emplace_back(std::move(name), expression());
    } else {
      if (node.list || node.dict || !node.named.empty())
        error(line, "a positional argument follows a named one");
      node.positional.push_back(expression());
    }
    if (!at_operator(")")) expect_operator(",");
  }
  expect_operator(")");
  return node;
}

}  // namespace roundel::jinja
