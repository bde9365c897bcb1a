// What templates can use without defining it. Null: there is no such thing.
#pragma once
#include <string_view>

#include "text/jinja/callable.h"

namespace roundel::jinja {

Native find_filter(std::string_view name);
Native find_test(std::string_view name);
Native find_global(std::string_view name);
Native find_text_method(std::string_view name);
Native find_dict_method(std::string_view name);
Native find_list_method(std::string_view name);
Native find_loop_method(std::string_view name);

// One table for each file of filters; find_filter asks them all.
Native find_text_filter(std::string_view name);
Native find_number_filter(std::string_view name);
Native find_sequence_filter(std::string_view name);
Native find_select_filter(std::string_view name);

// The value behind a path such as "function.name" or a key, which is what `attribute=` of filters holds; the value
// itself when there is no path. `otherwise` stands for what is undefined, when it is given.
Value at_path(Interpreter& interpreter, const Value& value, const Value& path,
              const Value& otherwise = Value::absent());

struct NamedNative {
  std::string_view name;
  Native function;
};
template <size_t N>
Native find_in(const NamedNative (&table)[N], std::string_view name) {
  for (const NamedNative& entry : table)
    if (entry.name == name) return entry.function;
  return nullptr;
}

}  // namespace roundel::jinja
