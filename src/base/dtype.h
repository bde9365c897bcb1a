// The number types of safetensors files.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace roundel {

enum class DType : uint8_t {
  kBool,
  kU8,
  kI8,
  kF8E4M3,
  kF8E5M2,
  kI16,
  kU16,
  kF16,
  kBF16,
  kI32,
  kU32,
  kF32,
  kI64,
  kU64,
  kF64
};

size_t dtype_size(DType type);                                // bytes of one element
std::string_view dtype_name(DType type);                      // "BF16", the spelling of safetensors
std::optional<DType> dtype_from_name(std::string_view name);  // exact spelling only
inline bool is_float_source(DType t) {
  return t == DType::kBF16 || t == DType::kF16 || t == DType::kF32;
}

}  // namespace roundel
