// y = x w^T for 9 to 64 tokens, on the warpgroup tensor cores (wgmma): a warpgroup takes 64 rows of the weight as its A
// operand, turned from codes to 16-bit floats in registers, and tokens as columns of B, which the copy engine brings into
// shared memory in the 128-byte swizzle. 4-bit codes and activations become bf16; bytes half precision, for activations
// that are codes too (x16). Each warp asks for its own weights, the first for the activations of all, both in a ring of
// stages of 256 columns (128 where they are not an even number). Products of one group are summed by the tensor cores,
// groups in float registers; blocks that share rows leave parts for the next kernel to add.
#pragma once
#include <cuda.h>
#include <cuda_runtime.h>

#include "kernels/cuda/sm90/small.cuh"
#include "kernels/cuda/sm90/wide.h"

namespace roundel::cuda {

constexpr int kWideColumns = 128;  // of a unit of 4 bits, of two of 8

__device__ __forceinline__ void barrier_arrive(uint32_t at) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(at) : "memory");
}
__device__ __forceinline__ void barrier_init_count(uint32_t at, uint32_t count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(at), "r"(count) : "memory");
}
__device__ __forceinline__ void tensor_copy(uint32_t to, const CUtensorMap* map, int column, int row,
                                            uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, "
      "%3}], "
      "[%4];" ::"r"(to),
      "l"(map), "r"(column), "r"(row), "r"(barrier)
      : "memory");
}
__device__ __forceinline__ void group_fence() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void group_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
template <int kLeft>
__device__ __forceinline__ void group_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kLeft) : "memory");
}

// The low word of an operand's description: rows of 128 bytes in the 128-byte swizzle, 8 rows 1024 bytes apart from the
// next 8. 16 columns further it is 2 more: computed once, because what makes it is slow (the uniform data path).
__device__ __forceinline__ uint32_t operand_of(uint32_t at) {
  return (at & 0x3FFFF) >> 4 | 1u << 16;
}
__device__ __forceinline__ uint64_t whole_operand(uint32_t low) {
  return uint64_t{low} | uint64_t{64} << 32 | uint64_t{1} << 62;
}

// c (64,kN) (+)= a (64,16) b (16,kN).
template <int kN, bool kHalf>
__device__ __forceinline__ void multiply_group(float (&c)[kN / 2], const uint32_t (&a)[4], uint32_t b,
                                               int sum);

template <>
__device__ __forceinline__ void multiply_group<16, false>(float (&c)[8], const uint32_t (&a)[4], uint32_t b,
                                                          int sum) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %13, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 "
      "{%0,%1,%2,%3,%4,%5,%6,%7}, "
      "{%8,%9,%10,%11}, %12, p, 1, 1, 0;\n}"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]), "+f"(c[6]), "+f"(c[7])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(whole_operand(b)), "r"(sum));
}
template <>
__device__ __forceinline__ void multiply_group<16, true>(float (&c)[8], const uint32_t (&a)[4], uint32_t b,
                                                         int sum) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %13, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16 "
      "{%0,%1,%2,%3,%4,%5,%6,%7}, "
      "{%8,%9,%10,%11}, %12, p, 1, 1, 0;\n}"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]), "+f"(c[6]), "+f"(c[7])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(whole_operand(b)), "r"(sum));
}
template <>
__device__ __forceinline__ void multiply_group<32, false>(float (&c)[16], const uint32_t (&a)[4], uint32_t b,
                                                          int sum) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %21, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 "
      "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15}, "
      "{%16,%17,%18,%19}, %20, p, 1, 1, 0;\n}"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]), "+f"(c[6]), "+f"(c[7]),
        "+f"(c[8]), "+f"(c[9]), "+f"(c[10]), "+f"(c[11]), "+f"(c[12]), "+f"(c[13]), "+f"(c[14]), "+f"(c[15])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(whole_operand(b)), "r"(sum));
}
template <>
__device__ __forceinline__ void multiply_group<32, true>(float (&c)[16], const uint32_t (&a)[4], uint32_t b,
                                                         int sum) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %21, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n32k16.f32.f16.f16 "
      "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15}, "
      "{%16,%17,%18,%19}, %20, p, 1, 1, 0;\n}"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]), "+f"(c[6]), "+f"(c[7]),
        "+f"(c[8]), "+f"(c[9]), "+f"(c[10]), "+f"(c[11]), "+f"(c[12]), "+f"(c[13]), "+f"(c[14]), "+f"(c[15])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(whole_operand(b)), "r"(sum));
}
template <>
__device__ __forceinline__ void multiply_group<64, false>(float (&c)[32], const uint32_t (&a)[4], uint32_t b,
                                                          int sum) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %37, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
      "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%"
      "27,%28,%29,%30,%31}, "
      "{%32,%33,%34,%35}, %36, p, 1, 1, 0;\n}"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]), "+f"(c[6]), "+f"(c[7]),
        "+f"(c[8]), "+f"(c[9]), "+f"(c[10]), "+f"(c[11]), "+f"(c[12]), "+f"(c[13]), "+f"(c[14]), "+f"(c[15]),
        "+f"(c[16]), "+f"(c[17]), "+f"(c[18]), "+f"(c[19]), "+f"(c[20]), "+f"(c[21]), "+f"(c[22]),
        "+f"(c[23]), "+f"(c[24]), "+f"(c[25]), "+f"(c[26]), "+f"(c[27]), "+f"(c[28]), "+f"(c[29]),
        "+f"(c[30]), "+f"(c[31])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(whole_operand(b)), "r"(sum));
}
template <>
__device__ __forceinline__ void multiply_group<64, true>(float (&c)[32], const uint32_t (&a)[4], uint32_t b,
                                                         int sum) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %37, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 "
      "{%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%"
      "27,%28,%29,%30,%31}, "
      "{%32,%33,%34,%35}, %36, p, 1, 1, 0;\n}"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]), "+f"(c[6]), "+f"(c[7]),
        "+f"(c[8]), "+f"(c[9]), "+f"(c[10]), "+f"(c[11]), "+f"(c[12]), "+f"(c[13]), "+f"(c[14]), "+f"(c[15]),
        "+f"(c[16]), "+f"(c[17]), "+f"(c[18]), "+f"(c[19]), "+f"(c[20]), "+f"(c[21]), "+f"(c[22]),
        "+f"(c[23]), "+f"(c[24]), "+f"(c[25]), "+f"(c[26]), "+f"(c[27]), "+f"(c[28]), "+f"(c[29]),
        "+f"(c[30]), "+f"(c[31])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(whole_operand(b)), "r"(sum));
}

// Codes of 16 rows and 16 columns as bf16: 128 + code, less 136.
__device__ __forceinline__ void widen_codes(uint32_t (&a)[4], uint32_t word) {
  const __nv_bfloat162 offset = __float2bfloat162_rn(136.0f);
#pragma unroll
  for (int i = 0; i < 4; ++i) {  // a1 is a byte further, a2 a nibble
    const uint32_t bits = and_or<0x000F000Fu>(word >> (8 * (i % 2) + 4 * (i / 2)), 0x43004300u);
    const __nv_bfloat162 v = __hsub2(reinterpret_cast<const __nv_bfloat162&>(bits), offset);
    a[i] = reinterpret_cast<const uint32_t&>(v);
  }
}

// A run of 128 columns of 16 rows, in shared memory: its steps of 16 columns from `step` on, four of them.
template <Codes kCodes>
__device__ __forceinline__ void operands_of(uint32_t (&a)[4][4], uint32_t run, int step) {
  const int lane = threadIdx.x % 32;
  if constexpr (kCodes == Codes::kInt4) {
    const uint4 w = load_shared16(run + step / 4 * 512 + lane * 16);
    const uint32_t words[4] = {w.x, w.y, w.z, w.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) widen_codes(a[i], words[i]);
  } else {
    const Zeros none = make_zeros<kCodes>(0, 0);
#pragma unroll
    for (int i = 0; i < 4; i += 2) {
      const uint4 w = load_shared16(run + (step + i) / 2 * 512 + lane * 16);
      decode<kCodes>(a[i], w.x, w.y, none);
      decode<kCodes>(a[i + 1], w.z, w.w, none);
    }
  }
}

// kUnits: runs of 128 columns of a stage.
template <Codes kCodes, int kN, int kGroups, int kUnits>
__global__ void __launch_bounds__(kGroups * 128, 4 / kGroups)
    wide_kernel(const __grid_constant__ CUtensorMap x, const WideArgs p) {
  extern __shared__ uint8_t unaligned[];
  let_next_start();
  const int tid = threadIdx.x, warp = __shfl_sync(~0u, tid / 32, 0), lane = tid % 32;
  constexpr int kTiles = kGroups * 4, kBoxBytes = kN * 128;  // of 64 columns
  constexpr bool kBytes = kCodes != Codes::kInt4;
  constexpr int kRunBytes = kBytes ? 2048 : kWideUnitBytes;
  constexpr int kTokensBytes = kUnits * 2 * kBoxBytes, kWeightBytes = kUnits * kRunBytes;
  const uint32_t tokens = (shared_address(unaligned) + 1023) / 1024 * 1024;
  const uint32_t units = tokens + p.stages * kTokensBytes,
                 barriers = units + p.stages * kTiles * kWeightBytes;
  const uint32_t x_full = barriers, x_empty = barriers + p.stages * 8;
  const uint32_t full = barriers + (2 + warp) * p.stages * 8;  // of this warp's weights
  uint8_t* base = unaligned + (tokens - shared_address(unaligned));
  const int tile0 = blockIdx.x * kTiles, unit0 = blockIdx.y * p.units_per_split;
  const int steps = min(p.units_per_split, p.units_k - unit0) / kUnits;
  const bool has_rows = tile0 + warp < p.units_n;
  const uint8_t* from =
      p.packed + (static_cast<int64_t>(tile0 + warp) * p.units_k + unit0) * int64_t{kRunBytes};
  const auto ask_weights = [&](int step, int stage) {
    barrier_expect(full + stage * 8, kWeightBytes);
    bulk_copy(units + (stage * kTiles + warp) * kWeightBytes, from + step * int64_t{kWeightBytes},
              kWeightBytes, full + stage * 8);
  };
  const auto ask_tokens = [&](int step, int stage) {
    barrier_expect(x_full + stage * 8, kTokensBytes);
    for (int box = 0; box < 2 * kUnits; ++box)
      tensor_copy(tokens + stage * kTokensBytes + box * kBoxBytes, &x,
                  (unit0 + step * kUnits) * kWideColumns + box * 64, 0, x_full + stage * 8);
  };
  const int first = min(p.stages, steps);
  if (lane == 0) {
    for (int s = 0; s < p.stages; ++s) {
      barrier_init(full + s * 8);
      if (warp == 0) barrier_init(x_full + s * 8), barrier_init_count(x_empty + s * 8, kTiles);
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    for (int s = 0; has_rows && s < first; ++s) ask_weights(s, s);  // nobody writes them
    if (warp == 0) {
      wait_for_previous();
      for (int s = 0; s < first; ++s) ask_tokens(s, s);
    }
  }
  __syncthreads();

  float sums[kN / 2] = {};
  const int row = lane / 4, quad = lane % 4;
  int stage = 0, before = p.stages - 1;  // the stage of the step before
  uint32_t phase = 0, before_phase = 1;
#pragma unroll 1
  for (int step = 0; step < steps; ++step) {
    if (has_rows) barrier_wait(full + stage * 8, phase);
#pragma unroll(kN == 64 ? 1 : kUnits)
    for (int u = 0; u < kUnits; ++u) {
      const uint32_t run = units + ((stage * kTiles + warp) * kUnits + u) * kRunBytes;
      const uint32_t b0 = operand_of(tokens + stage * kTokensBytes) + u * (2 * kBoxBytes / 16),
                     b1 = b0 + kBoxBytes / 16;
      float s0 = 1, s1 = 1;
      if constexpr (!kBytes) {
        uint32_t h0, h1;
        asm volatile("ld.shared.u16 %0, [%1];" : "=r"(h0) : "r"(run + 1024u + row * 2));
        asm volatile("ld.shared.u16 %0, [%1];" : "=r"(h1) : "r"(run + 1024u + row * 2 + 16));
        s0 = __uint_as_float(h0 << 16), s1 = __uint_as_float(h1 << 16);
      }
      constexpr int kChains = kN <= 32 ? 2 : 1;  // products that wait for no sum of the one before
      float acc[kChains][kN / 2];
      uint32_t a0[4][4], a1[4][4];
      operands_of<kCodes>(a0, run, 0);
#pragma unroll
      for (int i = 0; i < kChains * kN / 2; ++i) acc[i % kChains][i / kChains] = 0;
      if (u == 0) barrier_wait(x_full + stage * 8, phase);
      group_fence();
#pragma unroll
      for (int i = 0; i < 4; ++i)
        multiply_group<kN, kBytes>(acc[i % kChains], a0[i], b0 + 2 * i, i >= kChains);
      group_commit();
      operands_of<kCodes>(a1, run, 4);
      group_fence();
#pragma unroll
      for (int i = 0; i < 4; ++i) multiply_group<kN, kBytes>(acc[i % kChains], a1[i], b1 + 2 * i, 1);
      group_commit();
      if (u == kUnits - 1) {  // while the tensor cores work
        __syncwarp();
        if (lane == 0) {
          if (has_rows && step + p.stages < steps) ask_weights(step + p.stages, stage);
          if (warp == 0 && step > 0 && step - 1 + p.stages < steps) {
            barrier_wait(x_empty + before * 8, before_phase);
            ask_tokens(step - 1 + p.stages, before);
          }
        }
        __syncwarp();
      }
      group_wait<0>();
      if (u == kUnits - 1 && lane == 0) barrier_arrive(x_empty + stage * 8);
#pragma unroll
      for (int i = 0; i < kN / 2; ++i) {
        const float sum = kChains == 2 ? acc[0][i] + acc[kChains - 1][i] : acc[0][i];
        sums[i] += kBytes ? sum : sum * (i % 4 < 2 ? s0 : s1);
      }
    }
    before = stage, before_phase = phase;
    if (++stage == p.stages) stage = 0, phase ^= 1;
  }

  // Through shared memory, so that rows of y are written whole. All that was asked for has been read.
  constexpr int kThreads = kGroups * 128;
  __syncthreads();
  wait_for_previous();
  float* out = reinterpret_cast<float*>(base);
  const int rows = p.gated ? kTiles * 8 : kTiles * 16, pitch = rows + 4;
  const int64_t first_row = static_cast<int64_t>(tile0) * 16 + warp * 16 + row;
  float bias0 = 0, bias1 = 0, scale0 = 1, scale1 = 1;
  if constexpr (kBytes) {
    const auto* scales = reinterpret_cast<const float*>(p.packed + p.row_scales);
    if (first_row < p.n) scale0 = scales[first_row];
    if (first_row + 8 < p.n) scale1 = scales[first_row + 8];
  }
  if (p.bias && blockIdx.y == 0) {
    if (first_row < p.n) bias0 = p.bias[first_row];
    if (first_row + 8 < p.n) bias1 = p.bias[first_row + 8];
  }
#pragma unroll
  for (int j = 0; j < kN / 8; ++j)
#pragma unroll
    for (int c = 0; c < 2; ++c) {
      const int token = j * 8 + quad * 2 + c;
      float x_scale = 1;
      if constexpr (kBytes)
        if (token < p.m) x_scale = p.x_scale[token * p.x_scale_stride];
      const float low = sums[4 * j + c] * (scale0 * x_scale) + bias0,
                  high = sums[4 * j + 2 + c] * (scale1 * x_scale) + bias1;
      if (p.gated) {
        out[token * pitch + warp * 8 + row] = low / (1.0f + __expf(-low)) * high;
      } else {
        out[token * pitch + warp * 16 + row] = low;
        out[token * pitch + warp * 16 + row + 8] = high;
      }
    }
  __syncthreads();
  const int64_t row0 = static_cast<int64_t>(blockIdx.x) * rows, all = p.gated ? p.n / 2 : p.n;
  const int fours = rows / 4;
  for (int at = tid; at < p.m * fours; at += kThreads) {
    const int token = at / fours, i = at % fours * 4;
    if (row0 + i >= all) continue;
    const float4 v = *reinterpret_cast<const float4*>(out + token * pitch + i);
    const int64_t to = token * p.ldy + row0 + i;
    if (p.gated || p.y_bf16) {
      *reinterpret_cast<uint2*>(static_cast<uint16_t*>(p.y) + to) = {pack_bf16(v.x, v.y),
                                                                     pack_bf16(v.z, v.w)};
    } else {
      *reinterpret_cast<float4*>(static_cast<float*>(p.y) + blockIdx.y * p.part_stride + to) = v;
    }
  }
}

template <Codes kCodes, int kN>
void start_wide(const WideArgs& a, const WideTiles& tiles, const CUtensorMap& x, size_t shared_bytes,
                DeviceStream stream) {
  const auto kernel = tiles.units == 1    ? wide_kernel<kCodes, kN, 2, 1>
                      : tiles.groups == 1 ? wide_kernel<kCodes, kN, 1, 2>
                      : tiles.groups == 2 ? wide_kernel<kCodes, kN, 2, 2>
                                          : wide_kernel<kCodes, kN, 4, 2>;
  const int rows = tiles.groups * 4;
  const dim3 grid(static_cast<unsigned>((a.units_n + rows - 1) / rows), static_cast<unsigned>(tiles.splits));
  launch(kernel, grid, static_cast<unsigned>(tiles.groups * 128), shared_bytes, stream, "wide linear", x, a);
}

template <Codes kCodes>
void start_wide(const WideArgs& a, int width, const WideTiles& tiles, const CUtensorMap& x,
                size_t shared_bytes, DeviceStream stream) {
  const auto go = width == 16   ? start_wide<kCodes, 16>
                  : width == 32 ? start_wide<kCodes, 32>
                                : start_wide<kCodes, 64>;
  go(a, tiles, x, shared_bytes, stream);
}

}  // namespace roundel::cuda
