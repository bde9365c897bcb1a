// Attention of a prompt: 64 queries of a head at a time over tiles of 64 keys, on tensor cores, with an online softmax
// (FlashAttention-2; Dao 2023). Scores and sums are float, weights are rounded to bf16 for the second product.
#include "kernels/cuda/common/cache.cuh"
#include "kernels/cuda/common/mma.cuh"
#include "kernels/cuda/sm80/kernels.h"

namespace roundel::cuda {
namespace {

constexpr int kThreads = 128, kTile = 64;
static_assert(kTile == kPageTokens);  // a tile of keys is a page's

// Rows of kD bf16, 16-byte pieces exchanged by row so that ldmatrix meets no bank twice.
template <int kD>
__device__ __forceinline__ uint32_t place(int row, int piece) {
  return static_cast<uint32_t>(row * kD * 2 + ((piece ^ (row & 7)) * 16));
}

template <int kD>
__device__ void load_tile(uint32_t to, const uint16_t* from, int64_t stride, int rows) {
  constexpr int kPieces = kD / 8;
  for (int i = threadIdx.x; i < kTile * kPieces; i += kThreads) {
    const int row = i / kPieces, piece = i % kPieces;
    copy_async16(to + place<kD>(row, piece), from + min(row, rows - 1) * stride + piece * 8);
  }
}

// The same of codes of a byte, which become bf16, exactly.
template <int kD, KvType kType>
__device__ void load_codes(uint8_t* to, const uint8_t* page, int64_t first, int rows) {
  constexpr int kPieces = kD / 8;
  for (int i = threadIdx.x; i < kTile * kPieces; i += kThreads) {
    const int row = i / kPieces, piece = i % kPieces;
    float x[8];
    widen8(read_kv8<kType>(page, first + min(row, rows - 1) * kD + piece * 8), x);
    *reinterpret_cast<uint4*>(to + place<kD>(row, piece)) = {pack_bf16(x[0], x[1]), pack_bf16(x[2], x[3]),
                                                             pack_bf16(x[4], x[5]), pack_bf16(x[6], x[7])};
  }
}

template <int kD, KvType kType>
__global__ void __launch_bounds__(kThreads) prompt_kernel(const DeviceAttentionArgs a) {
  extern __shared__ __align__(128) uint8_t shared[];
  let_next_start();
  wait_for_previous();
  constexpr int kTileBytes = kTile * kD * 2;
  const uint32_t base = shared_address(shared), q_at = base;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int head = blockIdx.y, kv_head = head / static_cast<int>(a.heads / a.kv_heads);
  const int tile = gridDim.x - 1 - blockIdx.x;  // the longest first
  const TokenInfo info = a.info[0];
  const int start = info.position, tokens = static_cast<int>(a.tokens), q0 = tile * kTile;
  const int q_rows = min(kTile, tokens - q0);
  const int64_t keys = head_in_page(a.layer, false, a.kv_heads, kv_head, kD);
  const int64_t values = head_in_page(a.layer, true, a.kv_heads, kv_head, kD);
  const int end = start + q0 + q_rows;  // keys that any query of the tile sees
  const int begin = a.window > 0 ? max(0, start + q0 + 1 - static_cast<int>(a.window)) / kTile * kTile : 0;
  const int tiles = (end - begin + kTile - 1) / kTile;

  load_tile<kD>(q_at, a.q + (int64_t{q0} * a.heads + head) * kD, a.heads * kD, q_rows);
  const auto load_kv = [&](int t) {
    const uint32_t to = kTileBytes * (1 + 2 * (t % 2));
    const int key0 = begin + t * kTile;
    const uint8_t* page = info.pages[key0 / kTile];
    if constexpr (kType == KvType::kBF16) {
      const auto* at = reinterpret_cast<const uint16_t*>(page);
      load_tile<kD>(base + to, at + keys, kD, end - key0);
      load_tile<kD>(base + to + kTileBytes, at + values, kD, end - key0);
    } else {
      load_codes<kD, kType>(shared + to, page, keys, end - key0);
      load_codes<kD, kType>(shared + to + kTileBytes, page, values, end - key0);
    }
  };
  load_kv(0);
  commit_copies();

  float out[kD / 8][4] = {}, top[2] = {-INFINITY, -INFINITY}, weight[2] = {};
  const float scale = a.scale * 1.44269504f * a.kv.key_scale;
  const int row0 =
      start + q0 + warp * 16 + lane / 4;  // position of this lane's first row; the second is 8 further
  for (int t = 0; t < tiles; ++t) {
    if (t + 1 < tiles) load_kv(t + 1);
    commit_copies();
    wait_copies<1>();
    __syncthreads();
    const uint32_t k_at = base + kTileBytes * (1 + 2 * (t % 2)), v_at = k_at + kTileBytes;
    const int key0 = begin + t * kTile;
    float s[kTile / 8][4] = {};
#pragma unroll
    for (int d = 0; d < kD / 16; ++d) {
      uint32_t q[4];
      load_matrix4(q, q_at + place<kD>(warp * 16 + lane % 16, d * 2 + lane / 16));
#pragma unroll
      for (int n = 0; n < kTile / 16; ++n) {
        uint32_t k[4];
        load_matrix4(k, k_at + place<kD>(n * 16 + lane % 8 + lane / 16 * 8, d * 2 + lane / 8 % 2));
        mma_bf16(s[2 * n], q, k[0], k[1]);
        mma_bf16(s[2 * n + 1], q, k[2], k[3]);
      }
    }
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int position = row0 + 8 * r;
      float most = top[r];
#pragma unroll
      for (int n = 0; n < kTile / 8; ++n)
#pragma unroll
        for (int c = 0; c < 2; ++c) {
          const int key = key0 + n * 8 + lane % 4 * 2 + c;
          const bool seen = key <= position && (a.window <= 0 || key > position - a.window);
          float& x = s[n][2 * r + c];
          x = seen ? x * scale : -INFINITY;
          most = fmaxf(most, x);
        }
      most = fmaxf(most, __shfl_xor_sync(~0u, most, 1));
      most = fmaxf(most, __shfl_xor_sync(~0u, most, 2));
      const float from = most == -INFINITY ? 0.0f : most, shrink = exp2f(top[r] - from);
      float sum = 0;
#pragma unroll
      for (int n = 0; n < kTile / 8; ++n)
#pragma unroll
        for (int c = 0; c < 2; ++c) sum += s[n][2 * r + c] = exp2f(s[n][2 * r + c] - from);
      top[r] = most;
      weight[r] = weight[r] * shrink + sum;
#pragma unroll
      for (int d = 0; d < kD / 8; ++d) out[d][2 * r] *= shrink, out[d][2 * r + 1] *= shrink;
    }
#pragma unroll
    for (int n = 0; n < kTile / 16; ++n) {
      const uint32_t p[4] = {pack_bf16(s[2 * n][0], s[2 * n][1]), pack_bf16(s[2 * n][2], s[2 * n][3]),
                             pack_bf16(s[2 * n + 1][0], s[2 * n + 1][1]),
                             pack_bf16(s[2 * n + 1][2], s[2 * n + 1][3])};
#pragma unroll
      for (int d = 0; d < kD / 16; ++d) {
        uint32_t v[4];
        load_matrix4_transposed(v, v_at + place<kD>(n * 16 + lane % 16, d * 2 + lane / 16));
        mma_bf16(out[2 * d], p, v[0], v[1]);
        mma_bf16(out[2 * d + 1], p, v[2], v[3]);
      }
    }
    __syncthreads();
  }
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    weight[r] += __shfl_xor_sync(~0u, weight[r], 1);
    weight[r] += __shfl_xor_sync(~0u, weight[r], 2);
    const int row = warp * 16 + lane / 4 + 8 * r;
    if (row >= q_rows) continue;
    const float share = a.kv.value_scale / weight[r];
    uint16_t* to = a.out + (q0 + row) * a.ldo + int64_t{head} * kD + lane % 4 * 2;
#pragma unroll
    for (int d = 0; d < kD / 8; ++d)
      *reinterpret_cast<uint32_t*>(to + d * 8) = pack_bf16(out[d][2 * r] * share, out[d][2 * r + 1] * share);
  }
}

template <KvType kType>
void run(const DeviceAttentionArgs& a, DeviceStream stream) {
  const dim3 grid(static_cast<unsigned>((a.tokens + kTile - 1) / kTile), static_cast<unsigned>(a.heads));
  launch(a.head_dim == 64 ? prompt_kernel<64, kType> : prompt_kernel<128, kType>, grid, kThreads,
         static_cast<size_t>(5 * kTile * a.head_dim * 2), stream, "prompt attention", a);
}

}  // namespace

bool prompt_attention_fits(const DeviceAttentionArgs& a) {
  return a.tokens >= 16 && a.kv.type != KvType::kF32 && (a.head_dim == 64 || a.head_dim == 128) &&
         a.ldo % 2 == 0;
}

void prompt_attention(const DeviceAttentionArgs& a, DeviceStream stream) {
  (a.kv.type == KvType::kBF16   ? run<KvType::kBF16>
   : a.kv.type == KvType::kE4M3 ? run<KvType::kE4M3>
                                : run<KvType::kInt8>)(a, stream);
}

}  // namespace roundel::cuda
