#include "checkpoint/gguf/metadata.h"

#include <cmath>
#include <cstring>

#include "base/error.h"
#include "base/utf8.h"
#include "checkpoint/quoted.h"

namespace roundel {
namespace {

struct TypeInfo {
  std::string_view name;
  size_t bytes;
};
constexpr TypeInfo kTypes[kGgufValueTypes] = {
    {"uint8", 1}, {"int8", 1},   {"uint16", 2}, {"int16", 2},  {"uint32", 4}, {"int32", 4},  {"float32", 4},
    {"bool", 1},  {"string", 0}, {"array", 0},  {"uint64", 8}, {"int64", 8},  {"float64", 8}};

template <class T>
T load(const uint8_t* p) {
  T v;
  std::memcpy(&v, p, sizeof(T));
  return v;
}

std::string shown_value(const GgufValue& value) {
  struct {
    std::string operator()(uint64_t v) const { return fmt::format("{}", v); }
    std::string operator()(int64_t v) const { return fmt::format("{}", v); }
    std::string operator()(double v) const { return fmt::format("{}", v); }
    std::string operator()(bool v) const { return v ? "true" : "false"; }
    std::string operator()(const std::string& v) const { return in_quotes(v); }
    std::string operator()(const GgufArray& v) const {
      return fmt::format("an array of {} {}", v.count, gguf_value_type_name(v.type));
    }
  } show;
  return std::visit(show, value);
}

bool is_integer(GgufValueType t) {
  return t != GgufValueType::kF32 && t != GgufValueType::kF64 && t != GgufValueType::kBool &&
         t != GgufValueType::kString && t != GgufValueType::kArray;
}

}  // namespace

std::string_view gguf_value_type_name(GgufValueType type) {
  return kTypes[static_cast<uint32_t>(type)].name;
}
size_t gguf_number_bytes(GgufValueType type) {
  return kTypes[static_cast<uint32_t>(type)].bytes;
}

std::string_view GgufArray::string_at(uint64_t i) const {
  CHECK(type == GgufValueType::kString && i < count);
  const uint64_t begin = i == 0 ? 0 : ends[i - 1];
  return std::string_view(text).substr(begin, ends[i] - begin);
}

int64_t GgufArray::int_at(uint64_t i) const {
  CHECK(is_integer(type) && i < count);
  const uint8_t* p = numbers.data() + i * gguf_number_bytes(type);
  switch (type) {
    case GgufValueType::kU8:
      return load<uint8_t>(p);
    case GgufValueType::kI8:
      return load<int8_t>(p);
    case GgufValueType::kU16:
      return load<uint16_t>(p);
    case GgufValueType::kI16:
      return load<int16_t>(p);
    case GgufValueType::kU32:
      return load<uint32_t>(p);
    case GgufValueType::kI32:
      return load<int32_t>(p);
    case GgufValueType::kU64: {
      const uint64_t v = load<uint64_t>(p);
      return v > static_cast<uint64_t>(INT64_MAX) ? INT64_MAX : static_cast<int64_t>(v);
    }
    default:
      return load<int64_t>(p);
  }
}

double GgufArray::number_at(uint64_t i) const {
  CHECK(i < count);
  if (type == GgufValueType::kF32) return static_cast<double>(load<float>(numbers.data() + i * 4));
  if (type == GgufValueType::kF64) return load<double>(numbers.data() + i * 8);
  return static_cast<double>(int_at(i));
}

bool GgufMetadata::add(const std::string& key, GgufValue value) {
  return values_.emplace(key, std::move(value)).second;
}

const GgufValue* GgufMetadata::find(std::string_view key) const {
  const auto it = values_.find(key);
  if (it == values_.end()) return nullptr;
  read_.emplace(key);
  return &it->second;
}

void GgufMetadata::fail_missing(std::string_view key) const {
  fail(ErrorCode::kInvalid, "{}: the metadata key {} is missing; the file is incomplete or of another kind",
       file_, key);
}

void GgufMetadata::fail_type(std::string_view key, const GgufValue& value, const char* expected) const {
  fail(ErrorCode::kInvalid, "{}: {} is {}, expected {}", file_, shortened(key), shown_value(value), expected);
}

std::optional<int64_t> GgufMetadata::optional_int(std::string_view key, int64_t min, int64_t max) const {
  const GgufValue* value = find(key);
  if (!value) return std::nullopt;
  std::optional<int64_t> v;
  if (const auto* u = std::get_if<uint64_t>(value); u && *u <= static_cast<uint64_t>(INT64_MAX))
    v = static_cast<int64_t>(*u);
  if (const auto* i = std::get_if<int64_t>(value)) v = *i;
  if (!v || *v < min || *v > max)
    fail_type(key, *value, fmt::format("an integer from {} to {}", min, max).c_str());
  return v;
}

int64_t GgufMetadata::require_int(std::string_view key, int64_t min, int64_t max) const {
  const auto v = optional_int(key, min, max);
  if (!v) fail_missing(key);
  return *v;
}

std::optional<int64_t> GgufMetadata::optional_same_int(std::string_view key, int64_t min, int64_t max) const {
  const GgufValue* value = find(key);
  const auto* array = value ? std::get_if<GgufArray>(value) : nullptr;
  if (!array) return optional_int(key, min, max);
  if (!is_integer(array->type) || array->count == 0)
    fail_type(key, *value, "an integer, or an array of integers");
  const int64_t first = array->int_at(0);
  for (uint64_t i = 1; i < array->count; ++i) {
    if (array->int_at(i) != first)
      fail(ErrorCode::kUnsupported,
           "{}: {} differs between layers ({} in the first, {} in layer {}); only models whose "
           "layers are all alike are imported",
           file_, key, first, array->int_at(i), i);
  }
  if (first < min || first > max)
    fail(ErrorCode::kInvalid, "{}: {} is {}, expected an integer from {} to {}", file_, key, first, min, max);
  return first;
}

std::optional<double> GgufMetadata::optional_number(std::string_view key, double min, double max) const {
  const GgufValue* value = find(key);
  if (!value) return std::nullopt;
  std::optional<double> v;
  if (const auto* d = std::get_if<double>(value)) v = *d;
  if (const auto* u = std::get_if<uint64_t>(value)) v = static_cast<double>(*u);
  if (const auto* i = std::get_if<int64_t>(value)) v = static_cast<double>(*i);
  if (!v || !(*v >= min && *v <= max))
    fail_type(key, *value, fmt::format("a number from {} to {}", min, max).c_str());
  return v;
}

double GgufMetadata::require_number(std::string_view key, double min, double max) const {
  const auto v = optional_number(key, min, max);
  if (!v) fail_missing(key);
  return *v;
}

std::optional<bool> GgufMetadata::optional_bool(std::string_view key) const {
  const GgufValue* value = find(key);
  if (!value) return std::nullopt;
  if (!std::holds_alternative<bool>(*value)) fail_type(key, *value, "true or false");
  return std::get<bool>(*value);
}

std::optional<std::string> GgufMetadata::optional_string(std::string_view key) const {
  const GgufValue* value = find(key);
  if (!value) return std::nullopt;
  const auto* text = std::get_if<std::string>(value);
  if (!text) fail_type(key, *value, "a string");
  if (!is_valid_utf8(*text)) fail(ErrorCode::kInvalid, "{}: {} is not valid UTF-8", file_, key);
  return *text;
}

std::string GgufMetadata::require_string(std::string_view key) const {
  auto v = optional_string(key);
  if (!v) fail_missing(key);
  return *std::move(v);
}

const GgufArray* GgufMetadata::optional_array(std::string_view key, const char* expected) const {
  const GgufValue* value = find(key);
  if (!value) return nullptr;
  const auto* array = std::get_if<GgufArray>(value);
  if (!array) fail_type(key, *value, expected);
  return array;
}

const GgufArray* GgufMetadata::optional_strings(std::string_view key) const {
  const GgufArray* array = optional_array(key, "an array of strings");
  if (array && array->type != GgufValueType::kString) fail_type(key, *find(key), "an array of strings");
  return array;
}

const GgufArray* GgufMetadata::optional_ints(std::string_view key) const {
  const GgufArray* array = optional_array(key, "an array of integers");
  if (array && !is_integer(array->type)) fail_type(key, *find(key), "an array of integers");
  return array;
}

const GgufArray* GgufMetadata::optional_numbers(std::string_view key) const {
  const GgufArray* array = optional_array(key, "an array of numbers");
  const bool number = array && (is_integer(array->type) || array->type == GgufValueType::kF32 ||
                                array->type == GgufValueType::kF64);
  if (array && !number) fail_type(key, *find(key), "an array of numbers");
  return array;
}

std::vector<std::string> GgufMetadata::unread(std::string_view prefix) const {
  std::vector<std::string> keys;
  for (auto it = values_.lower_bound(prefix); it != values_.end() && it->first.starts_with(prefix); ++it) {
    if (!read_.contains(it->first)) keys.push_back(it->first);
  }
  return keys;
}

}  // namespace roundel
