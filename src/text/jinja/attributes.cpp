// object.name and object[key].
#include <algorithm>
#include <initializer_list>

#include "base/error.h"
#include "text/jinja/builtins.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/slice.h"

namespace roundel::jinja {
namespace {

// Jinja's sandbox forbids these, and so do we: values do not change.
void refuse_change(const Value& object, std::string_view name) {
  auto refuse_if = [&](Kind kind, std::initializer_list<std::string_view> names) {
    if (object.is(kind) && std::find(names.begin(), names.end(), name) != names.end())
      fail(ErrorCode::kInvalid, "'{}' would change a {}, which templates may not", name, type_name(object));
  };
  refuse_if(Kind::kList, {"append", "clear", "pop", "reverse", "insert", "sort", "extend", "remove"});
  refuse_if(Kind::kDict, {"clear", "pop", "popitem", "setdefault", "update"});
}

Native method_of(const Value& object, std::string_view name) {
  switch (object.kind()) {
    case Kind::kString:
      return find_text_method(name);
    case Kind::kDict:
      return find_dict_method(name);
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kRange:
      return find_list_method(name);
    case Kind::kLoop:
      return find_loop_method(name);
    default:
      return nullptr;
  }
}

// A key that no list or dict can have is not an error in Jinja, the value is undefined.
bool is_hashable(const Value& key) {
  if (!key.is(Kind::kTuple)) return key.is_string() || key.is_number() || key.is(Kind::kNone);
  return std::all_of(key.items().begin(), key.items().end(), is_hashable);
}

Value no_attribute(const Value& object, std::string_view name, Budget& budget) {
  return make_undefined(
      budget, fmt::format("'{} object' has no attribute '{}'", type_name(object), name.substr(0, 200)));
}

[[noreturn]] void refuse_private(std::string_view name) {
  fail(ErrorCode::kInvalid, "the attribute '{}' is refused: names that begin with '_' are not data", name);
}

}  // namespace

Value Interpreter::attribute(const Value& object, std::string_view name) {
  if (object.is_undefined()) fail(ErrorCode::kInvalid, "{}", undefined_message(object));
  if (!name.starts_with('_')) {
    refuse_change(object, name);
    if (Native method = method_of(object, name))
      return make_method(budget_, std::string(name), method, object);
  }
  if (object.is(Kind::kDict))
    if (const Value* found = object.dict().find(name)) return *found;
  if (name.starts_with('_')) refuse_private(name);
  if (object.is(Kind::kLoop)) return loop_attribute(object.loop(), name);
  if (object.is(Kind::kNamespace)) {
    const auto& values = object.name_space().values;
    if (auto it = values.find(name); it != values.end()) return it->second;
  }
  if (object.is(Kind::kCallable) && object.callable().macro && name == "name")
    return make_string(budget_, object.callable().name);
  return no_attribute(object, name, budget_);
}

Value Interpreter::item(const Value& object, const Value& key) {
  if (object.is_undefined()) fail(ErrorCode::kInvalid, "{}", undefined_message(object));
  budget_.step();
  if (object.is(Kind::kDict) && is_hashable(key))
    if (const Value* found = object.dict().find(key, budget_)) return *found;
  if (key.is_integral() && (object.is_string() || object.is_sequence())) {
    Value found = indexed(object, key.as_int(), budget_);
    if (!found.is_absent()) return found;
  }
  if (!key.is_string())
    return make_undefined(
        budget_, key.is_integral()
                     ? fmt::format("the {} has no element {}", type_name(object), key.as_int())
                     : fmt::format("the {} has no element of type '{}'", type_name(object), type_name(key)));
  std::string_view name = key.text();
  if (name.starts_with("__")) refuse_private(name.substr(0, 200));
  if (name.starts_with('_') || object.is(Kind::kDict)) {
    if (!name.starts_with('_')) {
      refuse_change(object, name);
      if (Native method = method_of(object, name))
        return make_method(budget_, std::string(name), method, object);
    }
    return no_attribute(object, name, budget_);
  }
  return attribute(object, name);
}

}  // namespace roundel::jinja
