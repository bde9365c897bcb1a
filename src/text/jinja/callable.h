// What a template can call (macros, methods, global functions), the arguments of a call, and the two kinds of
// objects that change while a template runs: namespace() and the loop variable.
//
//   auto [text, width] = bind<2>("indent", arguments, {"s", "width"}, 1);   // width may be absent
#pragma once
#include <array>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja/value.h"

namespace roundel::jinja {

class Interpreter;
struct Scope;
struct MacroNode;
struct ForNode;

struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;
  const Value* find(std::string_view name) const;
};

// `self`: the value left of the dot or of the bar; undefined for global functions.
using Native = Value (*)(Interpreter& interpreter, const Value& self, Arguments& arguments);

struct CallableObject : Object {
  CallableObject(Budget* owner, std::string spelling, Native function, Value owner_value);
  CallableObject(Budget* owner, std::string spelling, const MacroNode* node, Scope* scope);
  const std::string name;
  const Native native = nullptr;
  const Value self;
  const MacroNode* const macro = nullptr;
  Scope* const closure = nullptr;  // kept by the interpreter until the end
};

// Kept by the interpreter until the end, so that a namespace may hold itself.
struct NamespaceObject : Object {
  explicit NamespaceObject(Budget* owner) : Object(owner, 0, 0) {}
  std::map<std::string, Value, std::less<>> values;
};

struct LoopObject : Object {
  LoopObject(Budget* owner, Value values, std::shared_ptr<Object> shared, size_t begin);
  const Value source;                 // what is walked
  std::shared_ptr<Object> list;       // SequenceObject of the items
  size_t position;                    // next candidate in `list`
  const ForNode* filtered = nullptr;  // its condition decides which candidates count
  Scope* outer = nullptr;
  int64_t index0 = -1;
  int64_t length = -1;  // not known yet
  Value before = Value::absent(), current = Value::absent(), after = Value::absent();
  std::vector<Value> last_changed;
  bool asked_changed = false;
  const std::vector<Value>& items() const { return static_cast<const SequenceObject&>(*list).items; }
};

Value make_method(Budget& budget, std::string name, Native function, const Value& self);

// Sorts arguments into parameters by position and name. Absent ones become Value::absent(); the first `required` must
// be there. Anything else that was given is an error naming `function`.
void bind_arguments(std::string_view function, Arguments& arguments, const std::string_view* names,
                    size_t count, size_t required, Value* to);
template <size_t N>
std::array<Value, N> bind(std::string_view function, Arguments& arguments,
                          const std::array<std::string_view, N>& names, size_t required = 0) {
  std::array<Value, N> values;
  bind_arguments(function, arguments, names.data(), N, required, values.data());
  return values;
}
void bind_none(std::string_view function, const Arguments& arguments);

// Argument values of the expected type, or an Error naming the function.
int64_t int_argument(std::string_view function, const Value& value);
int64_t int_argument(std::string_view function, const Value& value, int64_t if_absent);
const std::string& text_argument(std::string_view function, const Value& value);

}  // namespace roundel::jinja
