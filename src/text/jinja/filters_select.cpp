// map, select, reject, selectattr and rejectattr, and the attribute paths that other filters take.
#include <algorithm>

#include "base/error.h"
#include "text/jinja/builtins.h"
#include "text/jinja/interpreter.h"
#include "text/jinja/iteration.h"
#include "text/jinja/operators.h"
#include "text/jinja/python_text.h"

namespace roundel::jinja {
namespace {

void drop_first(Arguments& arguments, size_t count) {
  arguments.positional.erase(arguments.positional.begin(),
                             arguments.positional.begin() + static_cast<ptrdiff_t>(count));
}

Value map_attribute(Interpreter& in, const Value& self, Arguments& arguments) {
  auto [path, otherwise] = bind<2>("map", arguments, {"attribute", "default"});
  if (otherwise.is(Kind::kNone)) otherwise = Value::absent();
  Items items = items_of(self, in.budget());
  std::vector<Value> out;
  for (size_t i = 0; i < items.size(); ++i) out.push_back(at_path(in, items[i], path, otherwise));
  return make_iterator(in.budget(), std::move(out));
}

Value map_filter(Interpreter& in, const Value& self, Arguments& arguments) {
  if (!truthy(self)) return make_iterator(in.budget(), {});
  if (arguments.positional.empty() && arguments.find("attribute")) return map_attribute(in, self, arguments);
  if (arguments.positional.empty()) fail(ErrorCode::kInvalid, "map needs the name of a filter or attribute=");
  std::string name = text_argument("map", arguments.positional[0]);
  drop_first(arguments, 1);
  Items items = items_of(self, in.budget());
  std::vector<Value> out;
  for (size_t i = 0; i < items.size(); ++i) {
    Arguments copy = arguments;
    in.budget().step(copy.positional.size() + copy.named.size());
    out.push_back(in.filter(name, items[i], copy));
  }
  return make_iterator(in.budget(), std::move(out));
}

template <bool kAttribute, bool kKeep>
Value select_filter(Interpreter& in, const Value& self, Arguments& arguments) {
  if (!truthy(self)) return make_iterator(in.budget(), {});
  Value path = Value::absent();
  if (kAttribute) {
    if (arguments.positional.empty()) fail(ErrorCode::kInvalid, "selectattr needs the name of an attribute");
    path = arguments.positional[0];
    drop_first(arguments, 1);
  }
  std::string name;
  if (!arguments.positional.empty()) {
    name = text_argument("select", arguments.positional[0]);
    drop_first(arguments, 1);
  }
  Items items = items_of(self, in.budget());
  std::vector<Value> out;
  for (size_t i = 0; i < items.size(); ++i) {
    Value subject = at_path(in, items[i], path);
    Arguments copy = arguments;
    in.budget().step(1 + copy.positional.size() + copy.named.size());
    bool holds = name.empty() ? truthy(subject) : in.test(name, subject, copy);
    if (holds == kKeep) out.push_back(items[i]);
  }
  return make_iterator(in.budget(), std::move(out));
}

}  // namespace

Value at_path(Interpreter& in, const Value& value, const Value& path, const Value& otherwise) {
  if (path.is_absent() || path.is(Kind::kNone)) return value;
  if (!path.is_string()) {
    Value at = in.item(value, path);
    return at.is_undefined() && !otherwise.is_absent() ? otherwise : at;
  }
  Value at = value;
  for (std::string_view part : split_text(path.text(), ".", path.text().size())) {
    bool number = !part.empty() && part.size() < 10 &&
                  std::all_of(part.begin(), part.end(), [](char c) { return c >= '0' && c <= '9'; });
    Value key;
    if (number) {
      int64_t index = 0;
      for (char c : part) index = index * 10 + (c - '0');
      key = Value::integer(index);
    } else {
      key = make_string(in.budget(), std::string(part));
    }
    at = in.item(at, key);
    if (at.is_undefined() && !otherwise.is_absent()) at = otherwise;
  }
  return at;
}

Native find_select_filter(std::string_view name) {
  static constexpr NamedNative kFilters[] = {
      {"map", map_filter},
      {"select", select_filter<false, true>},
      {"reject", select_filter<false, false>},
      {"selectattr", select_filter<true, true>},
      {"rejectattr", select_filter<true, false>},
  };
  return find_in(kFilters, name);
}

Native find_filter(std::string_view name) {
  for (auto find : {find_text_filter, find_number_filter, find_sequence_filter, find_select_filter})
    if (Native found = find(name)) return found;
  return nullptr;
}

}  // namespace roundel::jinja
