// The element types of GGUF tensors: their names, block sizes, and which of them can be imported.
//
//   const GgmlType* type = find_ggml_type(12);   // Q4_K: 256 elements in 144 bytes
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace roundel {

// Writes the `elements` numbers of whole blocks as FP32. `elements` is a multiple of the type's block.
using DequantizeFn = void (*)(const uint8_t* blocks, int64_t elements, float* out);

struct GgmlType {
  uint32_t id;  // ggml's number
  std::string_view name;
  uint32_t block;           // elements of a block
  uint32_t block_bytes;     // 0 where dequantize is null and the size does not matter
  DequantizeFn dequantize;  // null: known by name, not imported
};

// Null when ggml has no such type.
const GgmlType* find_ggml_type(uint32_t id);
const GgmlType* find_ggml_type(std::string_view name);
std::string importable_ggml_types();  // "F32, F16, ..."

}  // namespace roundel
