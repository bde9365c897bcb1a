// Float weights to codes while a model loads, with the CPU's arithmetic: every step rounded to the type of the source
// (codec/qparams.cpp, kernels/reference/encode.cpp), divisions and roundings as IEEE says.
#include "kernels/cuda/common/device.cuh"
#include "kernels/cuda/sm80/kernels.h"

namespace roundel::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kWarpColumns = 512;  // groups up to this wide: a warp each, else a block

template <SourceType kType>
struct Source;
template <>
struct Source<SourceType::kBF16> {
  using Bits = uint16_t;
  static constexpr float kEpsilon = 0x1p-7f;
  static __device__ float widen(uint16_t x) { return bf16_bits_to_float(x); }
  static __device__ float round(float x) { return __bfloat162float(__float2bfloat16_rn(x)); }
};
template <>
struct Source<SourceType::kF16> {
  using Bits = uint16_t;
  static constexpr float kEpsilon = 0x1p-10f;
  static __device__ float widen(uint16_t x) { return __half2float(__ushort_as_half(x)); }
  static __device__ float round(float x) { return __half2float(__float2half_rn(x)); }
};
template <>
struct Source<SourceType::kF32> {
  using Bits = uint32_t;
  static constexpr float kEpsilon = 0x1p-23f;
  static __device__ float widen(uint32_t x) { return __uint_as_float(x); }
  static __device__ float round(float x) { return x; }
};

struct ScaleAndZero {
  float scale, zero;
};

// QparamsRule::operator().
template <class T>
__device__ ScaleAndZero qparams(const DeviceEncodeArgs& a, float lo, float hi) {
  const float range = a.qmax - a.qmin;
  if (a.symmetric) {
    const float scale = T::round(__fdiv_rn(fmaxf(-lo, hi), range / 2));
    return {scale == 0 ? T::kEpsilon : scale, 0.0f};
  }
  float scale = T::round(__fdiv_rn(T::round(hi - lo), range));
  if (!isfinite(scale))
    scale = T::round(
        static_cast<float>((static_cast<double>(hi) - static_cast<double>(lo)) / static_cast<double>(range)));
  const float zero = T::round(a.qmin - T::round(__fdiv_rn(lo, scale)));
  const float whole = isnan(zero) ? 0.0f : rintf(fminf(fmaxf(zero, a.qmin), a.qmax));
  return {scale == 0 ? T::kEpsilon : scale, whole};
}

template <class T>
__device__ uint8_t code_of(const DeviceEncodeArgs& a, float x, const ScaleAndZero& q) {
  float t = T::round(__fdiv_rn(x, q.scale));
  if (a.e4m3)
    return isnan(t) ? uint8_t{0} : static_cast<uint8_t>(__nv_cvt_float_to_fp8(t, __NV_SATFINITE, __NV_E4M3));
  t = T::round(t + q.zero);
  if (isnan(t)) return 0;
  return static_cast<uint8_t>(static_cast<int8_t>(rintf(fminf(fmaxf(t, a.qmin), a.qmax))));
}

// A group for each warp, or for each block.
template <SourceType kType, bool kBlock>
__global__ void __launch_bounds__(kThreads) encode_kernel(const DeviceEncodeArgs a) {
  using T = Source<kType>;
  __shared__ float scratch[32];
  let_next_start();
  wait_for_previous();
  constexpr int kWidth = kBlock ? kThreads : 32;
  const int64_t groups = (a.cols + a.group - 1) / a.group;
  const int64_t index = kBlock ? blockIdx.x : blockIdx.x * int64_t{kThreads / 32} + threadIdx.x / 32;
  if (index >= a.rows * groups) return;  // whole warps, and whole blocks
  const int lane = kBlock ? threadIdx.x : threadIdx.x % 32;
  const int64_t row = index / groups, group = index % groups, first = group * a.group;
  const int64_t count = min(a.group, a.cols - first), at = row * a.cols + first;
  const auto* x = static_cast<const typename T::Bits*>(a.x) + at;
  float lo = 0, hi = 0;
  uint32_t faults = 0;
  for (int64_t i = lane; i < count; i += kWidth) {
    const float v = T::widen(x[i]);
    if (!isfinite(v))
      ++faults;
    else
      lo = fminf(lo, v), hi = fmaxf(hi, v);
  }
  if (faults) atomicAdd(a.not_finite, faults);
  if constexpr (kBlock) {
    lo = -block_reduce<true>(-lo, scratch);
    hi = block_reduce<true>(hi, scratch);
  } else {
    lo = -warp_max(-lo);
    hi = warp_max(hi);
  }
  const ScaleAndZero q = qparams<T>(a, lo, hi);
  for (int64_t i = lane; i < count; i += kWidth) a.codes[at + i] = code_of<T>(a, T::widen(x[i]), q);
  if (lane != 0) return;
  a.scales[index] = q.scale;
  if (a.zero_points) a.zero_points[index] = static_cast<int8_t>(q.zero);
}

template <SourceType kType>
void run(const DeviceEncodeArgs& a, DeviceStream stream) {
  const int64_t all = a.rows * ((a.cols + a.group - 1) / a.group);
  const bool block = a.group > kWarpColumns;
  const int64_t blocks = block ? all : (all + kThreads / 32 - 1) / (kThreads / 32);
  launch(block ? encode_kernel<kType, true> : encode_kernel<kType, false>, static_cast<unsigned>(blocks),
         kThreads, 0, stream, "encoding", a);
}

}  // namespace

void encode(const DeviceEncodeArgs& a, DeviceStream stream) {
  (a.source == SourceType::kBF16  ? run<SourceType::kBF16>
   : a.source == SourceType::kF16 ? run<SourceType::kF16>
                                  : run<SourceType::kF32>)(a, stream);
}

}  // namespace roundel::cuda
