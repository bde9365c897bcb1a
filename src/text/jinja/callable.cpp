#include "text/jinja/callable.h"

#include "base/error.h"

namespace roundel::jinja {

const Value* Arguments::find(std::string_view name) const {
  for (const auto& [key, value] : named)
    if (key == name) return &value;
  return nullptr;
}

CallableObject::CallableObject(Budget* owner, std::string spelling, Native function, Value owner_value)
    : Object(owner, spelling.size(), nesting_of(owner_value) + 1),
      name(std::move(spelling)),
      native(function),
      self(std::move(owner_value)) {}

CallableObject::CallableObject(Budget* owner, std::string spelling, const MacroNode* node, Scope* scope)
    : Object(owner, spelling.size(), 0), name(std::move(spelling)), macro(node), closure(scope) {}

LoopObject::LoopObject(Budget* owner, Value values, std::shared_ptr<Object> shared, size_t begin)
    : Object(owner, 0, shared->depth + 1),
      source(std::move(values)),
      list(std::move(shared)),
      position(begin) {}

Value make_method(Budget& budget, std::string name, Native function, const Value& self) {
  return Value(Kind::kCallable, std::make_shared<CallableObject>(&budget, std::move(name), function, self));
}

void bind_arguments(std::string_view function, Arguments& arguments, const std::string_view* names,
                    size_t count, size_t required, Value* to) {
  size_t given = arguments.positional.size();
  if (given > count)
    fail(ErrorCode::kInvalid, "{} takes at most {} arguments ({} given)", function, count, given);
  for (size_t i = 0; i < count; ++i) to[i] = i < given ? arguments.positional[i] : Value::absent();
  for (const auto& [name, value] : arguments.named) {
    size_t at = 0;
    while (at < count && names[at] != name) ++at;
    if (at == count) fail(ErrorCode::kInvalid, "{} has no argument '{}'", function, name);
    if (!to[at].is_absent()) fail(ErrorCode::kInvalid, "{} got argument '{}' twice", function, name);
    to[at] = value;
  }
  for (size_t i = 0; i < required; ++i)
    if (to[i].is_absent()) fail(ErrorCode::kInvalid, "{} needs the argument '{}'", function, names[i]);
}

void bind_none(std::string_view function, const Arguments& arguments) {
  if (!arguments.positional.empty() || !arguments.named.empty())
    fail(ErrorCode::kInvalid, "{} takes no arguments", function);
}

int64_t int_argument(std::string_view function, const Value& value) {
  if (value.is_integral()) return value.as_int();
  fail(ErrorCode::kInvalid, "{} expects an integer, got '{}'", function, type_name(value));
}

int64_t int_argument(std::string_view function, const Value& value, int64_t if_absent) {
  return value.is_absent() ? if_absent : int_argument(function, value);
}

const std::string& text_argument(std::string_view function, const Value& value) {
  if (value.is_string()) return value.text();
  if (value.is_undefined()) fail(ErrorCode::kInvalid, "{}: {}", function, undefined_message(value));
  fail(ErrorCode::kInvalid, "{} expects a string, got '{}'", function, type_name(value));
}

}  // namespace roundel::jinja
