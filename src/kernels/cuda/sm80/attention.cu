// Attention of single tokens over the cache: a block takes the query heads that share one key/value head, and a part of
// the keys; the last block of a token puts the parts together, always in the same order (flash decoding; Dao 2023).
#include "kernels/cuda/common/cache.cuh"
#include "kernels/cuda/sm80/kernels.h"

namespace roundel::cuda {
namespace {

constexpr int kWarps = 4, kHeads = 4;  // query heads of a block
constexpr int kLeastKeys = 64;         // of a part

struct Sums {  // of one query head: running maximum, sum of weights, weighted values of this lane's 8 columns
  float top = -INFINITY, weight = 0, v[8] = {};
};

__device__ __forceinline__ void merge(Sums& a, float top, float weight, const float* v) {
  const float both = fmaxf(a.top, top);
  if (both == -INFINITY) return;
  const float x = exp2f(a.top - both), y = exp2f(top - both);
  a.top = both;
  a.weight = a.weight * x + weight * y;
#pragma unroll
  for (int i = 0; i < 8; ++i) a.v[i] = a.v[i] * x + v[i] * y;
}

// kLanes: lanes that share a key, a power of two, 8 * kLanes >= head_dim.
template <int kLanes, KvType kType>
__global__ void __launch_bounds__(kWarps * 32) attention_kernel(const DeviceAttentionArgs a) {
  constexpr int kKeysAtOnce = 32 / kLanes, kColumns = 8 * kLanes;
  __shared__ float parts[kWarps][kHeads][kColumns + 2];
  __shared__ bool last;
  let_next_start();
  wait_for_previous();
  const int tid = threadIdx.x, warp = tid / 32, lane = tid % 32, part_lane = lane % kLanes;
  const int d = static_cast<int>(a.head_dim), group = static_cast<int>(a.heads / a.kv_heads);
  const int tiles = (group + kHeads - 1) / kHeads;
  const int split = blockIdx.x, kv_head = blockIdx.y / tiles, tile = blockIdx.y % tiles, token = blockIdx.z;
  const int head0 = kv_head * group + tile * kHeads, heads = min(kHeads, group - tile * kHeads);
  const bool in_head = part_lane * 8 < d;
  const TokenInfo info = a.info[token];

  const int end = info.position + 1;
  const int begin = a.window > 0 ? max(0, end - static_cast<int>(a.window)) : 0;
  const int per_part = max((end - begin + a.splits - 1) / a.splits, kLeastKeys);
  const int used = (end - begin + per_part - 1) / per_part;  // parts that have keys
  if (split >= used) return;
  const int first = begin + split * per_part, stop = min(end, first + per_part);

  const int64_t keys = head_in_page(a.layer, false, a.kv_heads, kv_head, d) + part_lane * 8;
  const int64_t values = head_in_page(a.layer, true, a.kv_heads, kv_head, d) + part_lane * 8;
  float q[kHeads][8] = {};
  const float scale = a.scale * 1.44269504f * a.kv.key_scale;
#pragma unroll
  for (int h = 0; h < kHeads; ++h)
    if (h < heads && in_head) {
      const int64_t at = (int64_t{token} * a.heads + head0 + h) * d + part_lane * 8;
      const auto* from = reinterpret_cast<const uint8_t*>(a.q);
      widen8(read_kv8<KvType::kBF16>(from, at), q[h]);
      float low[8] = {};
      if (a.low) widen8(read_kv8<KvType::kBF16>(from, at + a.low), low);
#pragma unroll
      for (int i = 0; i < 8; ++i) q[h][i] = (q[h][i] + low[i]) * scale;
    }

  Sums sums[kHeads];
  constexpr int kUnroll = 4, kStep = kWarps * kKeysAtOnce;
  for (int key0 = first + warp * kKeysAtOnce + lane / kLanes; key0 - lane / kLanes < stop;
       key0 += kUnroll * kStep) {
    KvRaw<kType> k_raw[kUnroll], v_raw[kUnroll];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      const int key = key0 + u * kStep;
      k_raw[u] = v_raw[u] = {};
      if (key < stop && in_head) {
        const uint8_t* page = info.pages[key / kPageTokens];
        const int64_t row = key % kPageTokens * int64_t{d};
        k_raw[u] = read_kv8<kType>(page, keys + row);
        v_raw[u] = read_kv8<kType>(page, values + row);
      }
    }
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      const bool valid = key0 + u * kStep < stop;
      float k[8], v[8];
      widen8(k_raw[u], k);
      widen8(v_raw[u], v);
#pragma unroll
      for (int h = 0; h < kHeads; ++h) {
        float s = 0;
#pragma unroll
        for (int i = 0; i < 8; ++i) s += q[h][i] * k[i];
#pragma unroll
        for (int w = kLanes / 2; w > 0; w /= 2) s += __shfl_xor_sync(~0u, s, w);
        if (valid) merge(sums[h], s, 1.0f, v);
      }
    }
  }
  // Lanes with the same columns, then warps.
#pragma unroll
  for (int h = 0; h < kHeads; ++h) {
#pragma unroll
    for (int w = kLanes; w < 32; w *= 2) {
      const float top = __shfl_xor_sync(~0u, sums[h].top, w),
                  weight = __shfl_xor_sync(~0u, sums[h].weight, w);
      float v[8];
#pragma unroll
      for (int i = 0; i < 8; ++i) v[i] = __shfl_xor_sync(~0u, sums[h].v[i], w);
      merge(sums[h], top, weight, v);
    }
    if (lane < kLanes) {
      for (int i = 0; i < 8; ++i) parts[warp][h][lane * 8 + i] = sums[h].v[i];
      if (lane == 0) parts[warp][h][kColumns] = sums[h].top, parts[warp][h][kColumns + 1] = sums[h].weight;
    }
  }
  __syncthreads();
  const auto finish = [&](int h, int i, float x) {
    put_terms(a.out + token * a.ldo + int64_t{head0 + h} * d + i, a.low, x * a.kv.value_scale);
  };
  const int width = d + 2;
  for (int at_out = tid; at_out < heads * d; at_out += kWarps * 32) {
    const int h = at_out / d, i = at_out % d;
    float top = -INFINITY;
    for (int w = 0; w < kWarps; ++w) top = fmaxf(top, parts[w][h][kColumns]);
    float weight = 0, x = 0;
    for (int w = 0; w < kWarps; ++w) {
      const float f = exp2f(parts[w][h][kColumns] - top);
      weight += f * parts[w][h][kColumns + 1];
      x += f * parts[w][h][i];
    }
    if (used == 1) {
      finish(h, i, x / weight);
    } else {
      float* to = a.scratch + ((int64_t{token} * a.heads + head0 + h) * a.splits + split) * width;
      to[i] = x;
      if (i == 0) to[d] = top, to[d + 1] = weight;
    }
  }
  if (used == 1) return;

  __threadfence();
  __syncthreads();
  uint32_t* counter = a.counters + int64_t{token} * gridDim.y + blockIdx.y;
  if (tid == 0) {
    last = atomicAdd(counter, 1u) + 1 == static_cast<uint32_t>(used);
    if (last) *counter = 0;
  }
  __syncthreads();
  if (!last) return;
  __threadfence();
  for (int at_out = tid; at_out < heads * d; at_out += kWarps * 32) {
    const int h = at_out / d, i = at_out % d;
    const float* from = a.scratch + (int64_t{token} * a.heads + head0 + h) * a.splits * width;
    float top = -INFINITY;
#pragma unroll 4
    for (int s = 0; s < used; ++s) top = fmaxf(top, __ldcg(from + s * width + d));
    float weight = 0, x = 0;
#pragma unroll 4
    for (int s = 0; s < used; ++s) {
      const float f = exp2f(__ldcg(from + s * width + d) - top);
      weight += f * __ldcg(from + s * width + d + 1);
      x += f * __ldcg(from + s * width + i);
    }
    finish(h, i, x / weight);
  }
}

template <KvType kType>
void run(const DeviceAttentionArgs& a, DeviceStream stream) {
  const int64_t tiles = (a.heads / a.kv_heads + kHeads - 1) / kHeads;
  const dim3 grid(static_cast<unsigned>(a.splits), static_cast<unsigned>(a.kv_heads * tiles),
                  static_cast<unsigned>(a.tokens));
  const auto kernel = a.head_dim <= 64    ? attention_kernel<8, kType>
                      : a.head_dim <= 128 ? attention_kernel<16, kType>
                                          : attention_kernel<32, kType>;
  launch(kernel, grid, kWarps * 32, 0, stream, "attention", a);
}

}  // namespace

void attention(const DeviceAttentionArgs& a, DeviceStream stream) {
  if (a.one_sequence && a.low == 0 && prompt_attention_fits(a)) return prompt_attention(a, stream);
  (a.kv.type == KvType::kBF16   ? run<KvType::kBF16>
   : a.kv.type == KvType::kF32  ? run<KvType::kF32>
   : a.kv.type == KvType::kE4M3 ? run<KvType::kE4M3>
                                : run<KvType::kInt8>)(a, stream);
}

}  // namespace roundel::cuda
