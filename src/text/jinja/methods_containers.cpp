// Methods of dicts, lists and the loop variable.
#include "base/error.h"
#include "text/jinja/builtins.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/iteration.h"
#include "text/jinja/operators.h"

namespace roundel::jinja {
namespace {

Value lookup_method(Interpreter& in, const Value& self, Arguments& arguments) {
  auto [key, otherwise] = bind<2>("get()", arguments, {"key", "default"}, 1);
  if (key.is_undefined()) return otherwise.is_absent() ? Value::none() : otherwise;
  const Value* found = self.dict().find(key, in.budget());
  if (found) return *found;
  return otherwise.is_absent() ? Value::none() : otherwise;
}

Value items_method(Interpreter& in, const Value& self, Arguments& arguments) {
  bind_none("items()", arguments);
  return make_sequence(in.budget(), Kind::kView, dict_pairs(self, in.budget()), "dict_items");
}

Value keys_method(Interpreter& in, const Value& self, Arguments& arguments) {
  bind_none("keys()", arguments);
  std::vector<Value> keys;
  for (const auto& entry : self.dict().entries) keys.push_back(entry.first);
  return make_sequence(in.budget(), Kind::kView, std::move(keys), "dict_keys");
}

Value values_method(Interpreter& in, const Value& self, Arguments& arguments) {
  bind_none("values()", arguments);
  std::vector<Value> values;
  for (const auto& entry : self.dict().entries) values.push_back(entry.second);
  return make_sequence(in.budget(), Kind::kView, std::move(values), "dict_values");
}

Value copy_method(Interpreter&, const Value& self, Arguments& arguments) {
  bind_none("copy()", arguments);
  return self;  // values do not change
}

Value count_method(Interpreter& in, const Value& self, Arguments& arguments) {
  auto [wanted] = bind<1>("count()", arguments, {"value"}, 1);
  int64_t count = 0;
  for (const Value& item : self.items()) count += equal(item, wanted, in.budget());
  return Value::integer(count);
}

Value index_method(Interpreter& in, const Value& self, Arguments& arguments) {
  auto [wanted] = bind<1>("index()", arguments, {"value"}, 1);
  for (size_t i = 0; i < self.items().size(); ++i)
    if (equal(self.items()[i], wanted, in.budget())) return Value::integer(static_cast<int64_t>(i));
  fail(ErrorCode::kInvalid, "index(): the value is not in the list");
}

Value cycle_method(Interpreter&, const Value& self, Arguments& arguments) {
  if (arguments.positional.empty()) fail(ErrorCode::kInvalid, "loop.cycle() needs values");
  return arguments.positional[static_cast<size_t>(self.loop().index0) % arguments.positional.size()];
}

Value changed_method(Interpreter& in, const Value& self, Arguments& arguments) {
  LoopObject& loop = self.loop();
  bool same = loop.asked_changed && loop.last_changed.size() == arguments.positional.size();
  for (size_t i = 0; same && i < arguments.positional.size(); ++i)
    same = equal(loop.last_changed[i], arguments.positional[i], in.budget());
  loop.asked_changed = true;
  loop.last_changed = arguments.positional;
  return Value::boolean(!same);
}

}  // namespace

std::vector<Value> dict_pairs(const Value& dict, Budget& budget) {
  std::vector<Value> pairs;
  pairs.reserve(dict.dict().entries.size());
  for (const auto& [key, value] : dict.dict().entries)
    pairs.push_back(make_sequence(budget, Kind::kTuple, {key, value}));
  return pairs;
}

Native find_dict_method(std::string_view name) {
  static constexpr NamedNative kMethods[] = {{"get", lookup_method},
                                             {"items", items_method},
                                             {"keys", keys_method},
                                             {"values", values_method},
                                             {"copy", copy_method}};
  return find_in(kMethods, name);
}

Native find_list_method(std::string_view name) {
  static constexpr NamedNative kMethods[] = {
      {"count", count_method}, {"index", index_method}, {"copy", copy_method}};
  return find_in(kMethods, name);
}

Native find_loop_method(std::string_view name) {
  static constexpr NamedNative kMethods[] = {{"cycle", cycle_method}, {"changed", changed_method}};
  return find_in(kMethods, name);
}

}  // namespace roundel::jinja
