// Parser: shared by the expression and the statement half. Grammar and precedence are Jinja's.
#pragma once
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "text/jinja/ast.h"
#include "text/jinja/lexer.h"

namespace roundel::jinja {

class Parser {
 public:
  Parser(const std::string& name, const Lexed& lexed, int max_depth);
  Template run();

 private:
  // ---- tokens
  const Token& peek(size_t ahead = 0) const;
  const Token& take();
  bool at_operator(std::string_view text, size_t ahead = 0) const;
  bool at_name(std::string_view text, size_t ahead = 0) const;
  bool skip_operator(std::string_view text);
  bool skip_name(std::string_view text);
  void expect_operator(std::string_view text);
  std::string_view expect_name(const char* what);
  void expect(TokenType type);
  [[noreturn]] void error(int line, const std::string& message) const;
  [[noreturn]] void unexpected(const char* wanted) const;
  int number_of(std::string_view name);

  // ---- expressions (parser_expressions.cpp)
  ExpressionPtr expression(bool with_condition = true);
  ExpressionPtr condition_chain(ExpressionPtr value);
  ExpressionPtr binary(int min_level);
  ExpressionPtr operator_chain(ExpressionPtr left, int level);
  int binary_level() const;
  Operator take_operator(int level);
  ExpressionPtr unary(bool with_filter);
  ExpressionPtr primary();
  ExpressionPtr name_or_literal();
  ExpressionPtr string_literal();
  ExpressionPtr number_literal();
  ExpressionPtr bracketed();
  ExpressionPtr dict_literal();
  // Expressions with commas between them are a tuple. end_name: a name that ends it ("in", "recursive").
  ExpressionPtr tuple(bool with_condition, bool parentheses, std::string_view end_name = {});
  ExpressionPtr postfixed(ExpressionPtr operand, bool with_filter);
  void subscript(Postfix& postfix);
  bool slice(Postfix& postfix);
  Postfix filter();
  Postfix test();
  CallNode call();

  // ---- statements (parser.cpp)
  Block block(std::initializer_list<std::string_view> ends, std::string& end);
  Block block(std::string_view end);
  void statement(Block& to, std::initializer_list<std::string_view> ends);
  std::unique_ptr<Statement> output();
  std::unique_ptr<Statement> if_statement(int line);
  std::unique_ptr<Statement> for_statement(int line);
  std::unique_ptr<Statement> set_statement(int line);
  std::unique_ptr<Statement> macro_statement(int line);
  std::unique_ptr<Statement> call_statement(int line);
  std::unique_ptr<Statement> filter_statement(int line);
  std::unique_ptr<Statement> with_statement(int line);
  std::unique_ptr<Statement> scope_statement(int line, std::string_view end);
  std::unique_ptr<Statement> print_statement(int line);
  std::unique_ptr<Statement> jump_statement(int line, std::string_view tag);
  void signature(MacroNode& macro);
  void macro_body(MacroNode& macro, std::string_view end);
  Target target(bool with_attribute, std::string_view end_name = {});
  Target single_target(bool with_attribute);

  struct Nesting {  // one level deeper until the end of the block
    explicit Nesting(Parser& owner) : parser(owner) {
      if (++parser.depth_ > parser.max_depth_) parser.too_deep();
    }
    ~Nesting() { --parser.depth_; }
    Nesting(const Nesting&) = delete;
    Parser& parser;
  };
  [[noreturn]] void too_deep();

  const std::string& name_;
  const std::vector<Token>& tokens_;
  int max_depth_;
  size_t at_ = 0;
  int depth_ = 0;
  int loops_ = 0;  // around the current place, inside the current macro
  std::vector<MacroNode*> macros_;
  std::unordered_map<std::string, int> numbers_;
  Template template_;
};

}  // namespace roundel::jinja
