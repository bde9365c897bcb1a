#include "text/jinja/from_json.h"

#include <utf8proc.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace roundel::jinja {
namespace {

Value checked_string(const std::string& text, Budget& budget) {
  for (size_t at = 0; at < text.size();) {
    if (static_cast<unsigned char>(text[at]) < 0x80) {
      ++at;
      continue;
    }
    utf8proc_int32_t character = 0;
    auto length = utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data() + at),
                                   static_cast<utf8proc_ssize_t>(text.size() - at), &character);
    if (length <= 0)
      fail(ErrorCode::kInvalid, "a text of the conversation is not valid UTF-8 at byte {}", at);
    at += static_cast<size_t>(length);
  }
  return make_string(budget, text);
}

Value from_json(const OrderedJson& json, Budget& budget, int depth) {
  budget.check_nesting(depth);
  budget.step();
  switch (json.type()) {
    case OrderedJson::value_t::null:
      return Value::none();
    case OrderedJson::value_t::boolean:
      return Value::boolean(json.get<bool>());
    case OrderedJson::value_t::number_integer:
      return Value::integer(json.get<int64_t>());
    case OrderedJson::value_t::number_unsigned: {
      auto value = json.get<uint64_t>();
      if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
        fail(ErrorCode::kLimit, "the number {} of the conversation does not fit a signed integer of 64 bits",
             value);
      return Value::integer(static_cast<int64_t>(value));
    }
    case OrderedJson::value_t::number_float:
      return Value::number(json.get<double>());
    case OrderedJson::value_t::string:
      return checked_string(json.get_ref<const std::string&>(), budget);
    case OrderedJson::value_t::array: {
      std::vector<Value> items;
      items.reserve(json.size());
      for (const auto& item : json) items.push_back(from_json(item, budget, depth + 1));
      return make_list(budget, std::move(items));
    }
    case OrderedJson::value_t::object: {
      std::vector<DictObject::Entry> entries;
      entries.reserve(json.size());
      for (const auto& [key, value] : json.items())
        entries.emplace_back(checked_string(key, budget), from_json(value, budget, depth + 1));
      return make_dict(budget, std::move(entries));
    }
    default:
      fail(ErrorCode::kInvalid, "a value of the conversation is not JSON");
  }
}

}  // namespace

Value from_json(const OrderedJson& json, Budget& budget) {
  return from_json(json, budget, 0);
}

}  // namespace roundel::jinja
