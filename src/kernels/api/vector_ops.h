// The small operations of a forward pass, on rows of floats: one table of functions for each instruction set.
// All matrices are row-major; `ld` is the distance between rows in elements.
#pragma once
#include <cstdint>

#include "kernels/api/support.h"

namespace roundel {

struct CpuFeatures;

struct VectorOps {
  const char* name;  // "avx512_ops"
  Support (*supports)(const CpuFeatures&);

  // y = x / sqrt(mean(x^2) + eps) * gain, over n values. RMSNorm (Zhang, Sennrich 2019). y may be x.
  void (*rms_norm)(const float* x, const float* gain, int64_t n, float eps, float* y);
  // y += x
  void (*add)(float* y, const float* x, int64_t n);
  // y = silu(gate) * up, silu(z) = z / (1 + exp(-z)). y may be gate.
  void (*silu_mul)(const float* gate, const float* up, int64_t n, float* y);
  // y = gelu_tanh(gate) * up (GELU with the tanh approximation).
  void (*gelu_mul)(const float* gate, const float* up, int64_t n, float* y);
  // Rotates pairs (x[i], x[i + half]) by the angle whose cosine and sine are given: rotary embedding in the Hugging
  // Face ("half") layout, in place. cos, sin: (half).
  void (*rope)(float* x, const float* cos, const float* sin, int64_t half);

  // One token to int8: dynamic symmetric scale = amax / 127.5 (compressed-tensors), codes round half to even after the
  // clamp to [-128, 127]; all-zero rows get the scale float epsilon. Returns the scale.
  float (*quantize_int8_sym)(const float* x, int64_t n, int8_t* codes);
  // The same with a zero point: scale = (hi - lo) / 255 with lo <= 0 <= hi.
  float (*quantize_int8_asym)(const float* x, int64_t n, int8_t* codes, int32_t* zero_point);
  // With a given scale and zero point (static activations).
  void (*quantize_int8_static)(const float* x, int64_t n, float scale, int32_t zero_point, int8_t* codes);
  // y = fp8_e4m3(x / scale) * scale: x as an FP8 activation reads it. scale <= 0: dynamic, amax / 448. y may be x.
  void (*fake_quantize_e4m3)(const float* x, int64_t n, float scale, float* y);
  // The same for integers of `bits` bits, dynamic (scale <= 0: amax / ((2^bits - 1) / 2)) or static, symmetric.
  void (*fake_quantize_int)(const float* x, int64_t n, int bits, float scale, float* y);

  float (*dot)(const float* a, const float* b, int64_t n);
  void (*axpy)(float a, const float* x, int64_t n, float* y);  // y += a x
  // h (m,n) += sum over t of a[t]^T b[t], for a (tokens,m) and b (tokens,n). Sums of 128 tokens at a time, in order.
  void (*outer_products)(const float* a, int64_t lda, int64_t m, const float* b, int64_t ldb, int64_t n,
                         int64_t tokens, float* h, int64_t ldh);
};

}  // namespace roundel
