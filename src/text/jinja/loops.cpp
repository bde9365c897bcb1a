#include "base/error.h"
#include "text/jinja/builtins.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/iteration.h"

namespace roundel::jinja {

// The loop variable may outlive the loop in a namespace; its condition must not be asked any more.
class Interpreter::LoopEnd {
 public:
  explicit LoopEnd(LoopObject& loop) : loop_(loop) {}
  ~LoopEnd() {
    loop_.position = loop_.items().size();
    loop_.filtered = nullptr;
    loop_.outer = nullptr;
    loop_.last_changed.clear();  // may hold the loop itself
  }

 private:
  LoopObject& loop_;
};

Interpreter::Flow Interpreter::run_for(const Statement& statement, Scope& scope) {
  const ForNode& node = *statement.loop;
  Value source = eval(*node.source, scope);
  Items items = items_of(source, budget_);
  auto loop = std::make_shared<LoopObject>(&budget_, std::move(source), items.list, items.begin);
  if (node.condition) {
    loop->filtered = &node;
    loop->outer = &scope;
  } else {
    loop->length = static_cast<int64_t>(items.size());
  }
  LoopEnd end(*loop);
  bool completed = false;  // in Jinja a round that ends with break or continue does not keep `else` away
  while (advance(*loop)) {
    ScopeHolder inner(&scope);
    inner->set(program_.loop, Value(Kind::kLoop, loop));
    assign(node.target, loop->current, *inner);
    Flow flow = run_block(node.body, *inner);
    line_ = statement.line;
    if (flow == Flow::kBreak) break;
    completed = completed || flow == Flow::kNext;
  }
  if (completed || node.otherwise.empty()) return Flow::kNext;
  ScopeHolder inner(&scope);
  return run_block(node.otherwise, *inner);
}

// The next item that fulfils the condition.
bool Interpreter::pull(LoopObject& loop, Value& to) {
  while (loop.position < loop.items().size()) {
    budget_.step();
    Value candidate = loop.items()[loop.position++];
    if (loop.filtered) {
      ScopeHolder inner(loop.outer);
      assign(loop.filtered->target, candidate, *inner);
      if (!truthy(eval(*loop.filtered->condition, *inner))) continue;
    }
    to = std::move(candidate);
    return true;
  }
  return false;
}

bool Interpreter::advance(LoopObject& loop) {
  Value next = Value::absent();
  if (!loop.after.is_absent()) {
    std::swap(next, loop.after);
  } else if (!pull(loop, next)) {
    return false;
  }
  ++loop.index0;
  loop.before = std::move(loop.current);
  loop.current = std::move(next);
  return true;
}

// The item after the current one, absent at the end.
const Value& Interpreter::peek(LoopObject& loop) {
  if (loop.after.is_absent()) pull(loop, loop.after);
  return loop.after;
}

int64_t Interpreter::length(LoopObject& loop) {
  if (loop.length >= 0) return loop.length;
  std::vector<Value> rest;
  Value item;
  while (pull(loop, item)) rest.push_back(std::move(item));
  loop.length = static_cast<int64_t>(rest.size()) + loop.index0 + 1 + !loop.after.is_absent();
  loop.list = make_list(budget_, std::move(rest)).share();
  loop.position = 0;
  loop.filtered = nullptr;
  return loop.length;
}

Value Interpreter::loop_attribute(LoopObject& loop, std::string_view name) {
  int64_t index0 = loop.index0;
  if (name == "index") return Value::integer(index0 + 1);
  if (name == "index0") return Value::integer(index0);
  if (name == "first") return Value::boolean(index0 == 0);
  if (name == "last") return Value::boolean(peek(loop).is_absent());
  if (name == "length") return Value::integer(length(loop));
  if (name == "revindex") return Value::integer(length(loop) - index0);
  if (name == "revindex0") return Value::integer(length(loop) - index0 - 1);
  if (name == "depth") return Value::integer(1);
  if (name == "depth0") return Value::integer(0);
  if (name == "previtem")
    return index0 == 0 ? make_undefined(budget_, "there is no previous item") : loop.before;
  if (name == "nextitem") {
    const Value& next = peek(loop);
    return next.is_absent() ? make_undefined(budget_, "there is no next item") : next;
  }
  return make_undefined(budget_, fmt::format("'loop' has no attribute '{}'", name));
}

}  // namespace roundel::jinja
