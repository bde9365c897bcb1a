// y = x w^T for few tokens, bound by reading the weight once. Each warp streams its own units through a ring in shared
// memory with bulk copies, turns codes into half-precision fragments, and multiplies on tensor cores: weights are the
// 16 rows of the A operand, tokens the 8 columns of B. Activations are half precision with a power of two for each
// token and each 128 columns, so nothing overflows; products are summed in float, group by group.
// Warps that share rows add their sums in shared memory in a fixed order.
#pragma once
#include "kernels/cuda/common/device.cuh"
#include "kernels/cuda/common/mma.cuh"
#include "kernels/cuda/sm90/async.cuh"
#include "kernels/cuda/sm90/small.h"

namespace roundel::cuda {

enum class Codes { kInt4, kInt8, kE4M3 };

template <uint32_t kMask>
__device__ __forceinline__ uint32_t and_or(uint32_t x, uint32_t bits) {  // x & kMask | bits
  uint32_t y;
  asm("lop3.b32 %0, %1, %2, %3, 0xEA;" : "=r"(y) : "r"(x), "n"(kMask), "r"(bits));
  return y;
}
__device__ __forceinline__ uint32_t as_bits(__half2 x) {
  return reinterpret_cast<const uint32_t&>(x);
}
__device__ __forceinline__ __half2 as_halves(uint32_t x) {
  return reinterpret_cast<const __half2&>(x);
}

// The zero points of a lane's two rows, as what is subtracted from a code and its offset.
struct Zeros {
  __half2 low[2], high[2];
};
template <Codes kCodes>
__device__ __forceinline__ Zeros make_zeros(float row0, float row1) {
  constexpr float kOffset = kCodes == Codes::kInt4 ? 8 : 128;
  Zeros z;
  const float row[2] = {row0, row1};
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    z.low[i] = __float2half2_rn(1024 + kOffset + row[i]);
    z.high[i] = __float2half2_rn(-(64 + kOffset + row[i]));
  }
  return z;
}

// Codes of 16 rows and 16 columns to the A operand. word1 is not used for 4 bits.
template <Codes kCodes>
__device__ __forceinline__ void decode(uint32_t (&a)[4], uint32_t word0, uint32_t word1, const Zeros& z) {
  if constexpr (kCodes == Codes::kInt4) {
    const uint32_t next = word0 >> 8;
    const __half2 sixteenth = __float2half2_rn(0.0625f);
    a[0] = as_bits(__hsub2(as_halves(and_or<0x000F000Fu>(word0, 0x64006400u)), z.low[0]));
    a[1] = as_bits(__hsub2(as_halves(and_or<0x000F000Fu>(next, 0x64006400u)), z.low[1]));
    a[2] = as_bits(__hfma2(as_halves(and_or<0x00F000F0u>(word0, 0x64006400u)), sixteenth, z.high[0]));
    a[3] = as_bits(__hfma2(as_halves(and_or<0x00F000F0u>(next, 0x64006400u)), sixteenth, z.high[1]));
  } else if constexpr (kCodes == Codes::kInt8) {
    a[0] = as_bits(__hsub2(as_halves(__byte_perm(word0, 0x64646464u, 0x4140)), z.low[0]));
    a[1] = as_bits(__hsub2(as_halves(__byte_perm(word0, 0x64646464u, 0x4342)), z.low[1]));
    a[2] = as_bits(__hsub2(as_halves(__byte_perm(word1, 0x64646464u, 0x4140)), z.low[0]));
    a[3] = as_bits(__hsub2(as_halves(__byte_perm(word1, 0x64646464u, 0x4342)), z.low[1]));
  } else {
    const auto widen = [](uint32_t two) {
      return as_bits(__half2(__nv_cvt_fp8x2_to_halfraw2(static_cast<__nv_fp8x2_storage_t>(two), __NV_E4M3)));
    };
    a[0] = widen(word0 & 0xffff), a[1] = widen(word0 >> 16);
    a[2] = widen(word1 & 0xffff), a[3] = widen(word1 >> 16);
  }
}

// Activations of the block's columns into shared memory: half precision and a scale for each 128 columns, which 16
// threads share. Loads of several pieces are in flight together.
template <int kTokenTiles>
__device__ __forceinline__ void stage_activations(const SmallArgs& p, int column0, int columns,
                                                  uint8_t* x_shared, float* scales) {
  constexpr int kBatch = kTokenTiles == 1 ? 4 : 8;
  const int step = blockDim.x / 16, piece = threadIdx.x % 16, chunks = columns / 128, all = p.m * p.chunks;
  const unsigned mask = 0xffffu << (threadIdx.x & 16);
  const uint16_t* from = p.x + column0 + piece * 8;
  const int limit = p.k - column0 - piece * 8;
#pragma unroll 1
  for (int first = threadIdx.x / 16; first < all; first += step * kBatch) {
    uint4 w[kBatch], rest[kTokenTiles == 1 ? kBatch : 1];
    int tokens[kBatch], places[kBatch];
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      const int at = first + i * step, token = p.chunk_magic ? __umulhi(at, p.chunk_magic) : at;
      const int chunk = at - token * p.chunks;
      tokens[i] = at < all && chunk < chunks ? token : -1;
      places[i] = chunk;
      w[i] = {0, 0, 0, 0};
      if (tokens[i] >= 0 && chunk * 128 < limit)
        w[i] = *reinterpret_cast<const uint4*>(from + token * p.ldx + chunk * 128);
      if constexpr (kTokenTiles == 1) {
        rest[i] = {0, 0, 0, 0};
        if (p.x_low && tokens[i] >= 0 && chunk * 128 < limit)
          rest[i] = *reinterpret_cast<const uint4*>(from + p.x_low + token * p.ldx + chunk * 128);
      }
    }
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      // The largest of 128 as an integer: bf16 without its sign is ordered like one.
      const uint32_t words[4] = {w[i].x, w[i].y, w[i].z, w[i].w};
      uint32_t top = 0;
#pragma unroll
      for (int j = 0; j < 4; ++j) top = __vmaxu2(top, words[j] & 0x7fff7fffu);
#pragma unroll
      for (int d = 8; d > 0; d /= 2) top = __vmaxu2(top, __shfl_xor_sync(mask, top, d));
      top = max(top & 0xffffu, top >> 16);
      // 2^e that brings the largest to [2^14, 2^15)
      const int exponent = max(static_cast<int>(top >> 7), 20);
      const float up = __uint_as_float(static_cast<uint32_t>(254 + 14 - exponent) << 23);
      uint32_t out[4];
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        float even = __uint_as_float(words[j] << 16), odd = __uint_as_float(words[j] & 0xffff0000u);
        if constexpr (kTokenTiles == 1) {
          const uint32_t low[4] = {rest[i].x, rest[i].y, rest[i].z, rest[i].w};
          even += __uint_as_float(low[j] << 16), odd += __uint_as_float(low[j] & 0xffff0000u);
        }
        out[j] = as_bits(__floats2half2_rn(even * up, odd * up));
      }
      if (tokens[i] >= 0) {
        *reinterpret_cast<uint4*>(x_shared + tokens[i] * p.x_row_bytes + places[i] * 256 + piece * 16) = {
            out[0], out[1], out[2], out[3]};
        if (piece == 0)
          scales[places[i] * kTokenTiles * 8 + tokens[i]] =
              __uint_as_float(static_cast<uint32_t>(exponent - 14) << 23);
      }
    }
  }
}

// 8 values of a token as half precision with a power of two that 16 threads share, whose largest is `top`.
__device__ __forceinline__ uint4 scale_halves(const float (&v)[8], float top, float& scale) {
  const int exponent = max(static_cast<int>(__float_as_uint(top) >> 23), 20);
  const float up = __uint_as_float(static_cast<uint32_t>(254 + 14 - exponent) << 23);
  scale = __uint_as_float(static_cast<uint32_t>(exponent - 14) << 23);
  return {as_bits(__floats2half2_rn(v[0] * up, v[1] * up)), as_bits(__floats2half2_rn(v[2] * up, v[3] * up)),
          as_bits(__floats2half2_rn(v[4] * up, v[5] * up)), as_bits(__floats2half2_rn(v[6] * up, v[7] * up))};
}

// Activations of one token that are still to be normalized: every block reads all of the residual for its mean square,
// which goes into the scales. `sums`: 32 floats.
template <int kTokenTiles>
__device__ __forceinline__ void stage_norm(const SmallArgs& p, int column0, int columns, uint8_t* x_shared,
                                           float* scales, float* sums) {
  constexpr int kBatch = 2;
  const int step = blockDim.x / 16, piece = threadIdx.x % 16, all = (p.k + 127) / 128;
  const unsigned mask = 0xffffu << (threadIdx.x & 16);
  const int chunk0 = column0 / 128, chunks = columns / 128;
  float square = 0;
#pragma unroll 1
  for (int first = threadIdx.x / 16; first < all; first += step * kBatch) {
    float v[kBatch][8], g[kBatch][8];
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      const int at = (first + i * step) * 128 + piece * 8;
#pragma unroll
      for (int j = 0; j < 8; j += 4) {
        const bool in = at < p.k;
        const float4 x = in ? *reinterpret_cast<const float4*>(p.residual + at + j) : float4{0, 0, 0, 0};
        const float4 y = in ? *reinterpret_cast<const float4*>(p.gain + at + j) : float4{0, 0, 0, 0};
        v[i][j] = x.x, v[i][j + 1] = x.y, v[i][j + 2] = x.z, v[i][j + 3] = x.w;
        g[i][j] = y.x, g[i][j + 1] = y.y, g[i][j + 2] = y.z, g[i][j + 3] = y.w;
      }
    }
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      const int chunk = first + i * step - chunk0;
      float top = 0;
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        square += v[i][j] * v[i][j];
        v[i][j] *= g[i][j];
        top = fmaxf(top, fabsf(v[i][j]));
      }
#pragma unroll
      for (int d = 8; d > 0; d /= 2) top = fmaxf(top, __shfl_xor_sync(mask, top, d));
      if (chunk < 0 || chunk >= chunks) continue;
      float scale;
      const uint4 halves = scale_halves(v[i], top, scale);
      *reinterpret_cast<uint4*>(x_shared + chunk * 256 + piece * 16) = halves;
      if (piece == 0) scales[chunk * kTokenTiles * 8] = scale;
    }
  }
  square = warp_sum(square);
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = square;
  __syncthreads();
  float total = 0;
  for (int w = 0; w < static_cast<int>(blockDim.x) / 32; ++w) total += sums[w];
  const float r = rsqrtf(total / static_cast<float>(p.k) + p.eps);
  for (int c = threadIdx.x; c < chunks; c += blockDim.x) scales[c * kTokenTiles * 8] *= r;
}

// The same when they are half precision already: one bulk copy for each token, and the scales.
template <int kTokenTiles>
__device__ __forceinline__ void fetch_activations(const SmallArgs& p, int column0, int columns,
                                                  uint8_t* x_shared, float* scales, uint32_t bar) {
  if (threadIdx.x < p.m) {
    if (threadIdx.x == 0) barrier_expect(bar, p.m * columns * 2);
    __syncwarp(~0u >> (32 - p.m));  // the first m threads: at most a warp
    bulk_copy(shared_address(x_shared) + threadIdx.x * p.x_row_bytes, p.x16 + threadIdx.x * p.ld16 + column0,
              columns * 2, bar);
  }
  const int chunks = columns / 128;
  const float* from = p.x_scale + column0 / 128;
#pragma unroll 1
  for (int at = threadIdx.x; at < p.m * p.chunks; at += blockDim.x) {
    const int token = p.chunk_magic ? __umulhi(at, p.chunk_magic) : at, chunk = at - token * p.chunks;
    if (chunk < chunks) scales[chunk * kTokenTiles * 8 + token] = from[token * (p.ld16 / 128) + chunk];
  }
}

template <Codes kCodes, int kSets, bool kZero, bool kWide, int kRowTiles, int kTokenTiles>
__global__ void __launch_bounds__(512, 1)
    small_kernel(const __grid_constant__ CUtensorMap rows_of_bytes, const SmallArgs p) {
  constexpr bool kRows = kCodes != Codes::kInt4 && kSets == 0 && !kZero;  // plain rows of bytes
  constexpr int kColumns = kCodes == Codes::kInt4 || kRows ? 128 : 64, kRuns = kColumns / 32;
  constexpr int kScaleBytes = kWide ? 4 : 2, kRunsOfSet = kSets > 1 ? kRuns / kSets : kRuns;
  extern __shared__ __align__(128) uint8_t unaligned[];
  // Boxes of the copy engine want 1024.
  uint8_t* shared = unaligned + (kRows ? (1024 - shared_address(unaligned) % 1024) % 1024 : 0);
  let_next_start();
  const int tid = threadIdx.x, lane = tid % 32, row = lane / 4, quad = lane % 4;
  const int warp = __shfl_sync(~0u, tid / 32, 0);  // known to be the same for the whole warp
  const int warp_k = warp % p.warps_k, warp_n = warp / p.warps_k, warps = p.warps_n * p.warps_k;
  const int tile0 = (blockIdx.x * p.warps_n + warp_n) * kRowTiles;
  const int unit0 = blockIdx.y * p.units_per_split, unit1 = min(unit0 + p.units_per_split, p.units_k);
  const int steps = max(0, (unit1 - unit0 - warp_k + p.warps_k - 1) / p.warps_k);
  const int tiles =
      min(kRowTiles, p.units_n - tile0);  // may be 0 or less: then nothing is loaded, nor written

  const int bar_bytes = (warps * p.stages * 8 + 8 + 127) / 128 * 128;
  const uint32_t x_bar = shared_address(shared) + warps * p.stages * 8;
  const int chunks = (p.units_per_split * kColumns + 127) / 128;
  float* scales = reinterpret_cast<float*>(shared + bar_bytes);
  const int scale_bytes = (chunks * kTokenTiles * 32 + 127) / 128 * 128;
  uint8_t* x_shared = shared + bar_bytes + scale_bytes;
  const int x_bytes = (p.m * p.x_row_bytes + 127) / 128 * 128;
  const int before_ring = bar_bytes + scale_bytes + x_bytes;
  uint8_t* ring_start = shared + (kRows ? (before_ring + 1023) / 1024 * 1024 : before_ring);
  const uint32_t barriers = shared_address(shared) + warp * p.stages * 8;
  const uint32_t ring = shared_address(ring_start) + warp * p.stages * kRowTiles * p.unit_bytes;
  const uint8_t* from = p.packed + (static_cast<int64_t>(tile0) * p.units_k + unit0 + warp_k) *
                                       static_cast<int64_t>(p.unit_bytes);
  const int64_t tile_stride = static_cast<int64_t>(p.units_k) * p.unit_bytes;
  const int64_t step_stride = static_cast<int64_t>(p.warps_k) * p.unit_bytes;

  const uint32_t stage_bytes = kRowTiles * p.unit_bytes;
  int next = 0;  // step to request, and where
  uint32_t next_bar = barriers, next_units = ring;
  const auto request = [&] {
    barrier_expect(next_bar, tiles * p.unit_bytes);
    const uint8_t* source = from + next * step_stride;
#pragma unroll
    for (int r = 0; r < kRowTiles; ++r)
      if (r < tiles) {
        if constexpr (kRows)
          tensor_copy(next_units + r * p.unit_bytes, &rows_of_bytes,
                      (unit0 + warp_k + next * p.warps_k) * kColumns, (tile0 + r) * 16, next_bar);
        else
          bulk_copy(next_units + r * p.unit_bytes, source + r * tile_stride, p.unit_bytes, next_bar);
      }
  };
  const auto advance = [&] {
    ++next;
    next_bar += 8;
    next_units += stage_bytes;
    if (next_bar == barriers + p.stages * 8) next_bar = barriers, next_units = ring;
  };
  if (tiles > 0) {
    const bool one = elect_one();
    if (one) {
#pragma unroll 1
      for (int s = 0; s < p.stages; ++s) barrier_init(barriers + s * 8);
      asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncwarp();
#pragma unroll 1
    for (int s = 0; s < min(p.stages, steps); ++s) {  // weights: nobody writes them
      if (one) request();
      advance();
    }
  }
  __shared__ float norm_sums[kTokenTiles == 1 ? 32 : 1];
  if constexpr (kTokenTiles == 1)
    if (p.gain)
      for (int at = tid * 32; at < p.k; at += blockDim.x * 32)
        asm volatile("prefetch.global.L2 [%0];" ::"l"(p.gain + at));
  wait_for_previous();
  const int column0 = unit0 * kColumns, columns = (unit1 - unit0) * kColumns;
  float before = 0;  // what the product is added to
  if (p.add && tid < p.warps_n * kRowTiles * 16) {
    const int n = blockIdx.x * p.warps_n * kRowTiles * 16 + tid;
    if (n < p.n) before = static_cast<const float*>(p.y)[n];
  }
  if (kTokenTiles == 1 && p.residual) {
    stage_norm<kTokenTiles>(p, column0, columns, x_shared, scales, norm_sums);
  } else if (p.x16) {
    if (tid == 0) {
      barrier_init(x_bar);
      asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncwarp();
    fetch_activations<kTokenTiles>(p, column0, columns, x_shared, scales, x_bar);
  } else {
    stage_activations<kTokenTiles>(p, column0, columns, x_shared, scales);
  }
  __syncthreads();
  if (p.x16) barrier_wait(x_bar, 0);

  float sums[kRowTiles][kTokenTiles][4] = {};
  Zeros zeros[kSets == 0 && kZero ? kRowTiles : 1];
  zeros[0] = make_zeros<kCodes>(0, 0);
  if constexpr (kSets == 0 && kZero)
    for (int r = 0; r < kRowTiles; ++r)
      if (r < tiles) {
        const auto* z = reinterpret_cast<const int8_t*>(p.packed + p.row_zeros) + (tile0 + r) * 16;
        zeros[r] = make_zeros<kCodes>(z[row], z[row + 8]);
      }

  // Each 8 lanes point at 8 tokens' 8 columns; tokens that are not there repeat the last one.
  uint32_t x_at[kTokenTiles];
#pragma unroll
  for (int t = 0; t < kTokenTiles; ++t)
    x_at[t] = shared_address(x_shared) + min(t * 8 + lane % 8, p.m - 1) * p.x_row_bytes + lane / 8 * 16;
  uint32_t bar = barriers, units = ring, phase = 0;
  int unit = warp_k;  // within the split
#pragma unroll 1
  for (int step = 0; step < (tiles > 0 ? steps : 0); ++step, unit += p.warps_k) {
    barrier_wait(bar, phase);
    float2 x_scale[kTokenTiles];
#pragma unroll
    for (int t = 0; t < kTokenTiles; ++t)
      x_scale[t] =
          *reinterpret_cast<const float2*>(scales + (unit * kColumns / 128 * kTokenTiles + t) * 8 + quad * 2);
    float part[kRowTiles][kTokenTiles][4];
    uint4 above[kRows ? kRowTiles : 1], below[kRows ? kRowTiles : 1];  // 64 columns of two rows
#pragma unroll
    for (int run = 0; run < kRuns; ++run) {
      uint32_t b[kTokenTiles][4];
#pragma unroll
      for (int t = 0; t < kTokenTiles; ++t) load_matrix4(b[t], x_at[t] + (unit * kColumns + run * 32) * 2);
#pragma unroll
      for (int r = 0; r < kRowTiles; ++r) {
        const uint32_t at = units + r * p.unit_bytes;
        if (run % kRunsOfSet == 0) {
#pragma unroll
          for (int t = 0; t < kTokenTiles; ++t)
#pragma unroll
            for (int c = 0; c < 4; ++c) part[r][t][c] = 0;
        }
        const int set = run / kRunsOfSet;
        Zeros z = zeros[kSets == 0 && kZero ? r : 0];
        if constexpr (kSets > 0 && kZero) {
          const uint32_t at_zero = at + kUnitCodeBytes + kSets * 16 * kScaleBytes + set * 16 + row;
          int z0, z1;
          asm volatile("ld.shared.s8 %0, [%1];" : "=r"(z0) : "r"(at_zero));
          asm volatile("ld.shared.s8 %0, [%1];" : "=r"(z1) : "r"(at_zero + 8));
          z = make_zeros<kCodes>(static_cast<float>(z0), static_cast<float>(z1));
        }
        uint32_t words[4];
        if constexpr (kCodes == Codes::kInt4) {
          const uint2 w = load_shared8(at + run / 2 * 512 + lane * 16 + run % 2 * 8);
          words[0] = w.x, words[1] = 0, words[2] = w.y, words[3] = 0;
        } else if constexpr (
            kRows) {  // steps 2 * (run % 2) and the next of half run / 2, of rows `row` and 8 further
          const uint32_t from = at + row * 128 + ((quad * 2 + run / 2) ^ row) * 16;
          if (run % 2 == 0) above[r] = load_shared16(from), below[r] = load_shared16(from + 1024);
          const uint2 upper = run % 2 ? uint2{above[r].z, above[r].w} : uint2{above[r].x, above[r].y},
                      lower = run % 2 ? uint2{below[r].z, below[r].w} : uint2{below[r].x, below[r].y};
          constexpr uint32_t kSign = kCodes == Codes::kInt8 ? 0x80808080u : 0u;
          words[0] = __byte_perm(upper.x, lower.x, 0x5410) ^ kSign;
          words[1] = __byte_perm(upper.x, lower.x, 0x7632) ^ kSign;
          words[2] = __byte_perm(upper.y, lower.y, 0x5410) ^ kSign;
          words[3] = __byte_perm(upper.y, lower.y, 0x7632) ^ kSign;
        } else {
          const uint4 w = load_shared16(at + run * 512 + lane * 16);
          words[0] = w.x, words[1] = w.y, words[2] = w.z, words[3] = w.w;
        }
        uint32_t first[4], second[4];
        decode<kCodes>(first, words[0], words[1], z);
        decode<kCodes>(second, words[2], words[3], z);
#pragma unroll
        for (int t = 0; t < kTokenTiles; ++t) {
          mma_f16(part[r][t], first, b[t][0], b[t][1]);
          mma_f16(part[r][t], second, b[t][2], b[t][3]);
        }
        if (run % kRunsOfSet == kRunsOfSet - 1) {
          float s0 = 1, s1 = 1;
          if constexpr (kSets > 0) {
            const uint32_t at_scale = at + kUnitCodeBytes + (set * 16 + row) * kScaleBytes;
            if constexpr (kWide) {
              asm volatile("ld.shared.f32 %0, [%1];" : "=f"(s0) : "r"(at_scale));
              asm volatile("ld.shared.f32 %0, [%1];" : "=f"(s1) : "r"(at_scale + 8 * kScaleBytes));
            } else {
              uint32_t h0, h1;
              asm volatile("ld.shared.u16 %0, [%1];" : "=r"(h0) : "r"(at_scale));
              asm volatile("ld.shared.u16 %0, [%1];" : "=r"(h1) : "r"(at_scale + 8 * kScaleBytes));
              s0 = __uint_as_float(h0 << 16), s1 = __uint_as_float(h1 << 16);
            }
          }
#pragma unroll
          for (int t = 0; t < kTokenTiles; ++t) {
            sums[r][t][0] += part[r][t][0] * (s0 * x_scale[t].x);
            sums[r][t][1] += part[r][t][1] * (s0 * x_scale[t].y);
            sums[r][t][2] += part[r][t][2] * (s1 * x_scale[t].x);
            sums[r][t][3] += part[r][t][3] * (s1 * x_scale[t].y);
          }
        }
      }
    }
    bar += 8;
    units += stage_bytes;
    if (bar == barriers + p.stages * 8) bar = barriers, units = ring, phase ^= 1;
    __syncwarp();
    if (next < steps) {
      if (elect_one()) request();
      advance();
    }
  }

  // Sums of the warps along K; the ring's memory is free once all warps are here.
  __syncthreads();
  float* reduce = reinterpret_cast<float*>(ring_start);
  constexpr int kTokens = kTokenTiles * 8;
#pragma unroll
  for (int r = 0; r < kRowTiles; ++r)
#pragma unroll
    for (int t = 0; t < kTokenTiles; ++t)
      if (t * 8 + quad * 2 < p.m) {
        float* to = reduce + ((warp * kRowTiles + r) * 16 + row) * kTokens + t * 8 + quad * 2;
        to[0] = sums[r][t][0], to[1] = sums[r][t][1];
        to[8 * kTokens] = sums[r][t][2], to[8 * kTokens + 1] = sums[r][t][3];
      }
  __syncthreads();
  const int block_rows = p.warps_n * kRowTiles * 16;
  const int64_t row0 = static_cast<int64_t>(blockIdx.x) * block_rows;
  const auto total = [&](int block_row, int token) {
    const int tile = block_row / 16, wn = tile / kRowTiles, r = tile % kRowTiles;
    const float* at = reduce + ((wn * p.warps_k * kRowTiles + r) * 16 + block_row % 16) * kTokens + token;
    float sum = 0;
#pragma unroll 4
    for (int w = 0; w < p.warps_k; ++w) sum += at[w * kRowTiles * 16 * kTokens];
    const int64_t n = row0 + block_row;
    if (n >= p.n) return 0.0f;
    if constexpr (kSets == 0) sum *= reinterpret_cast<const float*>(p.packed + p.row_scales)[n];
    if (p.bias && blockIdx.y == 0) sum += p.bias[n];
    return sum;
  };
#pragma unroll 1
  for (int token = 0; token < p.m; ++token) {
#pragma unroll 1
    for (int i = tid; i < (p.gated ? block_rows / 2 : block_rows); i += blockDim.x) {
      const int block_row = p.gated ? i / 8 * 16 + i % 8 : i;
      const float sum = total(block_row, token);
      if (row0 + block_row >= p.n) continue;
      if (p.gated) {
        const float up = total(block_row + 8, token);
        put_terms(static_cast<uint16_t*>(p.y) + token * p.ldy + row0 / 2 + i, p.y_low,
                  sum / (1.0f + __expf(-sum)) * up);
      } else if (p.y_bf16) {
        static_cast<uint16_t*>(p.y)[token * p.ldy + row0 + i] = float_to_bf16_bits(sum);
      } else {
        float* to = static_cast<float*>(p.y) + blockIdx.y * p.part_stride + token * p.ldy + row0 + i;
        *to = !p.add ? sum : (token == 0 && i == tid ? before : *to) + sum;
      }
    }
  }
}

template <Codes kCodes, int kSets, bool kZero, bool kWide, int kRowTiles, int kTokenTiles>
void start_small(const SmallArgs& a, const SmallTiles& tiles, const CUtensorMap& rows_of_bytes,
                 size_t shared_bytes, DeviceStream stream) {
  const int block_tiles = tiles.warps_n * kRowTiles;
  const dim3 grid(static_cast<unsigned>((a.units_n + block_tiles - 1) / block_tiles),
                  static_cast<unsigned>(tiles.splits));
  launch(small_kernel<kCodes, kSets, kZero, kWide, kRowTiles, kTokenTiles>, grid,
         static_cast<unsigned>(tiles.warps_n * tiles.warps_k * 32), shared_bytes, stream, "small linear",
         rows_of_bytes, a);
}

}  // namespace roundel::cuda
