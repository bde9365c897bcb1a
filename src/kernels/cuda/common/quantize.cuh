// Rounding one token to the form that a linear wants (the formulas of kernels/api/vector_ops.h), by a block of threads.
#pragma once
#include "kernels/cuda/common/device.cuh"

namespace roundel::cuda {

constexpr int64_t kScaleRun = kScaleColumns;

struct Quantizer {
  DeviceForm::Kind kind;
  float scale, zero, lo, hi;
  float inverse = 0;  // 1 / scale, of usual scales; else 0

  // x / scale. With `inverse` a product and what it misses (Markstein), a division but for a rare last bit.
  __device__ float divide(float x) const {
    if (inverse == 0) return x / scale;
    const float q = x * inverse;
    return __fmaf_rn(__fmaf_rn(-q, scale, x), inverse, q);
  }

  // x in units of the scale: what x is read as is scale * this.
  __device__ float code(float x) const {
    if (kind == DeviceForm::Kind::kHalf) return x * lo;
    const float t = divide(x);
    if (kind == DeviceForm::Kind::kE4M3) {
      const __nv_fp8_storage_t bits = __nv_cvt_float_to_fp8(t, __NV_SATFINITE, __NV_E4M3);
      return __half2float(__half(__nv_cvt_fp8_to_halfraw(bits, __NV_E4M3)));
    }
    const float q = t + zero;  // comparisons send NaN to `hi`, as on the CPU
    return rintf(fmaxf(lo, q < hi ? q : hi)) - zero;
  }
  // The same as a byte: E4M3 or int8.
  __device__ uint8_t byte(float x) const {
    if (kind == DeviceForm::Kind::kE4M3)
      return static_cast<uint8_t>(__nv_cvt_float_to_fp8(divide(x), __NV_SATFINITE, __NV_E4M3));
    return static_cast<uint8_t>(static_cast<int>(code(x)));
  }
  __device__ uint16_t bytes(float even, float odd) const {
    return static_cast<uint16_t>(byte(even) | byte(odd) << 8);
  }
  // Pairs of them.
  template <int kPairs>
  __device__ void bytes(const float (&x)[2 * kPairs], uint16_t (&to)[kPairs]) const {
    if (kind == DeviceForm::Kind::kE4M3 && inverse != 0) {
#pragma unroll
      for (int i = 0; i < kPairs; ++i) {
        const float2 q = {x[2 * i] * inverse, x[2 * i + 1] * inverse};
        to[i] = __nv_cvt_float2_to_fp8x2({__fmaf_rn(__fmaf_rn(-q.x, scale, x[2 * i]), inverse, q.x),
                                          __fmaf_rn(__fmaf_rn(-q.y, scale, x[2 * i + 1]), inverse, q.y)},
                                         __NV_SATFINITE, __NV_E4M3);
      }
      return;
    }
#pragma unroll
    for (int i = 0; i < kPairs; ++i) to[i] = bytes(x[2 * i], x[2 * i + 1]);
  }
};

__device__ inline Quantizer make_quantizer(const DeviceForm& form, float amax, float lowest, float highest) {
  using Kind = DeviceForm::Kind;
  Quantizer q;
  q.kind = form.kind;
  if (form.kind == Kind::kHalf) {  // brings the largest to [2^14, 2^15)
    const int exponent = max(static_cast<int>(__float_as_uint(amax) >> 23), 20);
    q.scale = __uint_as_float(static_cast<uint32_t>(exponent - 14) << 23);
    q.lo = __uint_as_float(static_cast<uint32_t>(254 + 14 - exponent) << 23);
    return q;
  }
  const int bits = form.kind == Kind::kInt ? form.bits : 8;
  q.hi = static_cast<float>((1 << (bits - 1)) - 1);
  q.lo = -q.hi - 1;
  q.zero = form.kind == Kind::kInt8Static ? static_cast<float>(form.zero_point) : 0.0f;
  q.scale = form.scale;
  if (form.scale > 0) return q;
  const float steps = static_cast<float>((1 << bits) - 1);
  q.scale = form.kind == Kind::kE4M3       ? amax / 448.0f
            : form.kind == Kind::kInt8Asym ? (highest - lowest) / 255.0f
                                           : amax / (steps / 2);
  if (q.scale == 0) q.scale = 1.1920929e-07f;
  if (q.scale > 1e-25f && q.scale < 1e25f) q.inverse = __frcp_rn(q.scale);
  if (form.kind == Kind::kInt8Asym) {
    const float z = -128.0f - lowest / q.scale;
    q.zero = rintf(fmaxf(-128.0f, z < 127.0f ? z : 127.0f));
  }
  return q;
}

// values: (cols) floats in shared memory, complete for all threads. Writes the token's row of `to`.
__device__ inline void quantize_token(const DeviceForm& form, const float* values, int64_t cols,
                                      const DeviceCodes& to, int64_t row, float* scratch) {
  const int threads = blockDim.x, tid = threadIdx.x;
  uint16_t* x16 = to.x16 ? to.x16 + row * to.ld16 : nullptr;
  float* x_scale = to.x16 ? to.x_scale + row * (to.ld16 / kScaleRun) : nullptr;
  uint8_t* x8 = to.x8 ? to.x8 + row * to.ld8 : nullptr;
  uint16_t* y = to.y ? to.y + row * to.ldy : nullptr;
  const auto emit = [&](const Quantizer& q, int64_t i) {
    const float code = q.code(values[i]);
    if (x16)
      x16[i] = __half_as_ushort(__float2half_rn(code));
    else
      put_terms(y + i, to.low, to.token_scale ? code : code * q.scale);
  };
  if (form.group == 0) {
    float top = 0, lo = 0, hi = 0;
    if (form.scale <= 0) {
      for (int64_t i = tid; i < cols; i += threads) {
        const float v = values[i];
        top = fmaxf(top, fabsf(v)), lo = fminf(lo, v), hi = fmaxf(hi, v);
      }
      top = block_reduce<true>(top, scratch);
      if (form.kind == DeviceForm::Kind::kInt8Asym) {
        lo = -block_reduce<true>(-lo, scratch);
        hi = block_reduce<true>(hi, scratch);
      }
    }
    const Quantizer q = make_quantizer(form, top, lo, hi);
    if (x8)
      for (int64_t i = 2 * tid; i < to.ld8; i += 2 * threads)
        *reinterpret_cast<uint16_t*>(x8 + byte_place(i)) = i + 1 < cols ? q.bytes(values[i], values[i + 1])
                                                           : i < cols   ? uint16_t{q.byte(values[i])}
                                                                        : uint16_t{0};
    else
      for (int64_t i = tid; i < cols; i += threads) emit(q, i);
    if (x16)
      for (int64_t c = tid; c < to.ld16 / kScaleRun; c += threads) x_scale[c] = q.scale;
    if (to.token_scale && tid == 0) to.token_scale[row] = q.scale;
  } else {  // a warp for each group
    const int64_t groups = (cols + form.group - 1) / form.group;
    for (int64_t g = tid / 32; g < groups; g += threads / 32) {
      const int64_t begin = g * form.group, end = min(cols, begin + form.group);
      float top = 0;
      for (int64_t i = begin + tid % 32; i < end; i += 32) top = fmaxf(top, fabsf(values[i]));
      const Quantizer q = make_quantizer(form, warp_max(top), 0, 0);
      if (x8) {  // groups of kScaleRun
        for (int64_t i = begin + tid % 32 * 2; i < begin + kScaleRun; i += 64)
          *reinterpret_cast<uint16_t*>(x8 + byte_place(i)) =
              q.bytes(i < cols ? values[i] : 0.0f, i + 1 < cols ? values[i + 1] : 0.0f);
        if (tid % 32 == 0) to.token_scale[g * to.scale_ld + row] = q.scale;
        continue;
      }
      for (int64_t i = begin + tid % 32; i < end; i += 32) emit(q, i);
      if (x16)
        for (int64_t c = begin / kScaleRun + tid % 32; c * kScaleRun < end; c += 32) x_scale[c] = q.scale;
    }
  }
  if (x16)
    for (int64_t i = cols + tid; i < to.ld16; i += threads) x16[i] = 0;
  else if (y)
    for (int64_t i = cols + tid; i < to.ldy; i += threads) put_terms(y + i, to.low, 0.0f);
}

}  // namespace roundel::cuda
