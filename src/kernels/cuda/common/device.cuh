// What the kernels share: launching, sums over a block, reading what a linear wrote.
//
//   launch(kernel, grid, block, shared_bytes, stream, "norm", arguments...);
// Kernels are launched so that they may start while the kernel before still runs: they begin with let_next_start(), may
// read weights, and call wait_for_previous() before they touch anything that a kernel before them reads or writes.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <cstdint>
#include <utility>

#include "kernels/api/device_ops.h"
#include "kernels/cuda/common/launch.h"

namespace roundel::cuda {

__device__ __forceinline__ void wait_for_previous() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
__device__ __forceinline__ void let_next_start() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}

// `cluster` blocks along x run together and see one another's shared memory (compute capability 9.0).
template <class... Parameters, class... Arguments>
void launch_in_clusters(unsigned cluster, void (*kernel)(Parameters...), dim3 grid, dim3 block,
                        size_t shared_bytes, void* stream, const char* name, Arguments&&... arguments) {
  if (shared_bytes > 48 * 1024)
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               static_cast<int>(shared_bytes)),
          name);
  // The same division of L1 and shared memory for all: a multiprocessor changes it only when it is empty, and kernels
  // could not overlap.
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                             cudaSharedmemCarveoutMaxShared),
        name);
  cudaLaunchConfig_t config = {};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared_bytes;
  config.stream = static_cast<cudaStream_t>(stream);
  cudaLaunchAttribute attributes[2];
  if (early_start()) {
    attributes[config.numAttrs].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[config.numAttrs++].val.programmaticStreamSerializationAllowed = 1;
  }
  if (cluster > 1) {
    attributes[config.numAttrs].id = cudaLaunchAttributeClusterDimension;
    attributes[config.numAttrs].val.clusterDim.x = cluster;
    attributes[config.numAttrs].val.clusterDim.y = 1;
    attributes[config.numAttrs++].val.clusterDim.z = 1;
  }
  config.attrs = attributes;
  check(cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(std::forward<Arguments>(arguments))...),
        name);
}

template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), dim3 grid, dim3 block, size_t shared_bytes, void* stream,
            const char* name, Arguments&&... arguments) {
  launch_in_clusters(1, kernel, grid, block, shared_bytes, stream, name,
                     std::forward<Arguments>(arguments)...);
}

__device__ __forceinline__ float warp_sum(float x) {
  for (int d = 16; d > 0; d /= 2) x += __shfl_xor_sync(~0u, x, d);
  return x;
}
__device__ __forceinline__ float warp_max(float x) {
  for (int d = 16; d > 0; d /= 2) x = fmaxf(x, __shfl_xor_sync(~0u, x, d));
  return x;
}

// Over all threads of a block of at most 1024; `scratch`: 32 floats. The order of the sum is fixed.
template <bool kMax>
__device__ float block_reduce(float x, float* scratch) {
  x = kMax ? warp_max(x) : warp_sum(x);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, warps = (blockDim.x + 31) / 32;
  __syncthreads();
  if (lane == 0) scratch[warp] = x;
  __syncthreads();
  x = lane < warps ? scratch[lane] : (kMax ? -INFINITY : 0.0f);
  return kMax ? warp_max(x) : warp_sum(x);
}

__device__ __forceinline__ float bf16_bits_to_float(uint16_t h) {
  return __uint_as_float(uint32_t{h} << 16);
}
__device__ __forceinline__ uint16_t float_to_bf16_bits(float x) {
  return __bfloat16_as_ushort(__float2bfloat16_rn(x));
}

// A value as one or two terms (device_ops.h).
__device__ __forceinline__ void put_terms(uint16_t* to, int64_t low, float x) {
  const uint16_t high = float_to_bf16_bits(x);
  *to = high;
  if (low) to[low] = float_to_bf16_bits(x - bf16_bits_to_float(high));
}
__device__ __forceinline__ uint2 four_bf16(const float4& v) {
  return {float_to_bf16_bits(v.x) | uint32_t{float_to_bf16_bits(v.y)} << 16,
          float_to_bf16_bits(v.z) | uint32_t{float_to_bf16_bits(v.w)} << 16};
}
__device__ __forceinline__ float4 four_floats(const uint2& w) {
  return {__uint_as_float(w.x << 16), __uint_as_float(w.x & 0xffff0000u), __uint_as_float(w.y << 16),
          __uint_as_float(w.y & 0xffff0000u)};
}
// Four of them, aligned to 8 bytes.
__device__ __forceinline__ void put_terms4(uint16_t* to, int64_t low, const float4& v) {
  const uint2 high = four_bf16(v);
  *reinterpret_cast<uint2*>(to) = high;
  if (!low) return;
  const float4 h = four_floats(high);
  *reinterpret_cast<uint2*>(to + low) = four_bf16({v.x - h.x, v.y - h.y, v.z - h.z, v.w - h.w});
}
__device__ __forceinline__ float4 read_terms4(const uint16_t* from, int64_t low) {
  float4 v = four_floats(*reinterpret_cast<const uint2*>(from));
  if (low) {
    const float4 l = four_floats(*reinterpret_cast<const uint2*>(from + low));
    v.x += l.x, v.y += l.y, v.z += l.z, v.w += l.w;
  }
  return v;
}

constexpr int kMaxParts = 8;

// Element (row, column) of what a linear wrote. The parts are read together, and added in order.
__device__ __forceinline__ float matrix_value(const DeviceMatrix& m, int64_t row, int64_t column) {
  const int64_t at = row * m.ld + column;
  const float scale = m.row_scale ? m.row_scale[row] : 1.0f;
  if (m.bf16) return bf16_bits_to_float(static_cast<const uint16_t*>(m.data)[at]) * scale;
  const float* p = static_cast<const float*>(m.data) + at;
  float x[kMaxParts];
#pragma unroll
  for (int i = 0; i < kMaxParts; ++i) x[i] = i < m.parts ? p[i * m.part_stride] : 0.0f;
#pragma unroll
  for (int i = 1; i < kMaxParts; ++i) x[0] += x[i];
  return x[0] * scale;
}
// Four of them, aligned.
__device__ __forceinline__ float4 matrix_value4(const DeviceMatrix& m, int64_t row, int64_t column) {
  const int64_t at = row * m.ld + column;
  const float scale = m.row_scale ? m.row_scale[row] : 1.0f;
  float4 x[kMaxParts];
  if (m.bf16) {
    x[0] = read_terms4(static_cast<const uint16_t*>(m.data) + at, 0);
  } else {
    const float* p = static_cast<const float*>(m.data) + at;
#pragma unroll
    for (int i = 0; i < kMaxParts; ++i)
      x[i] = i < m.parts ? *reinterpret_cast<const float4*>(p + i * m.part_stride) : float4{0, 0, 0, 0};
#pragma unroll
    for (int i = 1; i < kMaxParts; ++i)
      x[0].x += x[i].x, x[0].y += x[i].y, x[0].z += x[i].z, x[0].w += x[i].w;
  }
  return {x[0].x * scale, x[0].y * scale, x[0].z * scale, x[0].w * scale};
}

}  // namespace roundel::cuda
