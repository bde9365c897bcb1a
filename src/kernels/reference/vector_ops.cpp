// reference_ops: the small operations by plain loops; sums in double. What the SIMD versions are compared
// with: bit for bit where numbers become codes, within a few units in the last place elsewhere.
#include <cmath>
#include <cstdint>
#include <limits>

#include "base/numeric.h"
#include "kernels/api/vector_ops.h"

namespace roundel {
namespace {

Support supports(const CpuFeatures&) {
  return {};
}

void rms_norm(const float* x, const float* gain, int64_t n, float eps, float* y) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += static_cast<double>(x[i]) * x[i];
  const float r = static_cast<float>(1.0 / std::sqrt(sum / static_cast<double>(n) + eps));
  for (int64_t i = 0; i < n; ++i) y[i] = x[i] * r * gain[i];
}

void add(float* y, const float* x, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] += x[i];
}

void silu_mul(const float* gate, const float* up, int64_t n, float* y) {
  for (int64_t i = 0; i < n; ++i) y[i] = gate[i] / (1.0f + std::exp(-gate[i])) * up[i];
}

void gelu_mul(const float* gate, const float* up, int64_t n, float* y) {
  for (int64_t i = 0; i < n; ++i) {
    const double z = gate[i];
    const double t = 0.7978845608028654 * (z + 0.044715 * z * z * z);  // sqrt(2/pi)
    y[i] = static_cast<float>(0.5 * z * (1.0 + std::tanh(t))) * up[i];
  }
}

void rope(float* x, const float* cos, const float* sin, int64_t half) {
  for (int64_t i = 0; i < half; ++i) {
    const float a = x[i], b = x[i + half];
    x[i] = a * cos[i] - b * sin[i];
    x[i + half] = b * cos[i] + a * sin[i];
  }
}

// The largest |x|. Compared as integers, so that a NaN comes out as NaN instead of vanishing.
float amax(const float* x, int64_t n) {
  uint32_t most = 0;
  for (int64_t i = 0; i < n; ++i) {
    const uint32_t bits = float_bits(x[i]) & 0x7fffffffu;
    if (bits > most) most = bits;
  }
  return bits_float(most);
}

float nonzero(float scale) {
  return scale == 0 ? std::numeric_limits<float>::epsilon() : scale;
}

// Clamp, then round half to even. The comparisons send NaN to `hi`, as minps does.
float clamp_round(float t, float lo, float hi) {
  t = t < hi ? t : hi;
  t = t > lo ? t : lo;
  return std::nearbyint(t);
}

void quantize_int8_static(const float* x, int64_t n, float scale, int32_t zero_point, int8_t* codes) {
  const float zero = static_cast<float>(zero_point);
  for (int64_t i = 0; i < n; ++i) {
    codes[i] = static_cast<int8_t>(clamp_round(x[i] / scale + zero, -128.0f, 127.0f));
  }
}

float quantize_int8_sym(const float* x, int64_t n, int8_t* codes) {
  const float scale = nonzero(amax(x, n) / 127.5f);
  quantize_int8_static(x, n, scale, 0, codes);
  return scale;
}

float quantize_int8_asym(const float* x, int64_t n, int8_t* codes, int32_t* zero_point) {
  float lo = 0, hi = 0;
  for (int64_t i = 0; i < n; ++i) {
    lo = x[i] < lo ? x[i] : lo;
    hi = x[i] > hi ? x[i] : hi;
  }
  float scale = nonzero((hi - lo) / 255.0f);
  *zero_point = static_cast<int32_t>(clamp_round(-128.0f - lo / scale, -128.0f, 127.0f));
  if (std::isnan(amax(x, n))) scale = std::numeric_limits<float>::quiet_NaN();
  quantize_int8_static(x, n, scale, *zero_point, codes);
  return scale;
}

void fake_quantize_e4m3(const float* x, int64_t n, float scale, float* y) {
  if (scale <= 0) scale = nonzero(amax(x, n) / kE4M3Max);
  for (int64_t i = 0; i < n; ++i) y[i] = e4m3_to_float(float_to_e4m3(x[i] / scale)) * scale;
}

void fake_quantize_int(const float* x, int64_t n, int bits, float scale, float* y) {
  const float steps = static_cast<float>((1 << bits) - 1);
  const float hi = static_cast<float>((1 << (bits - 1)) - 1);
  if (scale <= 0) scale = nonzero(amax(x, n) / (steps / 2));
  for (int64_t i = 0; i < n; ++i)
    y[i] = static_cast<float>(static_cast<int>(clamp_round(x[i] / scale, -hi - 1, hi))) * scale;
}

float dot(const float* a, const float* b, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += static_cast<double>(a[i]) * b[i];
  return static_cast<float>(sum);
}

void axpy(float a, const float* x, int64_t n, float* y) {
  for (int64_t i = 0; i < n; ++i) y[i] += a * x[i];
}

void outer_products(const float* a, int64_t lda, int64_t m, const float* b, int64_t ldb, int64_t n,
                    int64_t tokens, float* h, int64_t ldh) {
  for (int64_t r = 0; r < m; ++r)
    for (int64_t c = 0; c < n; ++c) {
      double sum = 0;
      for (int64_t t = 0; t < tokens; ++t) sum += static_cast<double>(a[t * lda + r]) * b[t * ldb + c];
      h[r * ldh + c] += static_cast<float>(sum);
    }
}

}  // namespace

extern const VectorOps kReferenceOps = {"reference_ops",
                                        supports,
                                        rms_norm,
                                        add,
                                        silu_mul,
                                        gelu_mul,
                                        rope,
                                        quantize_int8_sym,
                                        quantize_int8_asym,
                                        quantize_int8_static,
                                        fake_quantize_e4m3,
                                        fake_quantize_int,
                                        dot,
                                        axpy,
                                        outer_products};

}  // namespace roundel
