// Attention of a prompt on the warpgroup tensor cores: a warpgroup takes 64 queries of a head; three of them, of heads
// that share keys or of the next 64 queries, are one block; keys come in tiles of 64. Scores of the next tile are
// multiplied while the softmax of this one runs (FlashAttention-3; Shah et al. 2024). Scores and sums are float, weights
// are rounded to bf16 for the second product.
#include "kernels/cuda/common/cache.cuh"
#include "kernels/cuda/common/mma.cuh"
#include "kernels/cuda/sm80/kernels.h"
#include "kernels/cuda/sm90/group.cuh"

namespace roundel::cuda {
namespace {

constexpr int kTile = 64;             // queries of a warpgroup, and keys
static_assert(kTile == kPageTokens);  // a tile of keys is a page's
constexpr int kGroups = 3, kThreads = kGroups * 128;

__device__ __forceinline__ float fast_exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// Rows of kD bf16 as tiles of 64 columns in the 128-byte swizzle.
template <int kD, int kStep>
__device__ __forceinline__ void load_tile(uint32_t to, const uint16_t* from, int64_t stride, int rows,
                                          int thread) {
  constexpr int kPieces = kD / 8;
  for (int i = thread; i < kTile * kPieces; i += kStep) {
    const int row = i / kPieces, piece = i % kPieces;
    copy_async16(to + piece / 8 * kTile * 128 + row * 128 + ((piece % 8) ^ (row % 8)) * 16,
                 from + min(row, rows - 1) * stride + piece * 8);
  }
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

template <int kD>
__global__ void __launch_bounds__(kThreads, 1) prompt_kernel(const DeviceAttentionArgs a) {
  extern __shared__ uint8_t unaligned[];
  let_next_start();
  wait_for_previous();
  constexpr int kTileBytes = kTile * kD * 2;
  const uint32_t base = (shared_address(unaligned) + 1023) / 1024 * 1024,
                 keys_at = base + kGroups * kTileBytes, values_at = keys_at + 2 * kTileBytes;
  const int tid = threadIdx.x, lane = tid % 32, group = __shfl_sync(~0u, tid / 128, 0);
  // Work of a key/value head: tiles of queries, and within one its heads. The longest of all heads first.
  const int tokens = static_cast<int>(a.tokens), kv_head = blockIdx.x;
  const int sharing = static_cast<int>(a.heads / a.kv_heads), all = (tokens + kTile - 1) / kTile * sharing;
  const int first_unit = (gridDim.y - 1 - blockIdx.y) * kGroups, unit = min(first_unit + group, all - 1);
  const int head = kv_head * sharing + unit % sharing;
  const TokenInfo info = a.info[0];
  const int start = info.position, q0 = unit / sharing * kTile, q_rows = min(kTile, tokens - q0);
  const int window = static_cast<int>(a.window);
  // Keys that any query of the block sees.
  const int end = start + min((min(first_unit + kGroups, all) - 1) / sharing * kTile + kTile, tokens);
  const int first = window > 0 ? max(0, start + first_unit / sharing * kTile + 1 - window) / kTile : 0,
            tiles = (end + kTile - 1) / kTile;
  const auto in_page = [&](int t, bool is_value) {
    return reinterpret_cast<const uint16_t*>(info.pages[t]) +
           head_in_page(a.layer, is_value, a.kv_heads, kv_head, kD);
  };

  const auto load_keys = [&](int t) {
    if (t < tiles)
      load_tile<kD, kThreads>(keys_at + t % 2 * kTileBytes, in_page(t, false), kD, end - t * kTile, tid);
  };
  const auto load_values = [&](int t) {
    if (t < tiles)
      load_tile<kD, kThreads>(values_at + t % 2 * kTileBytes, in_page(t, true), kD, end - t * kTile, tid);
  };
  load_tile<kD, 128>(base + group * kTileBytes, a.q + (int64_t{q0} * a.heads + head) * kD, a.heads * kD,
                     q_rows, tid % 128);
  load_keys(first);
  commit_copies();
  load_keys(first + 1);
  load_values(first);
  commit_copies();
  const auto arrived = [&] {  // for the tensor cores too
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
  };

  const uint32_t q = operand_of(base + group * kTileBytes);
  const auto score = [&](float(&s)[32], int t) {
    const uint32_t k = operand_of(keys_at + t % 2 * kTileBytes);
    group_fence();
#pragma unroll
    for (int d = 0; d < kD / 16; ++d)
      multiply_rows(s, q + d / 4 * (kTile * 8) + d % 4 * 2, k + d / 4 * (kTile * 8) + d % 4 * 2, d > 0);
    group_commit();
  };
  float s[32], out[kD / 2], shrink[2];
  uint32_t weights[4][4];
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
  const auto add_values = [&](int t) {
    const uint32_t v = columns_of(values_at + t % 2 * kTileBytes);
    group_fence();
#pragma unroll
    for (int n = 0; n < kTile / 16; ++n) multiply_columns<kD>(out, weights[n], v + n * 128);
    group_commit();
  };
  wait_copies<1>();
  arrived();
  score(s, first);
  group_wait<0>();
  soften(first);
  pack();
#pragma unroll 1
  for (int t = first; t + 1 < tiles; ++t) {
    wait_copies<0>();
    arrived();
    load_keys(t + 2);
    load_values(t + 1);
    commit_copies();
    score(s, t + 1);
    add_values(t);
    group_wait<1>();
    soften(t + 1);
    group_wait<0>();
#pragma unroll
    for (int i = 0; i < kD / 2; ++i) out[i] *= shrink[i / 2 % 2];
    pack();
  }
  wait_copies<0>();
  arrived();
  add_values(tiles - 1);
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
  launch(prompt_kernel<kD>, grid, kThreads, static_cast<size_t>(1024 + (kGroups + 4) * kTile * kD * 2),
         stream, "prompt attention", a);
}

}  // namespace

bool group_attention_fits(const DeviceAttentionArgs& a) {
  return prompt_attention_fits(a) && a.tokens >= kTile && a.kv.type == KvType::kBF16;
}

void group_attention(const DeviceAttentionArgs& a, DeviceStream stream) {
  (a.head_dim == 64 ? start<64> : start<128>)(a, stream);
}

}  // namespace roundel::cuda
