#include "checkpoint/gguf/ggml_type.h"

#include "checkpoint/gguf/dequantize.h"

namespace roundel {
namespace {

// Numbers and sizes: ggml.h and ggml-common.h of llama.cpp. Numbers that are missing were removed there.
constexpr GgmlType kTypes[] = {
    {0, "F32", 1, 4, dequantize_f32},
    {1, "F16", 1, 2, dequantize_f16},
    {2, "Q4_0", 32, 18, dequantize_q4_0},
    {3, "Q4_1", 32, 20, dequantize_q4_1},
    {6, "Q5_0", 32, 22, dequantize_q5_0},
    {7, "Q5_1", 32, 24, dequantize_q5_1},
    {8, "Q8_0", 32, 34, dequantize_q8_0},
    {9, "Q8_1", 32, 0, nullptr},
    {10, "Q2_K", 256, 0, nullptr},
    {11, "Q3_K", 256, 0, nullptr},
    {12, "Q4_K", 256, 144, dequantize_q4_k},
    {13, "Q5_K", 256, 176, dequantize_q5_k},
    {14, "Q6_K", 256, 210, dequantize_q6_k},
    {15, "Q8_K", 256, 0, nullptr},
    {16, "IQ2_XXS", 256, 0, nullptr},
    {17, "IQ2_XS", 256, 0, nullptr},
    {18, "IQ3_XXS", 256, 0, nullptr},
    {19, "IQ1_S", 256, 0, nullptr},
    {20, "IQ4_NL", 32, 0, nullptr},
    {21, "IQ3_S", 256, 0, nullptr},
    {22, "IQ2_S", 256, 0, nullptr},
    {23, "IQ4_XS", 256, 0, nullptr},
    {24, "I8", 1, 0, nullptr},
    {25, "I16", 1, 0, nullptr},
    {26, "I32", 1, 0, nullptr},
    {27, "I64", 1, 0, nullptr},
    {28, "F64", 1, 0, nullptr},
    {29, "IQ1_M", 256, 0, nullptr},
    {30, "BF16", 1, 2, dequantize_bf16},
    {34, "TQ1_0", 256, 0, nullptr},
    {35, "TQ2_0", 256, 0, nullptr},
    {39, "MXFP4", 32, 0, nullptr},
    {40, "NVFP4", 64, 0, nullptr},
    {41, "Q1_0", 128, 0, nullptr},
};

}  // namespace

const GgmlType* find_ggml_type(uint32_t id) {
  for (const GgmlType& type : kTypes)
    if (type.id == id) return &type;
  return nullptr;
}

const GgmlType* find_ggml_type(std::string_view name) {
  for (const GgmlType& type : kTypes)
    if (type.name == name) return &type;
  return nullptr;
}

std::string importable_ggml_types() {
  std::string list;
  for (const GgmlType& type : kTypes) {
    if (!type.dequantize) continue;
    if (!list.empty()) list += ", ";
    list += type.name;
  }
  return list;
}

}  // namespace roundel
