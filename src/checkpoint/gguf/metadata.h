// The key-value part of a GGUF file, with checked access. A value of the wrong type or outside its range throws
// Error(kInvalid) naming file, key, value and rule.
//
//   uint64_t layers = metadata.require_int("llama.block_count", 1, 4096);
//   std::string pre = metadata.optional_string("tokenizer.ggml.pre").value_or("default");
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace roundel {

enum class GgufValueType : uint32_t {
  kU8,
  kI8,
  kU16,
  kI16,
  kU32,
  kI32,
  kF32,
  kBool,
  kString,
  kArray,
  kU64,
  kI64,
  kF64
};
constexpr uint32_t kGgufValueTypes = 13;
std::string_view gguf_value_type_name(GgufValueType type);
size_t gguf_number_bytes(GgufValueType type);  // 0 for string and array

// Kept compact (about the bytes of the file), whatever its length says.
struct GgufArray {
  GgufValueType type = GgufValueType::kU8;
  uint64_t count = 0;
  std::vector<uint8_t>
      numbers;       // raw little-endian; empty for strings and for nested arrays, which are only checked
  std::string text;  // strings, one after another
  std::vector<uint64_t> ends;  // end of each in `text`

  std::string_view string_at(uint64_t i) const;
  int64_t int_at(uint64_t i) const;  // integer types; kU64 above INT64_MAX comes out as INT64_MAX
  double number_at(uint64_t i) const;
};

using GgufValue = std::variant<uint64_t, int64_t, double, bool, std::string, GgufArray>;

class GgufMetadata {
 public:
  explicit GgufMetadata(std::string file) : file_(std::move(file)) {}
  bool add(const std::string& key, GgufValue value);  // false: the key was there already

  bool has(std::string_view key) const { return find(key) != nullptr; }
  std::optional<int64_t> optional_int(std::string_view key, int64_t min, int64_t max) const;
  int64_t require_int(std::string_view key, int64_t min, int64_t max) const;
  // Also accepts an array whose elements are all equal (files give some sizes for each layer).
  std::optional<int64_t> optional_same_int(std::string_view key, int64_t min, int64_t max) const;
  std::optional<double> optional_number(std::string_view key, double min, double max) const;
  double require_number(std::string_view key, double min, double max) const;
  std::optional<bool> optional_bool(std::string_view key) const;
  std::optional<std::string> optional_string(std::string_view key) const;
  std::string require_string(std::string_view key) const;
  const GgufArray* optional_strings(std::string_view key) const;  // array of strings
  const GgufArray* optional_ints(std::string_view key) const;     // array of integers
  const GgufArray* optional_numbers(std::string_view key) const;  // array of integers or floats

  // Keys that begin with `prefix` and that nothing has asked for.
  std::vector<std::string> unread(std::string_view prefix) const;
  const std::string& file() const { return file_; }

 private:
  const GgufValue* find(std::string_view key) const;
  [[noreturn]] void fail_missing(std::string_view key) const;
  [[noreturn]] void fail_type(std::string_view key, const GgufValue& value, const char* expected) const;
  const GgufArray* optional_array(std::string_view key, const char* expected) const;

  std::string file_;
  std::map<std::string, GgufValue, std::less<>> values_;
  mutable std::set<std::string, std::less<>> read_;
};

}  // namespace roundel
