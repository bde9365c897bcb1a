#include "text/jinja/parser.h"

#include <algorithm>

#include "text/jinja/parser_state.h"

namespace roundel::jinja {
namespace {

std::unique_ptr<Statement> make(StatementKind kind, int line) {
  auto statement = std::make_unique<Statement>();
  statement->kind = kind;
  statement->line = line;
  return statement;
}

std::string described(const Token& token) {
  switch (token.type) {
    case TokenType::kData:
      return "text";
    case TokenType::kVariableBegin:
      return "'{{'";
    case TokenType::kVariableEnd:
      return "'}}'";
    case TokenType::kBlockBegin:
      return "'{%'";
    case TokenType::kBlockEnd:
      return "'%}'";
    case TokenType::kEnd:
      return "the end of the template";
    default:
      return fmt::format("'{}'", token.text.substr(0, 40));
  }
}

}  // namespace

Parser::Parser(const std::string& name, const Lexed& lexed, int max_depth)
    : name_(name), tokens_(lexed.tokens), max_depth_(max_depth) {
  template_.name = name;
  template_.loop = number_of("loop");
  template_.caller = number_of("caller");
  template_.varargs = number_of("varargs");
  template_.kwargs = number_of("kwargs");
}

const Token& Parser::peek(size_t ahead) const {
  return tokens_[std::min(at_ + ahead, tokens_.size() - 1)];
}
const Token& Parser::take() {
  return at_ + 1 < tokens_.size() ? tokens_[at_++] : tokens_.back();
}

bool Parser::at_operator(std::string_view text, size_t ahead) const {
  return peek(ahead).type == TokenType::kOperator && peek(ahead).text == text;
}
bool Parser::at_name(std::string_view text, size_t ahead) const {
  return peek(ahead).type == TokenType::kName && peek(ahead).text == text;
}
bool Parser::skip_operator(std::string_view text) {
  if (!at_operator(text)) return false;
  take();
  return true;
}
bool Parser::skip_name(std::string_view text) {
  if (!at_name(text)) return false;
  take();
  return true;
}
void Parser::expect_operator(std::string_view text) {
  if (!skip_operator(text)) unexpected(std::string(text).c_str());
}
std::string_view Parser::expect_name(const char* what) {
  if (peek().type != TokenType::kName) unexpected(what);
  return take().text;
}
void Parser::expect(TokenType type) {
  if (peek().type != type) unexpected(type == TokenType::kBlockEnd ? "%}" : "}}");
  take();
}
void Parser::error(int line, const std::string& message) const {
  fail(ErrorCode::kInvalid, "{}: line {}: {}", name_, line, message);
}
void Parser::unexpected(const char* wanted) const {
  error(peek().line, fmt::format("unexpected {}, expected '{}'", described(peek()), wanted));
}
void Parser::too_deep() {
  --depth_;
  fail(ErrorCode::kLimit, "{}: line {}: the template nests deeper than {} levels", name_, peek().line,
       max_depth_);
}

int Parser::number_of(std::string_view name) {
  auto [it, added] = numbers_.try_emplace(std::string(name), static_cast<int>(template_.names.size()));
  if (added) template_.names.emplace_back(name);
  return it->second;
}

Template Parser::run() {
  std::string end;
  template_.body = block({}, end);
  return std::move(template_);
}

Block Parser::block(std::string_view end) {
  std::string found;
  return block({end}, found);
}

// Statements up to one of the tags `ends`, whose name is taken and left in `end`. Without ends: the whole template.
Block Parser::block(std::initializer_list<std::string_view> ends, std::string& end) {
  Nesting nesting(*this);
  Block body;
  for (;;) {
    const Token& token = peek();
    if (token.type == TokenType::kEnd) {
      if (ends.size() == 0) return body;
      error(token.line, fmt::format("the template ends where '{}' is expected", *(ends.end() - 1)));
    }
    if (token.type == TokenType::kData) {
      body.push_back(make(StatementKind::kText, token.line));
      body.back()->text = take().text;
    } else if (token.type == TokenType::kVariableBegin) {
      body.push_back(output());
    } else {
      take();
      for (std::string_view name : ends) {
        if (!at_name(name)) continue;
        end = take().text;
        return body;
      }
      statement(body, ends);
      expect(TokenType::kBlockEnd);
    }
  }
}

std::unique_ptr<Statement> Parser::output() {
  auto result = make(StatementKind::kOutput, take().line);
  result->expressions.push_back(tuple(true, false));
  expect(TokenType::kVariableEnd);
  return result;
}

void Parser::statement(Block& to, std::initializer_list<std::string_view> ends) {
  int line = peek().line;
  std::string_view tag = expect_name("name of a statement");
  auto add = [&](std::unique_ptr<Statement> made) { to.push_back(std::move(made)); };
  if (tag == "if") return add(if_statement(line));
  if (tag == "for") return add(for_statement(line));
  if (tag == "set") return add(set_statement(line));
  if (tag == "macro") return add(macro_statement(line));
  if (tag == "call") return add(call_statement(line));
  if (tag == "filter") return add(filter_statement(line));
  if (tag == "with") return add(with_statement(line));
  if (tag == "generation") return add(scope_statement(line, "endgeneration"));
  if (tag == "print") return add(print_statement(line));
  if (tag == "break" || tag == "continue") return add(jump_statement(line, tag));
  for (std::string_view refused : {"include", "import", "from", "extends", "block", "autoescape"})
    if (tag == refused)
      fail(ErrorCode::kUnsupported, "{}: line {}: the statement '{}' is not allowed in a chat template",
           name_, line, tag);
  std::string wanted = ends.size() ? fmt::format(", expected '{}'", *(ends.end() - 1)) : "";
  error(line, fmt::format("unknown statement '{}'{}", tag, wanted));
}

std::unique_ptr<Statement> Parser::if_statement(int line) {
  auto result = make(StatementKind::kIf, line);
  for (std::string end = "elif"; end == "elif";) {
    result->expressions.push_back(tuple(false, false));
    skip_operator(":");
    expect(TokenType::kBlockEnd);
    result->blocks.push_back(block({"elif", "else", "endif"}, end));
    if (end != "else") continue;
    skip_operator(":");
    expect(TokenType::kBlockEnd);
    result->blocks.push_back(block("endif"));
  }
  return result;
}

std::unique_ptr<Statement> Parser::for_statement(int line) {
  auto result = make(StatementKind::kFor, line);
  result->loop = std::make_unique<ForNode>();
  ForNode& loop = *result->loop;
  loop.target = target(false, "in");
  if (!skip_name("in")) unexpected("in");
  loop.source = tuple(false, false, "recursive");
  if (skip_name("if")) loop.condition = expression();
  if (at_name("recursive"))
    fail(ErrorCode::kUnsupported, "{}: line {}: 'recursive' loops are not supported", name_, line);
  skip_operator(":");
  expect(TokenType::kBlockEnd);
  ++loops_;
  std::string end;
  loop.body = block({"else", "endfor"}, end);
  --loops_;
  if (end == "else") {
    skip_operator(":");
    expect(TokenType::kBlockEnd);
    loop.otherwise = block("endfor");
  }
  return result;
}

std::unique_ptr<Statement> Parser::set_statement(int line) {
  auto result = make(StatementKind::kSet, line);
  result->targets.push_back(target(true));
  if (skip_operator("=")) {
    result->expressions.push_back(tuple(true, false));
    return result;
  }
  result->kind = StatementKind::kSetBlock;
  while (skip_operator("|")) result->filters.push_back(filter());
  skip_operator(":");
  expect(TokenType::kBlockEnd);
  result->blocks.push_back(block("endset"));
  return result;
}

void Parser::signature(MacroNode& macro) {
  expect_operator("(");
  while (!at_operator(")")) {
    if (!macro.parameters.empty()) expect_operator(",");
    if (at_operator(")")) break;
    std::string_view name = expect_name("name of a parameter");
    if (skip_operator("=")) {
      macro.defaults.push_back(expression());
    } else if (!macro.defaults.empty()) {
      error(peek().line, "a parameter without default follows one with a default");
    }
    macro.parameters.emplace_back(number_of(name), name);
  }
  expect_operator(")");
}

void Parser::macro_body(MacroNode& macro, std::string_view end) {
  skip_operator(":");
  expect(TokenType::kBlockEnd);
  int outer = std::exchange(loops_, 0);  // break does not leave a macro
  macros_.push_back(&macro);
  macro.body = block(end);
  macros_.pop_back();
  loops_ = outer;
}

std::unique_ptr<Statement> Parser::macro_statement(int line) {
  auto result = make(StatementKind::kMacro, line);
  result->macro = std::make_unique<MacroNode>();
  result->macro->name = expect_name("name of the macro");
  result->name = number_of(result->macro->name);
  signature(*result->macro);
  macro_body(*result->macro, "endmacro");
  return result;
}

std::unique_ptr<Statement> Parser::call_statement(int line) {
  auto result = make(StatementKind::kCallBlock, line);
  result->macro = std::make_unique<MacroNode>();
  result->macro->name = "caller";
  if (at_operator("(")) signature(*result->macro);
  ExpressionPtr call = expression();
  if (call->kind != ExpressionKind::kPostfix || call->postfixes.back().kind != PostfixKind::kCall)
    error(line, "'call' needs the call of a macro");
  result->expressions.push_back(std::move(call));
  macro_body(*result->macro, "endcall");
  return result;
}

std::unique_ptr<Statement> Parser::filter_statement(int line) {
  auto result = make(StatementKind::kFilterBlock, line);
  do result->filters.push_back(filter());
  while (skip_operator("|"));
  skip_operator(":");
  expect(TokenType::kBlockEnd);
  result->blocks.push_back(block("endfilter"));
  return result;
}

std::unique_ptr<Statement> Parser::with_statement(int line) {
  auto result = make(StatementKind::kWith, line);
  while (peek().type != TokenType::kBlockEnd && !at_operator(":")) {
    if (!result->targets.empty()) expect_operator(",");
    result->targets.push_back(target(false));
    expect_operator("=");
    result->expressions.push_back(expression());
  }
  skip_operator(":");
  expect(TokenType::kBlockEnd);
  result->blocks.push_back(block("endwith"));
  return result;
}

std::unique_ptr<Statement> Parser::scope_statement(int line, std::string_view end) {
  auto result = make(StatementKind::kScope, line);
  skip_operator(":");
  expect(TokenType::kBlockEnd);
  int outer = std::exchange(loops_, 0);
  result->blocks.push_back(block(end));
  loops_ = outer;
  return result;
}

std::unique_ptr<Statement> Parser::print_statement(int line) {
  auto result = make(StatementKind::kOutput, line);
  while (peek().type != TokenType::kBlockEnd) {
    if (!result->expressions.empty()) expect_operator(",");
    result->expressions.push_back(expression());
  }
  return result;
}

std::unique_ptr<Statement> Parser::jump_statement(int line, std::string_view tag) {
  if (loops_ == 0) error(line, fmt::format("'{}' outside of a loop", tag));
  return make(tag == "break" ? StatementKind::kBreak : StatementKind::kContinue, line);
}

Target Parser::single_target(bool with_attribute) {
  Nesting nesting(*this);
  Target result;
  if (skip_operator("(") || at_operator("[")) {
    if (at_operator("[")) error(peek().line, "cannot assign to a list");
    result = target(with_attribute, ")");
    expect_operator(")");
    return result;
  }
  std::string_view name = expect_name("name of a variable");
  for (std::string_view constant : {"true", "false", "none", "True", "False", "None"})
    if (name == constant) error(peek().line, fmt::format("cannot assign to '{}'", name));
  result.name = number_of(name);
  if (with_attribute && skip_operator(".")) {
    result.kind = Target::kAttribute;
    result.attribute = expect_name("name of an attribute");
  }
  return result;
}

Target Parser::target(bool with_attribute, std::string_view end_name) {
  Target first = single_target(with_attribute);
  if (!at_operator(",")) return first;
  Target result;
  result.kind = Target::kTuple;
  result.items.push_back(std::move(first));
  while (skip_operator(",")) {
    const Token& token = peek();
    if (token.type == TokenType::kBlockEnd || at_operator(")") || at_operator("=") ||
        (!end_name.empty() && at_name(end_name)))
      break;
    result.items.push_back(single_target(with_attribute));
  }
  return result;
}

Template parse_template(const std::string& name, std::string_view text, int max_depth) {
  Lexed lexed = lex(name, text);
  return Parser(name, lexed, max_depth).run();
}

}  // namespace roundel::jinja
