// y = x w^T for up to 64 tokens where both are codes of a byte, on the warpgroup tensor cores: tokens are the 64 rows of
// the A operand, rows of the weight the columns of B, both as the copy engine brings them into shared memory (128-byte
// swizzle), so nothing is unpacked and the kernel reads weights at the speed of memory. One warp asks, two warpgroups
// multiply half the rows each. E4M3 sums leave the tensor cores each 128 columns, where they are kept with fewer bits
// than float; int32 sums stay. FP8 blocks have scales for each 128 columns, which the sums take there. A gated result can
// be rounded at once: blocks of threads agree on each token's largest value.
#pragma once
#include <type_traits>

#include "kernels/cuda/common/mma.cuh"
#include "kernels/cuda/common/quantize.cuh"
#include "kernels/cuda/sm90/bytes.h"
#include "kernels/cuda/sm90/group.cuh"

namespace roundel::cuda {

constexpr int kBytesWorkers = 256;  // threads that multiply

__device__ __forceinline__ void workers_sync() {
  asm volatile("bar.sync 1, 256;" ::: "memory");
}

// Waits until all blocks are here; each has put its tokens' largest values (floats of no sign, as integers) into `top`
// of shared memory, and finds those of all blocks there afterwards. counters: arrived, left, largest values.
__device__ __forceinline__ void agree_on_largest(uint32_t* top, int m, uint32_t* counters) {
  const int tid = threadIdx.x;
  if (tid < m) atomicMax(counters + 2 + tid, top[tid]);
  __threadfence();
  workers_sync();
  if (tid == 0) {
    atomicAdd(counters, 1u);
    uint32_t arrived = 0;
    while (arrived < gridDim.x)
      asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(arrived) : "l"(counters) : "memory");
    __threadfence();
  }
  workers_sync();
  if (tid < m) top[tid] = __ldcg(counters + 2 + tid);
  workers_sync();
  if (tid == 0 && atomicAdd(counters + 1, 1u) == gridDim.x - 1)  // all have read
    for (int i = 0; i < m + 2; ++i) counters[i] = 0;
}

// What sums of 128 columns are multiplied by: the block's scale, of a thread's rows before and after the edge of a block,
// and its two tokens' scales.
struct RunScales {
  float w[2] = {0, 0}, x[2] = {0, 0};
};

template <class Sum, int kRows, bool kBlocks>
__global__ void __launch_bounds__(kBytesWorkers + 32, bytes_blocks(kRows))
    bytes_kernel(const __grid_constant__ CUtensorMap x, const __grid_constant__ CUtensorMap w,
                 const BytesArgs p) {
  extern __shared__ uint8_t unaligned[];
  __shared__ uint32_t top[64];
  let_next_start();
  constexpr bool kFloat = std::is_same_v<Sum, float>;
  static_assert(kFloat || !kBlocks);
  constexpr int kWeightBytes = 2 * kRows * 128;
  const int tid = threadIdx.x, warp = __shfl_sync(~0u, tid / 32, 0), lane = tid % 32;
  const int token_bytes = p.token_rows * 128;
  const uint32_t weights = (shared_address(unaligned) + 1023) / 1024 * 1024;
  const uint32_t tokens = weights + p.stages * kWeightBytes;
  const uint32_t full = tokens + p.stages * token_bytes + (64 - p.token_rows) * 128,
                 empty = full + p.stages * 8;
  const int row0 = blockIdx.x * 2 * kRows, run0 = blockIdx.y * p.runs_per_split;
  const int steps = min(p.runs_per_split, p.runs - run0);
  if (tid == 0) {
    for (int s = 0; s < p.stages; ++s) barrier_init(full + s * 8), barrier_init_count(empty + s * 8, 8);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  if (tid < 64) top[tid] = 0;
  __syncthreads();

  if (warp == kBytesWorkers / 32) {
    if (!elect_one()) return;
    const auto ask_weights = [&](int step, int stage) {
      barrier_expect(full + stage * 8, kWeightBytes + token_bytes);
      tensor_copy(weights + stage * kWeightBytes, &w, (run0 + step) * 128, row0, full + stage * 8);
    };
    const auto ask_tokens = [&](int step, int stage) {
      tensor_copy(tokens + stage * token_bytes, &x, (run0 + step) * 128, 0, full + stage * 8);
    };
    const int first = min(p.stages, steps);
    for (int s = 0; s < first; ++s) ask_weights(s, s);  // nobody writes them
    wait_for_previous();
    for (int s = 0; s < first; ++s) ask_tokens(s, s);
    int stage = 0;
    uint32_t phase = 0;
    for (int step = first; step < steps; ++step) {
      barrier_wait(empty + stage * 8, phase);
      ask_weights(step, stage);
      ask_tokens(step, stage);
      if (++stage == p.stages) stage = 0, phase ^= 1;
    }
    return;
  }

  const int group = warp / 4, row = lane / 4, quad = lane % 4, token = warp % 4 * 16 + row;  // and token + 8
  const int first_row = row0 + group * kRows;
  if (!kBlocks && tid < 2 * kRows && row0 + tid < p.n)
    asm volatile("prefetch.global.L2 [%0];" ::"l"(p.row_scales + row0 + tid));
  Sum acc[kRows / 2];
  float sums[kFloat ? kRows / 2 : 1];
#pragma unroll
  for (int i = 0; i < kRows / 2; ++i) acc[i] = 0;
  if constexpr (kFloat)
#pragma unroll
    for (int i = 0; i < kRows / 2; ++i) sums[i] = 0;
  // Of the blocks that hold the first and the last row of this warpgroup.
  const int last_row = min(first_row + kRows, p.n) - 1;
  const float* w_scale[2] = {p.row_scales + first_row / kFp8Block * p.w_scale_ld + run0,
                             p.row_scales + last_row / kFp8Block * p.w_scale_ld + run0};
  const float* x_scale_at = p.token_scale + int64_t{run0} * p.x_scale_ld + token;
  const auto scales_of = [&](int step) {
    RunScales s;
    if (first_row < p.n) s.w[0] = w_scale[0][step], s.w[1] = w_scale[1][step];
#pragma unroll
    for (int r = 0; r < 2; ++r)
      if (token + 8 * r < p.m) s.x[r] = x_scale_at[step * p.x_scale_ld + 8 * r];
    return s;
  };
  const int before_edge = (kFp8Block - first_row % kFp8Block) / 8;  // blocks of 8 rows of the first scale
  RunScales scales;
  if constexpr (kBlocks) {
    wait_for_previous();
    if (steps > 0) scales = scales_of(0);
  }
  int stage = 0;
  uint32_t phase = 0;
#pragma unroll 1
  for (int step = 0; step < steps; ++step) {
    RunScales next;
    if (kBlocks && step + 1 < steps) next = scales_of(step + 1);
    barrier_wait(full + stage * 8, phase);
    const uint32_t a = operand_of(tokens + stage * token_bytes),
                   b = operand_of(weights + stage * kWeightBytes + group * kRows * 128);
    group_fence();
#pragma unroll
    for (int i = 0; i < 4; ++i) multiply_bytes<kRows, Sum>(acc, a + 2 * i, b + 2 * i, !kFloat || i > 0);
    group_commit();
    group_wait<0>();
    if (lane == 0) barrier_arrive(empty + stage * 8);
    if constexpr (kBlocks) {
      float factor[2][2];
#pragma unroll
      for (int i = 0; i < 4; ++i) factor[i / 2][i % 2] = scales.w[i / 2] * scales.x[i % 2];
#pragma unroll
      for (int i = 0; i < kRows / 2; ++i) {
        const int of = kFp8Block % kRows != 0 && i / 4 >= before_edge ? 1 : 0;
        sums[i] += acc[i] * (of ? factor[1][i / 2 % 2] : factor[0][i / 2 % 2]);
      }
      scales = next;
    } else if constexpr (kFloat) {
#pragma unroll
      for (int i = 0; i < kRows / 2; ++i) sums[i] += acc[i];
    }
    if (++stage == p.stages) stage = 0, phase ^= 1;
  }

  wait_for_previous();
  float x_scale[2] = {1, 1};
#pragma unroll
  for (int r = 0; r < 2; ++r)
    if (!kBlocks && token + 8 * r < p.m) x_scale[r] = p.token_scale[token + 8 * r];
  float v[kRows / 2];
#pragma unroll
  for (int j = 0; j < kRows / 8; ++j) {
    const int n = first_row + j * 8 + quad * 2;
    float2 scale = {1, 1}, bias = {0, 0};
    if (n < p.n) {
      if constexpr (!kBlocks) scale = *reinterpret_cast<const float2*>(p.row_scales + n);
      if (p.bias && blockIdx.y == 0) bias = *reinterpret_cast<const float2*>(p.bias + n);
    }
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int i = 4 * j + 2 * r;
      const float even = kFloat ? sums[kFloat ? i : 0] : static_cast<float>(acc[i]),
                  odd = kFloat ? sums[kFloat ? i + 1 : 0] : static_cast<float>(acc[i + 1]);
      v[i] = even * (scale.x * x_scale[r]) + bias.x;
      v[i + 1] = odd * (scale.y * x_scale[r]) + bias.y;
    }
  }
  if (!p.gated) {
#pragma unroll
    for (int j = 0; j < kRows / 8; ++j) {
      const int n = first_row + j * 8 + quad * 2;
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        if (n >= p.n || token + 8 * r >= p.m) continue;
        const int64_t to = (token + 8 * r) * p.ldy + n;
        const float even = v[4 * j + 2 * r], odd = v[4 * j + 2 * r + 1];
        if (p.y_bf16)
          *reinterpret_cast<uint32_t*>(static_cast<uint16_t*>(p.y) + to) = pack_bf16(even, odd);
        else
          *reinterpret_cast<float2*>(static_cast<float*>(p.y) + blockIdx.y * p.part_stride + to) = {even,
                                                                                                    odd};
      }
    }
    return;
  }

  // Blocks of 8 rows alternate: gate in v[8 j ...], up in v[8 j + 4 ...].
#pragma unroll
  for (int j = 0; j < kRows / 16; ++j)
#pragma unroll
    for (int i = 0; i < 4; ++i)
      v[8 * j + i] = v[8 * j + i] / (1.0f + __expf(-v[8 * j + i])) * v[8 * j + 4 + i];
  const bool rounds = p.form.kind != DeviceForm::Kind::kNone;
  if (rounds && p.form.scale <= 0) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      float most = 0;
#pragma unroll
      for (int j = 0; j < kRows / 16; ++j)
        if (first_row + j * 16 < p.n)
          most = fmaxf(most, fmaxf(fabsf(v[8 * j + 2 * r]), fabsf(v[8 * j + 2 * r + 1])));
      most = fmaxf(most, __shfl_xor_sync(~0u, most, 1));
      most = fmaxf(most, __shfl_xor_sync(~0u, most, 2));
      if (quad == 0 && token + 8 * r < p.m) atomicMax(top + token + 8 * r, __float_as_uint(most));
    }
    workers_sync();
    agree_on_largest(top, p.m, p.counters);
  }
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    if (token + 8 * r >= p.m) continue;
    Quantizer q;
    if (rounds) q = make_quantizer(p.form, __uint_as_float(top[token + 8 * r]), 0, 0);
    if (rounds && blockIdx.x == 0 && group == 0 && quad == 0) p.x8_scale[token + 8 * r] = q.scale;
#pragma unroll
    for (int j = 0; j < kRows / 16; ++j) {
      if (first_row + j * 16 >= p.n) continue;
      const int64_t column = first_row / 2 + j * 8 + quad * 2;
      const float even = v[8 * j + 2 * r], odd = v[8 * j + 2 * r + 1];
      if (rounds)
        *reinterpret_cast<uint16_t*>(p.x8 + (token + 8 * r) * p.ld8 + byte_place(column)) =
            q.bytes(even, odd);
      else {
        uint16_t* to = static_cast<uint16_t*>(p.y) + (token + 8 * r) * p.ldy + column;
        put_terms(to, p.y_low, even);
        put_terms(to + 1, p.y_low, odd);
      }
    }
  }
}

template <class Sum, int kRows, bool kBlocks>
void start_bytes(const BytesArgs& a, const BytesTiles& tiles, const CUtensorMap& x, const CUtensorMap& w,
                 DeviceStream stream) {
  const dim3 grid(static_cast<unsigned>((a.n + 2 * kRows - 1) / (2 * kRows)),
                  static_cast<unsigned>(tiles.splits));
  launch(bytes_kernel<Sum, kRows, kBlocks>, grid, kBytesWorkers + 32, bytes_shared_bytes(a.m, tiles), stream,
         "byte linear", x, w, a);
}

template <class Sum, bool kBlocks>
void start_bytes(const BytesArgs& a, const BytesTiles& tiles, const CUtensorMap& x, const CUtensorMap& w,
                 DeviceStream stream) {
  const auto go = tiles.rows == 32    ? start_bytes<Sum, 32, kBlocks>
                  : tiles.rows == 64  ? start_bytes<Sum, 64, kBlocks>
                  : tiles.rows == 96  ? start_bytes<Sum, 96, kBlocks>
                  : tiles.rows == 112 ? start_bytes<Sum, 112, kBlocks>
                                      : start_bytes<Sum, 128, kBlocks>;
  go(a, tiles, x, w, stream);
}

}  // namespace roundel::cuda
