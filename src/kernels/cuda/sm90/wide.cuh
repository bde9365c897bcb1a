// y = x w^T for 9 to 64 tokens of bf16, on the warpgroup tensor cores (wgmma): a warpgroup takes 64 rows of the weight as
// its A operand, turned from codes to bf16 in registers (exactly), and tokens as columns of B, which the copy engine
// brings into shared memory in the 128-byte swizzle, as it does plain rows of bytes. Each warp asks for its own weights,
// the first for the activations of all, both in a ring of stages of 256 columns (128 where they are not an even number).
// Products of one group are summed by the tensor cores, groups in float registers; blocks that share rows leave parts for
// the next kernel to add.
#pragma once
#include <cuda_runtime.h>

#include "kernels/cuda/sm90/group.cuh"
#include "kernels/cuda/sm90/small.cuh"
#include "kernels/cuda/sm90/wide.h"

namespace roundel::cuda {

constexpr int kWideColumns = 128;

// Codes of 16 rows and 16 columns as bf16: 128 + code, less 136 and the zero point of the row and of the row 8 further.
__device__ __forceinline__ void widen_codes(uint32_t (&a)[4], uint32_t word,
                                            const __nv_bfloat162 (&offset)[2]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {  // a1 is a byte further, a2 a nibble
    const uint32_t bits = and_or<0x000F000Fu>(word >> (8 * (i % 2) + 4 * (i / 2)), 0x43004300u);
    const __nv_bfloat162 v = __hsub2(reinterpret_cast<const __nv_bfloat162&>(bits), offset[i % 2]);
    a[i] = reinterpret_cast<const uint32_t&>(v);
  }
}

// Two codes of a byte, the lower or the upper half of a word, as bf16.
template <Codes kCodes, bool kUpper>
__device__ __forceinline__ uint32_t widen_bytes(uint32_t word) {
  __nv_bfloat162 v;
  if constexpr (kCodes == Codes::kInt8) {
    const uint32_t two = __byte_perm(word, 0, kUpper ? 0x4342 : 0x4140);
    const uint32_t low = and_or<0x007f007fu>(two, 0x43004300u),  // 128 + the lower 7 bits,
        less = and_or<0x00800080u>(two, 0x43004300u);            // less 128, or 256 where the sign is set
    v = __hsub2(reinterpret_cast<const __nv_bfloat162&>(low), reinterpret_cast<const __nv_bfloat162&>(less));
  } else {  // exponent and mantissa where bf16 has them; its exponents are 120 higher
    const uint32_t two = __byte_perm(word, 0, kUpper ? 0x3424 : 0x1404);
    const uint32_t bits = (two & 0x7f007f00u) >> 4 | (two & 0x80008000u);
    v = __hmul2(reinterpret_cast<const __nv_bfloat162&>(bits), __float2bfloat162_rn(0x1p120f));
  }
  return reinterpret_cast<const uint32_t&>(v);
}

// A run of 128 columns of 16 rows, in shared memory: its steps of 16 columns from `step` on, four of them.
template <Codes kCodes>
__device__ __forceinline__ void operands_of(uint32_t (&a)[4][4], uint32_t run, int step,
                                            const __nv_bfloat162 (&offset)[2]) {
  const int lane = threadIdx.x % 32;
  if constexpr (kCodes == Codes::kInt4) {
    const uint4 w = load_shared16(run + step / 4 * 512 + lane * 16);
    const uint32_t words[4] = {w.x, w.y, w.z, w.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) widen_codes(a[i], words[i], offset);
  } else {
    const int row = lane / 4, piece = ((lane % 4 * 2 + step / 4) ^ row) * 16;
    const uint4 upper = load_shared16(run + row * 128 + piece),
                lower = load_shared16(run + 1024 + row * 128 + piece);
    const uint32_t above[4] = {upper.x, upper.y, upper.z, upper.w},
                   below[4] = {lower.x, lower.y, lower.z, lower.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      a[i][0] = widen_bytes<kCodes, false>(above[i]), a[i][1] = widen_bytes<kCodes, false>(below[i]);
      a[i][2] = widen_bytes<kCodes, true>(above[i]), a[i][3] = widen_bytes<kCodes, true>(below[i]);
    }
  }
}

// What lies after the codes of a unit: (kSets,16) scales, (kSets,16) zero points; of this lane's two rows.
__device__ __forceinline__ void scales_of(uint32_t unit, int set, float (&scale)[2]) {
  const uint32_t at = unit + 1024u + set * 32 + threadIdx.x % 32 / 4 * 2;
  uint32_t h0, h1;
  asm volatile("ld.shared.u16 %0, [%1];" : "=r"(h0) : "r"(at));
  asm volatile("ld.shared.u16 %0, [%1];" : "=r"(h1) : "r"(at + 16));
  scale[0] = __uint_as_float(h0 << 16), scale[1] = __uint_as_float(h1 << 16);
}
template <int kSets, bool kZero>
__device__ __forceinline__ void offsets_of(uint32_t unit, int set, __nv_bfloat162 (&offset)[2]) {
  int z[2] = {0, 0};
  if constexpr (kZero) {
    const uint32_t at = unit + 1024u + kSets * 32 + set * 16 + threadIdx.x % 32 / 4;
    asm volatile("ld.shared.s8 %0, [%1];" : "=r"(z[0]) : "r"(at));
    asm volatile("ld.shared.s8 %0, [%1];" : "=r"(z[1]) : "r"(at + 8));
  }
#pragma unroll
  for (int i = 0; i < 2; ++i) offset[i] = __float2bfloat162_rn(static_cast<float>(136 + z[i]));
}

// kUnits: runs of 128 columns of a stage. kSets: groups in a run of 4-bit codes, 1 or 2.
template <Codes kCodes, int kN, int kGroups, int kUnits, int kSets = 1, bool kZero = false>
__global__ void __launch_bounds__(kGroups * 128, wide_blocks(kSets, kN, kGroups))
    wide_kernel(const __grid_constant__ CUtensorMap x, const __grid_constant__ CUtensorMap rows_of_bytes,
                const WideArgs p) {
  extern __shared__ uint8_t unaligned[];
  let_next_start();
  const int tid = threadIdx.x, warp = __shfl_sync(~0u, tid / 32, 0), lane = tid % 32;
  constexpr int kTiles = kGroups * 4, kBoxBytes = kN * 128;  // of 64 columns
  constexpr bool kBytes = kCodes != Codes::kInt4;
  constexpr int kRunBytes = kBytes ? 2048 : 1024 + kSets * 16 * (kZero ? 3 : 2);
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
    const uint32_t to = units + (stage * kTiles + warp) * kWeightBytes;
    if constexpr (kBytes) {
      for (int u = 0; u < kUnits; ++u)
        tensor_copy(to + u * kRunBytes, &rows_of_bytes, (unit0 + step * kUnits + u) * kWideColumns,
                    (tile0 + warp) * 16, full + stage * 8);
    } else {
      bulk_copy(to, from + step * int64_t{kWeightBytes}, kWeightBytes, full + stage * 8);
    }
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
      float scale[kSets][2];
      __nv_bfloat162 offset[2] = {};
      if constexpr (!kBytes) {
#pragma unroll
        for (int set = 0; set < kSets; ++set) scales_of(run, set, scale[set]);
        offsets_of<kSets, kZero>(run, 0, offset);
      }
      constexpr int kChains =
          kN <= 32 || kSets == 2 ? 2 : 1;  // products that wait for no sum of the one before
      float acc[kChains][kN / 2];
      uint32_t a0[4][4], a1[4][4];
      operands_of<kCodes>(a0, run, 0, offset);
#pragma unroll
      for (int i = 0; i < kChains * kN / 2; ++i) acc[i % kChains][i / kChains] = 0;
      if (u == 0) barrier_wait(x_full + stage * 8, phase);
      group_fence();
#pragma unroll
      for (int i = 0; i < 4; ++i)
        multiply_group<kN>(acc[kSets == 2 ? 0 : i % kChains], a0[i], b0 + 2 * i,
                           i >= (kSets == 2 ? 1 : kChains));
      group_commit();
      if constexpr (!kBytes && kSets == 2) offsets_of<kSets, kZero>(run, 1, offset);
      operands_of<kCodes>(a1, run, 4, offset);
      group_fence();
#pragma unroll
      for (int i = 0; i < 4; ++i)
        multiply_group<kN>(acc[kSets == 2 ? 1 : i % kChains], a1[i], b1 + 2 * i, kSets == 1 || i > 0);
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
        if constexpr (kSets == 2) {
          sums[i] += acc[0][i] * scale[0][i % 4 / 2] + acc[1][i] * scale[1][i % 4 / 2];
        } else {
          const float sum = kChains == 2 ? acc[0][i] + acc[kChains - 1][i] : acc[0][i];
          sums[i] += kBytes ? sum : sum * scale[0][i % 4 / 2];
        }
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
      const float low = sums[4 * j + c] * scale0 + bias0, high = sums[4 * j + 2 + c] * scale1 + bias1;
      if (p.gated) {
        out[token * pitch + warp * 8 + row] = low / (1.0f + __expf(-low)) * high;
      } else {
        out[token * pitch + warp * 16 + row] = low;
        out[token * pitch + warp * 16 + row + 8] = high;
      }
    }
  __syncthreads();
  const int64_t row0 = static_cast<int64_t>(blockIdx.x) * rows, all = p.gated ? p.n / 2 : p.n;
  const int fours = rows / 4, splits = gridDim.y, mine = blockIdx.y;
  int begin = 0, end = p.m;  // tokens that this block writes
  const int64_t stride = p.m * all;
  float* sums_of_all = p.sums + row0;
  // Blocks that share rows and leave no parts: each adds what all have done of its share of the tokens, in order.
  if (p.ready) {
    begin = p.m * mine / splits, end = p.m * (mine + 1) / splits;
    for (int at = tid; at < p.m * fours; at += kThreads) {
      const int token = at / fours, i = at % fours * 4;
      if (row0 + i < all && (token < begin || token >= end))
        *reinterpret_cast<float4*>(sums_of_all + mine * stride + token * all + i) =
            *reinterpret_cast<const float4*>(out + token * pitch + i);
    }
    __syncthreads();
    if (tid < splits && tid != mine) {
      leave_mark(p.ready + (mine * splits + tid) * gridDim.x + blockIdx.x, p.mark);
      take_mark(p.ready + (tid * splits + mine) * gridDim.x + blockIdx.x, p.mark);
    }
    __syncthreads();
  }
  for (int at = begin * fours + tid; at < end * fours; at += kThreads) {
    const int token = at / fours, i = at % fours * 4;
    if (row0 + i >= all) continue;
    float4 v = *reinterpret_cast<const float4*>(out + token * pitch + i);
    if (p.ready) {
      const float4 own = v;
      v = {0, 0, 0, 0};
#pragma unroll 4
      for (int part = 0; part < splits; ++part) {
        const auto* of = reinterpret_cast<const float4*>(sums_of_all + part * stride + token * all + i);
        const float4 w = part == mine ? own : __ldcg(of);
        v.x += w.x, v.y += w.y, v.z += w.z, v.w += w.w;
      }
    }
    const int64_t to = token * p.ldy + row0 + i;
    if (p.gated || p.y_bf16) {
      *reinterpret_cast<uint2*>(static_cast<uint16_t*>(p.y) + to) = {pack_bf16(v.x, v.y),
                                                                     pack_bf16(v.z, v.w)};
    } else {
      const int64_t part = p.ready ? 0 : mine * p.part_stride;
      *reinterpret_cast<float4*>(static_cast<float*>(p.y) + part + to) = v;
    }
  }
}

template <class Kernel>
void start_wide(Kernel kernel, const WideArgs& a, const WideTiles& tiles, const CUtensorMap& x,
                const CUtensorMap& w, size_t shared_bytes, DeviceStream stream) {
  const int rows = tiles.groups * 4;
  const dim3 grid(static_cast<unsigned>((a.units_n + rows - 1) / rows), static_cast<unsigned>(tiles.splits));
  launch(kernel, grid, static_cast<unsigned>(tiles.groups * 128), shared_bytes, stream, "wide linear", x, w,
         a);
}

template <Codes kCodes, int kN>
void start_wide(const WideArgs& a, const WideTiles& tiles, const CUtensorMap& x, const CUtensorMap& w,
                size_t shared_bytes, DeviceStream stream) {
  const auto kernel = tiles.units == 1    ? wide_kernel<kCodes, kN, 2, 1>
                      : tiles.groups == 1 ? wide_kernel<kCodes, kN, 1, 2>
                      : tiles.groups == 2 ? wide_kernel<kCodes, kN, 2, 2>
                                          : wide_kernel<kCodes, kN, 4, 2>;
  start_wide(kernel, a, tiles, x, w, shared_bytes, stream);
}

template <Codes kCodes>
void start_wide(const WideArgs& a, int width, const WideTiles& tiles, const CUtensorMap& x,
                const CUtensorMap& w, size_t shared_bytes, DeviceStream stream) {
  const auto go = width == 16   ? start_wide<kCodes, 16>
                  : width == 32 ? start_wide<kCodes, 32>
                                : start_wide<kCodes, 64>;
  go(a, tiles, x, w, shared_bytes, stream);
}

}  // namespace roundel::cuda
