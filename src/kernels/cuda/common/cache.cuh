// Reading and writing the pages of a key/value cache (TokenInfo in kernels/api/device_ops.h).
#pragma once
#include "kernels/cuda/common/quantize.cuh"

namespace roundel::cuda {

// Elements from the beginning of a page to the first position of a head's keys or values.
__device__ __forceinline__ int64_t head_in_page(int64_t layer, bool is_value, int64_t kv_heads,
                                                int64_t kv_head, int64_t d) {
  return ((2 * layer + is_value) * kv_heads + kv_head) * kPageTokens * d;
}

// Eight neighbours of a head as they are stored.
template <KvType kType>
struct KvRaw {
  uint2 w;
};
template <>
struct KvRaw<KvType::kBF16> {
  uint4 w;
};

template <>
struct KvRaw<KvType::kF32> {
  float4 low, high;
};

template <KvType kType>
__device__ __forceinline__ KvRaw<kType> read_kv8(const uint8_t* page, int64_t element) {
  using Raw = KvRaw<kType>;
  return *reinterpret_cast<const Raw*>(page + element * kv_bytes(kType));
}

template <KvType kType>
__device__ __forceinline__ void widen8(const KvRaw<kType>& raw, float* to) {
  if constexpr (kType == KvType::kF32) {
    to[0] = raw.low.x, to[1] = raw.low.y, to[2] = raw.low.z, to[3] = raw.low.w;
    to[4] = raw.high.x, to[5] = raw.high.y, to[6] = raw.high.z, to[7] = raw.high.w;
  } else if constexpr (kType == KvType::kBF16) {
    const uint32_t words[4] = {raw.w.x, raw.w.y, raw.w.z, raw.w.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      to[2 * i] = __uint_as_float(words[i] << 16);
      to[2 * i + 1] = __uint_as_float(words[i] & 0xffff0000u);
    }
  } else {
    const uint32_t words[2] = {raw.w.x, raw.w.y};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const uint32_t two = words[i / 2] >> (16 * (i % 2)) & 0xffffu;
      if constexpr (kType == KvType::kE4M3) {
        const __half2_raw both =
            __nv_cvt_fp8x2_to_halfraw2(static_cast<__nv_fp8x2_storage_t>(two), __NV_E4M3);
        const float2 f = __half22float2(__half2(both));
        to[2 * i] = f.x, to[2 * i + 1] = f.y;
      } else {
        to[2 * i] = static_cast<float>(static_cast<int8_t>(two & 255));
        to[2 * i + 1] = static_cast<float>(static_cast<int8_t>(two >> 8));
      }
    }
  }
}

// The code of a key or value on its way into a cache of bytes.
__device__ inline uint8_t kv_code(const DeviceKv& kv, float x, float scale) {
  DeviceForm form;
  form.kind = kv.type == KvType::kE4M3 ? DeviceForm::Kind::kE4M3 : DeviceForm::Kind::kInt;
  form.bits = kv.bits;
  form.scale = scale;
  const float code = make_quantizer(form, 0, 0, 0).code(x);
  if (kv.type == KvType::kE4M3)
    return static_cast<uint8_t>(__nv_cvt_float_to_fp8(code, __NV_SATFINITE, __NV_E4M3));
  return static_cast<uint8_t>(static_cast<int8_t>(code));
}

__device__ __forceinline__ void put_kv(const DeviceKv& kv, uint8_t* page, int64_t element, float x,
                                       bool is_value) {
  if (kv.type == KvType::kBF16)
    reinterpret_cast<uint16_t*>(page)[element] = float_to_bf16_bits(x);
  else if (kv.type == KvType::kF32)
    reinterpret_cast<float*>(page)[element] = x;
  else
    page[element] = kv_code(kv, x, is_value ? kv.value_scale : kv.key_scale);
}

}  // namespace roundel::cuda
