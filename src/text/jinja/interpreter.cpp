#include "text/jinja/interpreter.h"

#include <algorithm>

#include "base/error.h"
#include "text/jinja/builtins.h"
#include "text/jinja/iteration.h"
#include "text/jinja/print.h"

namespace roundel::jinja {
namespace {

constexpr size_t kKeptScopeBytes = 256;

bool has_parameter(const MacroNode& macro, std::string_view name) {
  return std::any_of(macro.parameters.begin(), macro.parameters.end(),
                     [&](const auto& p) { return p.second == name; });
}

}  // namespace

void Scope::set(int name, Value value) {
  for (auto& [number, held] : variables) {
    if (number != name) continue;
    held = std::move(value);
    return;
  }
  variables.emplace_back(name, std::move(value));
}

// Collects what a block prints.
class Interpreter::Capture {
 public:
  explicit Capture(Interpreter& owner) : owner_(owner), outer_(owner.output_) { owner_.output_ = &text_; }
  ~Capture() {
    owner_.budget_.release(text_.size());
    owner_.output_ = outer_;
  }
  Capture(const Capture&) = delete;
  Value take() { return make_string(owner_.budget_, text_); }

 private:
  Interpreter& owner_;
  std::string* outer_;
  std::string text_;
};

Interpreter::Interpreter(const Template& program, Budget& budget) : program_(program), budget_(budget) {}

Interpreter::~Interpreter() = default;

std::string Interpreter::run(const std::map<std::string, Value, std::less<>>& variables) {
  ScopeHolder top(nullptr);
  for (size_t i = 0; i < program_.names.size(); ++i)
    if (auto it = variables.find(program_.names[i]); it != variables.end())
      top->set(static_cast<int>(i), it->second);
  std::string out;
  output_ = &out;
  run_block(program_.body, *top);
  return out;
}

Interpreter::Flow Interpreter::run_block(const Block& block, Scope& scope) {
  Depth depth(budget_);
  for (const auto& statement : block)
    if (Flow flow = run_statement(*statement, scope); flow != Flow::kNext) return flow;
  return Flow::kNext;
}

Interpreter::Flow Interpreter::run_statement(const Statement& statement, Scope& scope) {
  budget_.step();
  line_ = statement.line;
  switch (statement.kind) {
    case StatementKind::kText:
    case StatementKind::kOutput:
      run_output(statement, scope);
      return Flow::kNext;
    case StatementKind::kIf:
      return run_if(statement, scope);
    case StatementKind::kFor:
      return run_for(statement, scope);
    case StatementKind::kSet:
      assign(statement.targets[0], eval(*statement.expressions[0], scope), scope);
      return Flow::kNext;
    case StatementKind::kSetBlock:
    case StatementKind::kFilterBlock:
      return run_captured(statement, scope);
    case StatementKind::kMacro:
      run_macro(statement, scope);
      return Flow::kNext;
    case StatementKind::kCallBlock:
      run_call_block(statement, scope);
      return Flow::kNext;
    case StatementKind::kWith:
    case StatementKind::kScope:
      return run_scoped(statement, scope);
    case StatementKind::kBreak:
      return Flow::kBreak;
    case StatementKind::kContinue:
      return Flow::kContinue;
  }
  return Flow::kNext;
}

void Interpreter::run_output(const Statement& statement, Scope& scope) {
  if (statement.kind == StatementKind::kText) {
    budget_.work(statement.text.size());
    budget_.check_text(output_->size() + statement.text.size());
    budget_.charge(statement.text.size());
    *output_ += statement.text;
    return;
  }
  for (const auto& expression : statement.expressions) emit(eval(*expression, scope));
}

void Interpreter::emit(const Value& value) {
  size_t before = output_->size();
  append_text(value, *output_, budget_);
  budget_.check_text(output_->size());
  budget_.charge(output_->size() - before);
}

Interpreter::Flow Interpreter::run_if(const Statement& statement, Scope& scope) {
  size_t count = statement.expressions.size();
  for (size_t i = 0; i < count; ++i)
    if (truthy(eval(*statement.expressions[i], scope))) return run_block(statement.blocks[i], scope);
  return statement.blocks.size() > count ? run_block(statement.blocks[count], scope) : Flow::kNext;
}

// set and filter blocks: the text of the block goes through filters.
Interpreter::Flow Interpreter::run_captured(const Statement& statement, Scope& scope) {
  Value text;
  {
    Capture capture(*this);
    ScopeHolder inner(&scope);
    if (Flow flow = run_block(statement.blocks[0], *inner); flow != Flow::kNext) return flow;
    text = capture.take();
  }
  for (const Postfix& filter : statement.filters) text = apply(filter, text, scope);
  if (statement.kind == StatementKind::kSetBlock) {
    assign(statement.targets[0], text, scope);
  } else {
    emit(text);
  }
  return Flow::kNext;
}

Interpreter::Flow Interpreter::run_scoped(const Statement& statement, Scope& scope) {
  ScopeHolder inner(&scope);
  for (size_t i = 0; i < statement.targets.size(); ++i)  // values see the outer variables only
    assign(statement.targets[i], eval(*statement.expressions[i], scope), *inner);
  return run_block(statement.blocks[0], *inner);
}

// Scopes that a macro can see must outlive the block.
void Interpreter::capture(Scope& scope) {
  for (Scope* at = &scope; at && !at->captured; at = at->parent) {
    budget_.charge(kKeptScopeBytes);
    kept_.emplace_back(nullptr);
    kept_.back().reset(at);
    at->captured = true;
  }
}

void Interpreter::run_macro(const Statement& statement, Scope& scope) {
  capture(scope);
  const MacroNode& macro = *statement.macro;
  scope.set(statement.name,
            Value(Kind::kCallable, std::make_shared<CallableObject>(&budget_, macro.name, &macro, &scope)));
}

void Interpreter::run_call_block(const Statement& statement, Scope& scope) {
  capture(scope);
  const Expression& expression = *statement.expressions[0];
  size_t last = expression.postfixes.size() - 1;
  Value callee = eval_postfixes(expression, last, scope);
  Arguments given;
  arguments(expression.postfixes[last].call, scope, given);
  const MacroNode& macro = *statement.macro;
  given.named.emplace_back("caller", Value(Kind::kCallable, std::make_shared<CallableObject>(
                                                                &budget_, macro.name, &macro, &scope)));
  line_ = statement.line;
  emit(call(callee, given));
}

void Interpreter::assign(const Target& target, const Value& value, Scope& scope) {
  if (target.kind == Target::kName) return scope.set(target.name, value);
  if (target.kind == Target::kAttribute) return assign_attribute(target, value, scope);
  Items items = items_of(value, budget_);
  if (items.size() != target.items.size())
    fail(ErrorCode::kInvalid, "{} values for {} names", items.size(), target.items.size());
  for (size_t i = 0; i < items.size(); ++i) assign(target.items[i], items[i], scope);
}

void Interpreter::assign_attribute(const Target& target, const Value& value, Scope& scope) {
  Value object = eval_name(target.name, scope);
  if (object.is_undefined()) fail(ErrorCode::kInvalid, "{}", undefined_message(object));
  if (!object.is(Kind::kNamespace))
    fail(ErrorCode::kInvalid, "only attributes of a namespace() can be set, '{}' is a '{}'",
         program_.names[static_cast<size_t>(target.name)], type_name(object));
  object.name_space().values.insert_or_assign(target.attribute, value);
}

Value Interpreter::make_namespace() {
  namespaces_.push_back(std::make_unique<NamespaceObject>(&budget_));
  // not owned by values, or a namespace that holds itself would never be freed
  return Value(Kind::kNamespace,
               std::shared_ptr<Object>(std::shared_ptr<Object>(), namespaces_.back().get()));
}

Value Interpreter::call(const Value& callee, Arguments& given) {
  Depth depth(budget_);
  budget_.step();
  if (callee.is_undefined()) fail(ErrorCode::kInvalid, "{}", undefined_message(callee));
  if (!callee.is(Kind::kCallable)) fail(ErrorCode::kInvalid, "a '{}' cannot be called", type_name(callee));
  const CallableObject& callable = callee.callable();
  return callable.native ? callable.native(*this, callable.self, given) : call_macro(callable, given);
}

Value Interpreter::call_macro(const CallableObject& callable, Arguments& given) {
  ScopeHolder scope(callable.closure);
  bind_parameters(*callable.macro, given, *scope);
  Capture capture(*this);
  run_block(callable.macro->body, *scope);
  return capture.take();
}

void Interpreter::bind_parameters(const MacroNode& macro, Arguments& given, Scope& scope) {
  size_t count = macro.parameters.size(), first_default = count - macro.defaults.size();
  budget_.step(count * (1 + given.named.size()) / 16);
  std::vector<Value> values(count, Value::absent());
  for (size_t i = 0; i < count; ++i) {
    if (i < given.positional.size()) {
      values[i] = given.positional[i];
      continue;
    }
    auto it = std::find_if(given.named.begin(), given.named.end(),
                           [&](const auto& named) { return named.first == macro.parameters[i].second; });
    if (it == given.named.end()) continue;
    values[i] = it->second;
    given.named.erase(it);
  }
  bind_rest(macro, given, scope);
  for (size_t i = 0; i < count; ++i) {
    const auto& [number, name] = macro.parameters[i];
    if (values[i].is_absent())
      values[i] = i >= first_default
                      ? eval(*macro.defaults[i - first_default], scope)
                      : make_undefined(budget_, fmt::format("parameter '{}' was not provided", name));
    scope.set(number, values[i]);
  }
}

// caller, kwargs and varargs
void Interpreter::bind_rest(const MacroNode& macro, Arguments& given, Scope& scope) {
  if (macro.uses_caller && !has_parameter(macro, "caller")) {
    Value caller = make_undefined(budget_, "No caller defined");
    std::erase_if(given.named, [&](auto& named) {
      if (named.first != "caller") return false;
      caller = named.second;
      return true;
    });
    scope.set(program_.caller, caller);
  }
  if (macro.uses_kwargs) {
    std::vector<DictObject::Entry> rest;
    for (auto& [name, value] : given.named) rest.emplace_back(make_string(budget_, name), value);
    scope.set(program_.kwargs, make_dict(budget_, std::move(rest)));
  } else if (!given.named.empty()) {
    fail(ErrorCode::kInvalid, "macro '{}' takes no keyword argument '{}'", macro.name, given.named[0].first);
  }
  size_t count = macro.parameters.size(), positional = given.positional.size();
  if (macro.uses_varargs) {
    auto first = given.positional.begin() + static_cast<ptrdiff_t>(std::min(count, positional));
    scope.set(program_.varargs,
              make_sequence(budget_, Kind::kTuple, std::vector<Value>(first, given.positional.end())));
  } else if (positional > count) {
    fail(ErrorCode::kInvalid, "macro '{}' takes not more than {} argument(s)", macro.name, count);
  }
}

}  // namespace roundel::jinja
