// y = x w^T for many tokens of bf16 and weights of 4 bits or of plain rows of bytes, on the warpgroup tensor cores: two
// warpgroups take 64 or 128 rows of the weight each as their A operand, which they turn from codes to bf16 in registers, 4
// bits scaled and rounded once, bytes exactly, as a row's scale is for its sums; 128 or 256
// tokens are the columns of B, as the copy engine brings them. A warpgroup unpacks the operands of its next products
// while the tensor cores work on the last ones. Blocks stay for all of the work, whole tiles of results, or, where their
// number does not divide, parts: either all blocks of a tile add a share of it each, or blocks take an equal part of what
// is left, and the one that begins a tile adds what others have done of it. Orders of sums are fixed.
#pragma once
#include <cuda_runtime.h>

#include "kernels/cuda/sm90/group.cuh"
#include "kernels/cuda/sm90/many.h"
#include "kernels/cuda/sm90/wide.cuh"

namespace roundel::cuda {

constexpr int kManyWorkers = 256;
constexpr int kManyThreads =
    kManyWorkers + 128;             // a warpgroup asks, so that the others may have its registers
constexpr int kBufferBytes = 4096;  // 32 tokens of 64 rows, on their way to y

// What a block works on, one part of a tile after another: runs [begin, end) of 128 columns.
class ManyWork {
 public:
  __device__ explicit ManyWork(const ManyArgs& p) : p_(p) {
    const int block = static_cast<int>(blockIdx.x), all = p.split_tiles * p.units_k;
    at_ = p.pieces > 1 ? block / p.pieces * p.units_k + block % p.pieces * p.span : min(block * p.span, all);
    end_ = p.pieces > 1 ? min(at_ + p.span, (block / p.pieces + 1) * p.units_k) : min(at_ + p.span, all);
    tile_ = p.split_tiles + block;
  }
  __device__ bool next() {
    int tile;
    if (at_ < end_) {
      tile = at_ / p_.units_k;
      begin = at_ - tile * p_.units_k;
      end = min(p_.units_k, begin + end_ - at_);
      at_ += end - begin;
    } else {
      tile = tile_;
      if (tile >= p_.row_blocks * p_.token_tiles) return false;
      tile_ += static_cast<int>(gridDim.x);
      begin = 0, end = p_.units_k;
    }
    const int bands = tile / (p_.row_blocks * p_.band), in = tile - bands * p_.row_blocks * p_.band;
    const int band = min(p_.band, p_.token_tiles - bands * p_.band);
    row_block = in / band, token_tile = bands * p_.band + in % band;
    return true;
  }
  int begin = 0, end = 0, row_block = 0, token_tile = 0;

 private:
  const ManyArgs& p_;
  int at_, end_, tile_;
};

// Codes of 16 rows and 16 columns as bf16: (code - offset) * scale of the row and of the row 8 further, rounded once.
__device__ __forceinline__ void widen_scaled(uint32_t (&a)[4], uint32_t word,
                                             const __nv_bfloat162 (&offset)[2],
                                             const __nv_bfloat162 (&scale)[2]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const uint32_t bits = and_or<0x000F000Fu>(word >> (8 * (i % 2) + 4 * (i / 2)), 0x43004300u);
    const __nv_bfloat162 v =
        __hmul2(__hsub2(reinterpret_cast<const __nv_bfloat162&>(bits), offset[i % 2]), scale[i % 2]);
    a[i] = reinterpret_cast<const uint32_t&>(v);
  }
}

__device__ __forceinline__ void pair_scales_of(uint32_t unit, int set, __nv_bfloat162 (&scale)[2]) {
  const uint32_t at = unit + 1024u + set * 32 + threadIdx.x % 32 / 4 * 2;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    uint32_t h;
    asm volatile("ld.shared.u16 %0, [%1];" : "=r"(h) : "r"(at + 16 * i));
    const uint32_t two = __byte_perm(h, 0, 0x1010);
    scale[i] = reinterpret_cast<const __nv_bfloat162&>(two);
  }
}

// Four 8x8 matrices, each turned over: a lane's two neighbours of a row become neighbours of a column.
__device__ __forceinline__ void store_turned4(uint32_t at, uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1,%2,%3,%4};" ::"r"(at), "r"(a),
               "r"(b), "r"(c), "r"(d)
               : "memory");
}

__device__ __forceinline__ void many_workers_sync() {
  asm volatile("bar.sync 1, 256;" ::: "memory");
}
__device__ __forceinline__ void many_group_sync(int group) {
  if (group == 0)
    asm volatile("bar.sync 2, 128;" ::: "memory");
  else
    asm volatile("bar.sync 3, 128;" ::: "memory");
}
// Sums of 64 rows (from first_row on) and kN tokens to y: quarters [first, last) of the tokens, 32 at a time through
// p.buffers buffers of shared memory (in the 128-byte swizzle, the 64-byte one of gated rows), from where the copy engine
// takes them. `used`: of them.
template <int kN>
__device__ __forceinline__ void write_sums(const ManyArgs& p, const CUtensorMap* y, float (&sums)[kN / 2],
                                           int first_row, int token0, int first, int last, uint32_t buffers,
                                           int& used) {
  const int thread = threadIdx.x % 128, warp = thread / 32, lane = thread % 32, matrix = lane / 8;
  const int row = first_row + warp * 16 + lane / 4;
  float bias[2] = {0, 0};
  if (p.bias) {
    if (row < p.n) bias[0] = p.bias[row];
    if (row + 8 < p.n) bias[1] = p.bias[row + 8];
  }
  if (p.row_scales) {
    const float scale[2] = {row < p.n ? p.row_scales[row] : 0.0f,
                            row + 8 < p.n ? p.row_scales[row + 8] : 0.0f};
#pragma unroll
    for (int i = 0; i < kN / 2; ++i) sums[i] *= scale[i % 4 / 2];
  }
#pragma unroll
  for (int i = 0; i < kN / 2; ++i) sums[i] += bias[i % 4 / 2];
#pragma unroll
  for (int pass = 0; pass < kN / 32; ++pass) {
    if (pass < first * (kN / 128) || pass >= last * (kN / 128)) continue;
    float* s = sums + 16 * pass;
    const int from = token0 + pass * 32;
    if (from >= p.m) break;
    if (!p.staged) {
#pragma unroll
      for (int i = 0; i < 16; ++i) {
        const int token = from + i / 4 * 8 + lane % 4 * 2 + i % 2, at_row = row + i % 4 / 2 * 8;
        if (token >= p.m || at_row >= p.n) continue;
        if (p.y_bf16)
          static_cast<uint16_t*>(p.y)[token * p.ldy + at_row] = float_to_bf16_bits(s[i]);
        else
          static_cast<float*>(p.y)[token * p.ldy + at_row] = s[i];
      }
      continue;
    }
    if (used == p.buffers) {  // until the copy engine has read them
      if (thread == 0) asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
      many_group_sync(threadIdx.x / 128);
      used = 0;
    }
    const uint32_t buffer = buffers + used++ * kBufferBytes;
    const auto place = [&](int token, int piece, int pitch) {
      const uint32_t at = token * pitch + piece * 16;
      return buffer + (at ^ (at >> 7 & (pitch / 16 - 1)) << 4);
    };
    if (p.gated) {  // rows 0 to 7 of 16 are gates
#pragma unroll
      for (int i = 0; i < 16; ++i)
        if (i % 4 < 2) s[i] = s[i] / (1.0f + __expf(-s[i])) * s[i + 2];
      store_turned4(place(lane, warp, 64), pack_bf16(s[0], s[1]), pack_bf16(s[4], s[5]),
                    pack_bf16(s[8], s[9]), pack_bf16(s[12], s[13]));
    } else {
#pragma unroll
      for (int j = 0; j < 4; j += 2)
        store_turned4(place((j + matrix / 2) * 8 + lane % 8, warp * 2 + matrix % 2, 128),
                      pack_bf16(s[4 * j], s[4 * j + 1]), pack_bf16(s[4 * j + 2], s[4 * j + 3]),
                      pack_bf16(s[4 * j + 4], s[4 * j + 5]), pack_bf16(s[4 * j + 6], s[4 * j + 7]));
    }
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    many_group_sync(threadIdx.x / 128);
    if (thread == 0) tensor_store(y, p.gated ? first_row / 2 : first_row, from, buffer);
  }
}

// A quarter of the tokens, to and from a block's slot.
template <int kTiles, int kN>
__device__ __forceinline__ void leave_quarter(const float (&sums)[kTiles][kN / 2], int q, float4* to) {
#pragma unroll
  for (int t = 0; t < kTiles; ++t)
#pragma unroll
    for (int j = kN / 32 * q; j < kN / 32 * (q + 1); ++j)
      to[(t * (kN / 8) + j) * kManyWorkers] = {sums[t][4 * j], sums[t][4 * j + 1], sums[t][4 * j + 2],
                                               sums[t][4 * j + 3]};
}
template <int kTiles, int kN>
__device__ __forceinline__ void add_quarter(float (&sums)[kTiles][kN / 2], int q, const float4* from) {
#pragma unroll
  for (int t = 0; t < kTiles; ++t)
#pragma unroll
    for (int j = kN / 32 * q; j < kN / 32 * (q + 1); ++j) {
      const float4 v = __ldcg(from + (t * (kN / 8) + j) * kManyWorkers);
      sums[t][4 * j] += v.x, sums[t][4 * j + 1] += v.y, sums[t][4 * j + 2] += v.z, sums[t][4 * j + 3] += v.w;
    }
}

// kTiles: of 64 rows, of a warpgroup. kN: tokens. kSets: groups in a run of 128 columns, 1, 2 or 4.
template <int kTiles, int kN, Codes kCodes, int kSets, bool kZero>
__global__ void __launch_bounds__(kManyThreads, 1)
    many_kernel(const __grid_constant__ CUtensorMap x, const __grid_constant__ CUtensorMap w,
                const __grid_constant__ CUtensorMap y, const __grid_constant__ ManyArgs p) {
  extern __shared__ uint8_t unaligned[];
  let_next_start();
  constexpr int kUnits = 8 * kTiles;  // of 16 rows
  constexpr bool kBytes = kCodes != Codes::kInt4;
  constexpr int kUnitBytes = kBytes ? 2048 : 1024 + kSets * 16 * (kZero ? 3 : 2);
  constexpr int kBoxBytes = kN * 128, kTokenBytes = 2 * kBoxBytes;  // boxes of 64 columns
  const int tid = threadIdx.x, warp = __shfl_sync(~0u, tid / 32, 0), lane = tid % 32;
  const uint32_t tokens = (shared_address(unaligned) + 1023) / 1024 * 1024;
  const uint32_t buffers = tokens + p.stages * kTokenBytes, weights = buffers + 2 * p.buffers * kBufferBytes,
                 full = weights + p.stages * kUnits * kUnitBytes, empty = full + p.stages * 8;
  if (tid == 0) {
    for (int s = 0; s < p.stages; ++s) barrier_init(full + s * 8), barrier_init_count(empty + s * 8, 8);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();
  ManyWork work(p);
  int stage = 0;

  if (warp >= kManyWorkers / 32) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    if (warp == kManyWorkers / 32 && elect_one()) {
      wait_for_previous();
      uint32_t phase = 1;  // of a barrier that none has used
      while (work.next()) {
        const int unit0 = work.row_block * kUnits, token0 = work.token_tile * kN;
        for (int k = work.begin; k < work.end; ++k) {
          const uint32_t here = full + stage * 8, to = tokens + stage * kTokenBytes;
          barrier_wait(empty + stage * 8, phase);
          barrier_expect(here, kTokenBytes + kUnits * kUnitBytes);  // zeros beyond the rows
          for (int box = 0; box < 2; ++box)
            tensor_copy(to + box * kBoxBytes, &x, k * 128 + box * 64, token0, here);
          if constexpr (kBytes)
            tensor_copy(weights + stage * kUnits * kUnitBytes, &w, k * 128, unit0 * 16, here);
          else
            units_copy(weights + stage * kUnits * kUnitBytes, &w, k, unit0, here);
          if (++stage == p.stages) stage = 0, phase ^= 1;
        }
      }
    }
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    constexpr int kSteps = 2 / kTiles,
                  kParts = 8 / kSteps;  // of 16 columns, multiplied together; such parts of a run
    constexpr int kSlot = kTiles * (kN / 8) * kManyWorkers;  // of a block's sums, four at a time
    const int group = warp / 4;
    auto* slots = reinterpret_cast<float4*>(p.sums) + tid;
    uint32_t phase = 0;
    float sums[kTiles][kN / 2] = {};
    const auto release = [&](int used) {
      if (lane == 0) barrier_arrive(empty + used * 8);
    };
    bool leaves = false;  // sums are on their way to memory, and nobody has been told
    const auto tell = [&] {
      many_workers_sync();
      if (tid == 0) leave_mark(p.ready + blockIdx.x * 4, p.mark);
      leaves = false;
    };
    // Of 64 columns; of bytes: of a row, of the row 8 further. Bytes leave registers for one half at a time.
    constexpr int kHalves = kBytes ? 1 : 2;
    uint4 words[kHalves][kTiles], lower[kBytes ? kTiles : 1];
    __nv_bfloat162 scale[kTiles][2], offset[kTiles][2];
    const auto unit_of = [&](int s, int t) {
      return weights + (s * kUnits + (group * kTiles + t) * 4 + warp % 4) * kUnitBytes;
    };
    const auto load_words = [&](int s, int half) {
#pragma unroll
      for (int t = 0; t < kTiles; ++t) {
        if constexpr (kBytes) {
          const uint32_t at = unit_of(s, t) + lane / 4 * 128 + ((lane % 4 * 2 + half) ^ lane / 4) * 16;
          words[0][t] = load_shared16(at), lower[t] = load_shared16(at + 1024);
        } else {
          words[half][t] = load_shared16(unit_of(s, t) + half * 512 + lane * 16);
        }
      }
    };
    const auto load_scales = [&](int s, int set) {
#pragma unroll
      for (int t = 0; t < kTiles; ++t)
        if constexpr (!kBytes) {
          pair_scales_of(unit_of(s, t), set, scale[t]);
          offsets_of<kSets, kZero>(unit_of(s, t), set, offset[t]);
        }
    };
    const auto begin_run = [&] {
      barrier_wait(full + stage * 8, phase);
      load_words(stage, 0);
      load_scales(stage, 0);
    };
    bool starts = true;  // the first warpgroup goes ahead, so that both do not write results at once
    while (work.next()) {
      if (starts && group == 1) asm volatile("bar.sync 4, 256;" ::: "memory");
      begin_run();
#pragma unroll 1
      for (int k = work.begin; k < work.end; ++k) {
        if (leaves && k > work.begin) tell();
        const int now = stage;
        const uint32_t b = operand_of(tokens + now * kTokenBytes);
        uint32_t a[4][kTiles][kSteps][4];
#pragma unroll
        for (int g = 0; g < kParts; ++g) {
#pragma unroll
          for (int t = 0; t < kTiles; ++t) {
            const uint4 w = words[g * kSteps / 4 % kHalves][t];
            const uint32_t four[4] = {w.x, w.y, w.z, w.w};
            if constexpr (kBytes) {
              const uint4 l = lower[t];
              const uint32_t below[4] = {l.x, l.y, l.z, l.w};
#pragma unroll
              for (int i = 0; i < kSteps; ++i) {
                const int at = (g * kSteps + i) % 4;
                uint32_t(&to)[4] = a[g % 4][t][i];
                to[0] = widen_bytes<kCodes, false>(four[at]), to[1] = widen_bytes<kCodes, false>(below[at]);
                to[2] = widen_bytes<kCodes, true>(four[at]), to[3] = widen_bytes<kCodes, true>(below[at]);
              }
            } else {
#pragma unroll
              for (int i = 0; i < kSteps; ++i)
                widen_scaled(a[g % 4][t][i], four[(g * kSteps + i) % 4], offset[t], scale[t]);
            }
          }
          group_fence();
#pragma unroll
          for (int i = 0; i < kSteps; ++i)
#pragma unroll
            for (int t = 0; t < kTiles; ++t) {
              const int step = g * kSteps + i;
              multiply_group<kN>(sums[t], a[g % 4][t][i], b + step / 4 * (kBoxBytes / 16) + step % 4 * 2,
                                 step > 0 || k > work.begin);
            }
          group_commit();
          // What comes next is read while these are multiplied.
          if (g == (kBytes ? kParts / 2 - 1 : 0)) load_words(now, 1);
          if (g + 1 < kParts && (g + 1) * kSteps * kSets % 8 == 0)
            load_scales(now, (g + 1) * kSteps * kSets / 8);
          if (g + 1 == kParts) {
            if (++stage == p.stages) stage = 0, phase ^= 1;
            if (k + 1 < work.end) begin_run();
          }
          group_wait<2>();
          if (g == 1 && k > work.begin) release(now == 0 ? p.stages - 1 : now - 1);
        }
        if (starts && group == 0) asm volatile("bar.arrive 4, 256;" ::: "memory");
        starts = false;
      }
      group_wait<0>();
      release(stage == 0 ? p.stages - 1 : stage - 1);
#pragma unroll
      for (int t = 0; t < kTiles; ++t)
#pragma unroll
        for (int i = 0; i < kN / 2; ++i) asm volatile("" : "+f"(sums[t][i])::"memory");

      wait_for_previous();
      if (leaves) tell();
      const int block = static_cast<int>(blockIdx.x);
      int first = 0, last = 4;  // quarters of the tokens that this block writes
      if (p.pieces > 1) {
        const int piece = block % p.pieces, block0 = block - piece;
        first = 4 * piece / p.pieces, last = 4 * (piece + 1) / p.pieces;
#pragma unroll
        for (int q = 0; q < 4; ++q)
          if (q < first || q >= last) leave_quarter<kTiles, kN>(sums, q, slots + int64_t{block} * kSlot);
        many_workers_sync();
        if (tid < p.pieces && tid != piece) {
          leave_mark(p.ready + block * 4 + tid, p.mark);
          take_mark(p.ready + (block0 + tid) * 4 + piece, p.mark);
        }
        many_workers_sync();
        for (int other = block0; other < block0 + p.pieces; ++other)
#pragma unroll
          for (int q = 0; q < 4; ++q)
            if (other != block && q >= first && q < last)
              add_quarter<kTiles, kN>(sums, q, slots + int64_t{other} * kSlot);
      } else if (work.begin > 0) {
#pragma unroll
        for (int q = 0; q < 4; ++q) leave_quarter<kTiles, kN>(sums, q, slots + int64_t{block} * kSlot);
        leaves = true;
        continue;
      } else {
        int other = block;
        for (int had = work.end; had < p.units_k; had += p.span) {
          ++other;
          if (tid == 0) take_mark(p.ready + other * 4, p.mark);
          many_workers_sync();
#pragma unroll
          for (int q = 0; q < 4; ++q) add_quarter<kTiles, kN>(sums, q, slots + int64_t{other} * kSlot);
        }
      }
      int used = p.buffers;
#pragma unroll
      for (int t = 0; t < kTiles; ++t)
        write_sums<kN>(p, &y, sums[t], (work.row_block * 2 * kTiles + group * kTiles + t) * 64,
                       work.token_tile * kN, first, last, buffers + group * p.buffers * kBufferBytes, used);
    }
    if (tid % 128 == 0) asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
    if (leaves) tell();
  }
}

template <Codes kCodes, int kSets, bool kZero>
void start_many(const ManyArgs& a, const ManyTiles& t, unsigned blocks, const CUtensorMap& x,
                const CUtensorMap& w, const CUtensorMap& y, size_t shared_bytes, DeviceStream stream) {
  constexpr int kWide = kCodes == Codes::kInt4 ? 256 : 128;  // bytes leave no room for 256 tokens
  const auto kernel = t.tokens == 256 ? many_kernel<1, kWide, kCodes, kSets, kZero>
                      : t.tiles == 1  ? many_kernel<1, 128, kCodes, kSets, kZero>
                                      : many_kernel<2, 128, kCodes, kSets, kZero>;
  launch(kernel, blocks, kManyThreads, shared_bytes, stream, "linear of many tokens", x, w, y, a);
}

}  // namespace roundel::cuda
