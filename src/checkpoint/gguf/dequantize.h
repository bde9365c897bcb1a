// GGUF blocks to FP32, bit for bit as ggml's reference computes them (each product and each sum rounded to FP32).
// All of these take whole blocks: `elements` is a multiple of the block size (1, 32 or 256).
//
//   dequantize_q8_0(blocks, 64, out);   // 2 blocks of 34 bytes -> 64 floats
#pragma once
#include <cstdint>

namespace roundel {

void dequantize_f32(const uint8_t* from, int64_t elements, float* out);
void dequantize_f16(const uint8_t* from, int64_t elements, float* out);
void dequantize_bf16(const uint8_t* from, int64_t elements, float* out);
void dequantize_q4_0(const uint8_t* from, int64_t elements, float* out);
void dequantize_q4_1(const uint8_t* from, int64_t elements, float* out);
void dequantize_q5_0(const uint8_t* from, int64_t elements, float* out);
void dequantize_q5_1(const uint8_t* from, int64_t elements, float* out);
void dequantize_q8_0(const uint8_t* from, int64_t elements, float* out);
void dequantize_q4_k(const uint8_t* from, int64_t elements, float* out);
void dequantize_q5_k(const uint8_t* from, int64_t elements, float* out);
void dequantize_q6_k(const uint8_t* from, int64_t elements, float* out);

}  // namespace roundel
