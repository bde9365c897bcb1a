// Runs a parsed template once.
//
//   Budget budget(limits);
//   Interpreter interpreter(program, budget);
//   std::string text = interpreter.run({{"messages", messages}});   // on an Error: interpreter.line() says where
#pragma once
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja/ast.h"
#include "text/jinja/callable.h"

namespace roundel::jinja {

// Variables of the template, of a loop's round, of a macro call ...
struct Scope {
  explicit Scope(Scope* outer) : parent(outer) {}
  Scope* parent;
  std::vector<std::pair<int, Value>> variables;
  bool captured = false;  // a macro was defined here: the interpreter keeps it
  void set(int name, Value value);
};

class Interpreter {
 public:
  Interpreter(const Template& program, Budget& budget);
  ~Interpreter();
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;

  std::string run(const std::map<std::string, Value, std::less<>>& variables);
  int line() const { return line_; }

  // ---- for filters, tests, methods and functions
  Budget& budget() { return budget_; }
  Value call(const Value& callee, Arguments& arguments);
  Value filter(std::string_view name, const Value& input, Arguments& arguments);
  bool test(std::string_view name, const Value& input, Arguments& arguments);
  Value attribute(const Value& object, std::string_view name);  // object.name
  Value item(const Value& object, const Value& key);            // object[key]
  Value make_namespace();
  Value loop_attribute(LoopObject& loop, std::string_view name);

 private:
  enum class Flow : uint8_t { kNext, kBreak, kContinue };

  // ---- statements (interpreter.cpp)
  Flow run_block(const Block& block, Scope& scope);
  Flow run_statement(const Statement& statement, Scope& scope);
  Flow run_if(const Statement& statement, Scope& scope);
  Flow run_captured(const Statement& statement, Scope& scope);
  Flow run_scoped(const Statement& statement, Scope& scope);
  void run_output(const Statement& statement, Scope& scope);
  void run_macro(const Statement& statement, Scope& scope);
  void run_call_block(const Statement& statement, Scope& scope);
  void assign(const Target& target, const Value& value, Scope& scope);
  void assign_attribute(const Target& target, const Value& value, Scope& scope);
  void emit(const Value& value);
  void capture(Scope& scope);
  Value call_macro(const CallableObject& macro, Arguments& arguments);
  void bind_parameters(const MacroNode& macro, Arguments& arguments, Scope& scope);
  void bind_rest(const MacroNode& macro, Arguments& arguments, Scope& scope);

  // ---- loops (loops.cpp)
  Flow run_for(const Statement& statement, Scope& scope);
  bool pull(LoopObject& loop, Value& to);
  bool advance(LoopObject& loop);
  const Value& peek(LoopObject& loop);
  int64_t length(LoopObject& loop);

  // ---- expressions (expressions.cpp)
  Value eval(const Expression& expression, Scope& scope);
  Value eval_name(int name, Scope& scope);
  Value eval_inner(const Expression& expression, Scope& scope);
  Value eval_items(const Expression& expression, Scope& scope);
  Value eval_dict(const Expression& expression, Scope& scope);
  Value eval_arithmetic(const Expression& expression, Scope& scope);
  Value eval_compare(const Expression& expression, Scope& scope);
  Value eval_logic(const Expression& expression, Scope& scope);
  Value eval_concat(const Expression& expression, Scope& scope);
  Value eval_condition(const Expression& expression, Scope& scope);
  Value eval_postfixes(const Expression& expression, size_t count, Scope& scope);
  Value apply(const Postfix& postfix, const Value& value, Scope& scope);
  Value apply_slice(const Postfix& postfix, const Value& value, Scope& scope);
  Value apply_with_arguments(const Postfix& postfix, const Value& value, Scope& scope);
  void arguments(const CallNode& node, Scope& scope, Arguments& to);

  class ScopeHolder;
  class Capture;
  class LoopEnd;

  const Template& program_;
  Budget& budget_;
  int line_ = 1;
  std::string* output_ = nullptr;
  std::vector<std::unique_ptr<Scope>> kept_;
  std::vector<std::unique_ptr<NamespaceObject>> namespaces_;
};

// A scope for the time of a block; lives on when a macro was defined in it.
class Interpreter::ScopeHolder {
 public:
  explicit ScopeHolder(Scope* parent) : scope_(std::make_unique<Scope>(parent)) {}
  ~ScopeHolder() {
    if (scope_->captured) (void)scope_.release();  // the interpreter owns it
  }
  ScopeHolder(const ScopeHolder&) = delete;
  Scope& operator*() const { return *scope_; }
  Scope* operator->() const { return scope_.get(); }

 private:
  std::unique_ptr<Scope> scope_;
};

}  // namespace roundel::jinja
