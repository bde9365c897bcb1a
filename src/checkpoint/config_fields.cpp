#include "checkpoint/config_fields.h"

#include <nlohmann/json.hpp>

#include "base/error.h"

namespace roundel {
namespace {

const Json* present(const Json& object, const char* field) {
  const auto it = object.find(field);
  return it == object.end() || it->is_null() ? nullptr : &*it;
}

}  // namespace

std::vector<int64_t> token_ids(const Json& object, const char* field, const std::string& where) {
  const Json* value = present(object, field);
  std::vector<int64_t> ids;
  auto add = [&](const Json& v) {
    const bool small = v.is_number_unsigned() ? v.get<uint64_t>() <= INT32_MAX : v.is_number_integer();
    if (!small || v.get<int64_t>() < -1)
      fail(ErrorCode::kInvalid, "{}: {} must be a token id or a list of them, from 0 to {}", where, field,
           INT32_MAX);
    if (v.get<int64_t>() >= 0) ids.push_back(v.get<int64_t>());
  };
  if (!value) return ids;
  if (!value->is_array()) {
    add(*value);
    return ids;
  }
  constexpr size_t kMax = 1024;
  if (value->size() > kMax)
    fail(ErrorCode::kLimit, "{}: {} lists {} ids, at most {} are read", where, field, value->size(), kMax);
  for (const Json& v : *value) add(v);
  return ids;
}

std::vector<double> positive_numbers(const Json& object, const char* field, const std::string& where,
                                     size_t count) {
  const Json* value = present(object, field);
  if (!value) fail(ErrorCode::kInvalid, "{}: {} is missing", where, field);
  if (!value->is_array() || value->size() != count)
    fail(ErrorCode::kInvalid, "{}: {} must be a list of {} numbers, half the rotated dimensions of a head{}",
         where, field, count, value->is_array() ? fmt::format("; it has {}", value->size()) : "");
  std::vector<double> numbers;
  for (const Json& v : *value) {
    if (!v.is_number() || !(v.get<double>() > 0) || v.get<double>() > 1e30)
      fail(ErrorCode::kInvalid, "{}: {}[{}] is not a positive number", where, field, numbers.size());
    numbers.push_back(v.get<double>());
  }
  return numbers;
}

const Json* optional_object(const Json& object, const char* field, const std::string& where) {
  const Json* value = present(object, field);
  if (value && !value->is_object()) fail(ErrorCode::kInvalid, "{}: {} must be an object", where, field);
  return value;
}

}  // namespace roundel
