// Attention of a prompt on the warpgroup tensor cores: a warpgroup takes 64 queries of a head; three of them, of heads
// that share keys or of the next 64 queries, are one block; a fourth brings keys and values in tiles of 64, so that the
// others need not wait for one another. Scores of the next tile are multiplied while the softmax of this one runs
// (FlashAttention-3; Shah et al. 2024). Scores and sums are float, weights are rounded to bf16 for the second product.
#include "kernels/cuda/common/cache.cuh"
#include "kernels/cuda/common/mma.cuh"
#include "kernels/cuda/sm80/kernels.h"
#include "kernels/cuda/sm90/async.cuh"
#include "kernels/cuda/sm90/group.cuh"

namespace roundel::cuda {
namespace {

constexpr int kTile = 64;             // queries of a warpgroup, and keys
static_assert(kTile == kPageTokens);  // a tile of keys is a page's
constexpr int kGroups = 3, kThreads = (kGroups + 1) * 128;
constexpr int kStages = 3;  // tiles of keys, and of values, on their way

__device__ __forceinline__ float fast_exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// Rows of kD bf16 as tiles of 64 columns in the 128-byte swizzle, by a warpgroup.
template <int kD>
__device__ __forceinline__ void load_tile(uint32_t to, const uint16_t* from, int64_t stride, int rows) {
  constexpr int kPieces = kD / 8, kAtOnce = 128 / kPieces;  // rows
  static_assert(kAtOnce % 8 == 0);
  const int thread = threadIdx.x % 128, row = thread / kPieces, piece = thread % kPieces;
  to += piece / 8 * kTile * 128 + row * 128 + ((piece % 8) ^ (row % 8)) * 16;
  from += piece * 8;
#pragma unroll
  for (int i = 0; i < kTile / kAtOnce; ++i)
    copy_async16(to + i * kAtOnce * 128, from + min(row + i * kAtOnce, rows - 1) * stride);
}
// The barrier counts this thread when what it has asked for is there.
__device__ __forceinline__ void arrive_with_copies(uint32_t bar) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(bar) : "memory");
}

// The description of values (keys,kD) as columns: 64 of them in a tile, the next tile 8192 bytes further.
__device__ __forceinline__ uint32_t columns_of(uint32_t at) {
  return (at & 0x3FFFF) >> 4 | 512u << 16;
}

struct Running {  // of a lane's two rows
  float top[2] = {-INFINITY, -INFINITY}, weight[2] = {};
};

// Scores become weights; shrink: what was summed before is to be multiplied by.
__device__ __forceinline__ void weigh(float (&s)[32], Running& run, float (&shrink)[2], float scale,
                                      bool masked, int key, int position, int window) {
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    float most = run.top[r];
#pragma unroll
    for (int n = 0; n < kTile / 8; ++n)
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        float& x = s[4 * n + 2 * r + c];
        if (masked) {
          const int at = key + n * 8 + c, mine = position + 8 * r;
          if (at > mine || (window > 0 && at <= mine - window)) x = -INFINITY;
        }
        most = fmaxf(most, x);
      }
    most = fmaxf(most, __shfl_xor_sync(~0u, most, 1));
    most = fmaxf(most, __shfl_xor_sync(~0u, most, 2));
    const float from = most == -INFINITY ? 0.0f : most * scale;
    shrink[r] = fast_exp2(run.top[r] * scale - from);
    float sum = 0;
#pragma unroll
    for (int n = 0; n < kTile / 8; ++n)
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        float& x = s[4 * n + 2 * r + c];
        sum += x = fast_exp2(x * scale - from);
      }
    run.top[r] = most;
    run.weight[r] = run.weight[r] * shrink[r] + sum;
  }
}

// Where a stage of keys or values is, and its turn.
struct Turn {
  int stage = 0;
  uint32_t phase = 0;
  __device__ void next() {
    if (++stage == kStages) stage = 0, phase ^= 1;
  }
};

template <int kD>
__global__ void __launch_bounds__(kThreads, 1) prompt_kernel(const DeviceAttentionArgs a) {
  extern __shared__ uint8_t unaligned[];
  __shared__ __align__(8) uint64_t barriers[4 * kStages];
  let_next_start();
  constexpr int kTileBytes = kTile * kD * 2;
  const uint32_t base = (shared_address(unaligned) + 1023) / 1024 * 1024,
                 keys_at = base + kGroups * kTileBytes, values_at = keys_at + kStages * kTileBytes;
  const uint32_t keys_full = shared_address(barriers), values_full = keys_full + kStages * 8,
                 keys_empty = values_full + kStages * 8, values_empty = keys_empty + kStages * 8;
  const int tid = threadIdx.x, lane = tid % 32, group = __shfl_sync(~0u, tid / 128, 0);
  if (tid == 0) {
    for (int s = 0; s < 2 * kStages; ++s) {
      barrier_init_count(keys_full + s * 8, 128);
      barrier_init_count(keys_empty + s * 8, kGroups * 4);
    }
  }
  __syncthreads();
  wait_for_previous();
  // Work of a key/value head: tiles of queries, and within one its heads. The longest of all heads first.
  const int tokens = static_cast<int>(a.tokens), kv_head = blockIdx.x;
  const int sharing = static_cast<int>(a.heads / a.kv_heads), all = (tokens + kTile - 1) / kTile * sharing;
  const int first_unit = (gridDim.y - 1 - blockIdx.y) * kGroups;
  const TokenInfo info = a.info[0];
  const int start = info.position, window = static_cast<int>(a.window);
  // Keys that any query of the block sees.
  const int end = start + min((min(first_unit + kGroups, all) - 1) / sharing * kTile + kTile, tokens);
  const int first = window > 0 ? max(0, start + first_unit / sharing * kTile + 1 - window) / kTile : 0,
            tiles = (end + kTile - 1) / kTile;

  if (group == kGroups) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 32;");
    Turn turn;
    for (int t = first; t < tiles; ++t, turn.next()) {
      const auto bring = [&](uint32_t to, bool is_value, uint32_t full, uint32_t empty) {
        const auto* from = reinterpret_cast<const uint16_t*>(info.pages[t]) +
                           head_in_page(a.layer, is_value, a.kv_heads, kv_head, kD);
        barrier_wait(empty + turn.stage * 8, turn.phase ^ 1);
        load_tile<kD>(to + turn.stage * kTileBytes, from, kD, end - t * kTile);
        arrive_with_copies(full + turn.stage * 8);
      };
      bring(keys_at, false, keys_full, keys_empty);
      bring(values_at, true, values_full, values_empty);
    }
    wait_copies<0>();
    return;
  }

  asm volatile("setmaxnreg.inc.sync.aligned.u32 160;");
  const int unit = min(first_unit + group, all - 1), head = kv_head * sharing + unit % sharing;
  const int q0 = unit / sharing * kTile, q_rows = min(kTile, tokens - q0);
  load_tile<kD>(base + group * kTileBytes, a.q + (int64_t{q0} * a.heads + head) * kD, a.heads * kD, q_rows);
  commit_copies();
  // What threads have written is for the tensor cores now.
  const auto see_copies = [] { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); };
  wait_copies<0>();
  see_copies();
  asm volatile("bar.sync %0, 128;" ::"r"(group + 1) : "memory");

  const uint32_t q = operand_of(base + group * kTileBytes);
  Turn keys, values;
  float s[32], out[kD / 2], shrink[2];
  uint32_t weights[4][4];
  const auto score = [&] {
    barrier_wait(keys_full + keys.stage * 8, keys.phase);
    see_copies();
    const uint32_t k = operand_of(keys_at + keys.stage * kTileBytes);
    group_fence();
#pragma unroll
    for (int d = 0; d < kD / 16; ++d)
      multiply_rows(s, q + d / 4 * (kTile * 8) + d % 4 * 2, k + d / 4 * (kTile * 8) + d % 4 * 2, d > 0);
    group_commit();
  };
  const auto add_values = [&] {
    barrier_wait(values_full + values.stage * 8, values.phase);
    see_copies();
    const uint32_t v = columns_of(values_at + values.stage * kTileBytes);
    group_fence();
#pragma unroll
    for (int n = 0; n < kTile / 16; ++n) multiply_columns<kD>(out, weights[n], v + n * 128);
    group_commit();
  };
  const auto release = [&](uint32_t empty, Turn& turn) {
    if (lane == 0) barrier_arrive(empty + turn.stage * 8);
    turn.next();
  };
#pragma unroll
  for (int i = 0; i < kD / 2; ++i) out[i] = 0;
  Running run;
  const float scale = a.scale * 1.44269504f;
  const int position = start + q0 + tid % 128 / 32 * 16 + lane / 4;
  const auto soften = [&](int t) {
    const int key0 = t * kTile;
    const bool masked =
        key0 + kTile - 1 > start + q0 || (window > 0 && key0 <= start + q0 + kTile - 1 - window);
    weigh(s, run, shrink, scale, masked, key0 + lane % 4 * 2, position, window);
  };
  const auto pack = [&] {
#pragma unroll
    for (int n = 0; n < kTile / 16; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) weights[n][i] = pack_bf16(s[8 * n + 2 * i], s[8 * n + 2 * i + 1]);
  };
  score();
  group_wait<0>();
  release(keys_empty, keys);
  soften(first);
  pack();
#pragma unroll 1
  for (int t = first + 1; t < tiles; ++t) {
    score();
    add_values();
    group_wait<1>();
    release(keys_empty, keys);
    soften(t);
    group_wait<0>();
    release(values_empty, values);
#pragma unroll
    for (int i = 0; i < kD / 2; ++i) out[i] *= shrink[i / 2 % 2];
    pack();
  }
  add_values();
  group_wait<0>();
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    float weight = run.weight[r];
    weight += __shfl_xor_sync(~0u, weight, 1);
    weight += __shfl_xor_sync(~0u, weight, 2);
    const int row = position - start - q0 + 8 * r;
    if (row >= q_rows || first_unit + group >= all) continue;
    uint16_t* to = a.out + (q0 + row) * a.ldo + int64_t{head} * kD + lane % 4 * 2;
#pragma unroll
    for (int d = 0; d < kD / 8; ++d)
      *reinterpret_cast<uint32_t*>(to + d * 8) =
          pack_bf16(out[4 * d + 2 * r] / weight, out[4 * d + 2 * r + 1] / weight);
  }
}

template <int kD>
void start(const DeviceAttentionArgs& a, DeviceStream stream) {
  const int64_t units = (a.tokens + kTile - 1) / kTile * (a.heads / a.kv_heads);
  const dim3 grid(static_cast<unsigned>(a.kv_heads), static_cast<unsigned>((units + kGroups - 1) / kGroups));
  launch(prompt_kernel<kD>, grid, kThreads,
         static_cast<size_t>(1024 + (kGroups + 2 * kStages) * kTile * kD * 2), stream, "prompt attention", a);
}

}  // namespace

bool group_attention_fits(const DeviceAttentionArgs& a) {
  return prompt_attention_fits(a) && a.tokens >= kTile && a.kv.type == KvType::kBF16;
}

void group_attention(const DeviceAttentionArgs& a, DeviceStream stream) {
  (a.head_dim == 64 ? start<64> : start<128>)(a, stream);
}

}  // namespace roundel::cuda
