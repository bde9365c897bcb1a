// A decode step's attention in one kernel: each token is the next of its own sequence. The blocks of a cluster divide the
// keys of one key/value head (and up to four query heads that share it); each rotates the queries, the last one also makes
// the new key and value and puts them into the cache; then they add up through one another's shared memory, always in the
// same order. The cache's older entries are read before the kernel before is done: it does not write them.
#include "kernels/cuda/common/quantize.cuh"
#include "kernels/cuda/sm80/kernels.h"

namespace roundel::cuda {
namespace {

constexpr int kWarps = 4, kHeads = 4, kUnroll = 4;

struct Sums {  // of one query head: running maximum, sum of weights, weighted values of this lane's 8 columns
  float top = -INFINITY, weight = 0, v[8] = {};
};

__device__ __forceinline__ void widen8(const uint4& w, float* to) {
  const uint32_t words[4] = {w.x, w.y, w.z, w.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    to[2 * i] = __uint_as_float(words[i] << 16);
    to[2 * i + 1] = __uint_as_float(words[i] & 0xffff0000u);
  }
}
__device__ __forceinline__ void merge(Sums& a, float top, float weight, const float* v) {
  const float both = fmaxf(a.top, top);
  if (both == -INFINITY) return;
  const float x = exp2f(a.top - both), y = exp2f(top - both);
  a.top = both;
  a.weight = a.weight * x + weight * y;
#pragma unroll
  for (int i = 0; i < 8; ++i) a.v[i] = a.v[i] * x + v[i] * y;
}

__device__ __forceinline__ void cluster_sync() {
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}
__device__ __forceinline__ float read_shared_of(const float* mine, int rank) {
  float x;
  asm volatile("{\n.reg .u32 at;\nmapa.shared::cluster.u32 at, %1, %2;\nld.shared::cluster.f32 %0, [at];\n}"
               : "=f"(x)
               : "r"(static_cast<uint32_t>(__cvta_generic_to_shared(mine))), "r"(rank)
               : "memory");
  return x;
}

// One head of a token, 32 * kPer columns at most: normalized where there is a gain, then rotated. Lane l has columns
// l + 32 j; `values` is the warp's own shared memory.
template <int kPer>
__device__ __forceinline__ void turn_head(const RopeArgs& r, float (&x)[kPer], const float (&cos)[kPer],
                                          const float (&sin)[kPer], const float* gain, float* values) {
  const int lane = threadIdx.x % 32, d = static_cast<int>(r.head_dim), half = static_cast<int>(r.half);
  if (gain) {
    float sum = 0;
#pragma unroll
    for (int j = 0; j < kPer; ++j) sum += x[j] * x[j];
    const float scale = rsqrtf(warp_sum(sum) / static_cast<float>(d) + r.eps);
#pragma unroll
    for (int j = 0; j < kPer; ++j)
      if (lane + 32 * j < d) x[j] *= scale * gain[lane + 32 * j];
  }
#pragma unroll
  for (int j = 0; j < kPer; ++j) values[lane + 32 * j] = x[j];
  __syncwarp();
#pragma unroll
  for (int j = 0; j < kPer; ++j) {
    const int i = lane + 32 * j;
    if (i < 2 * half) x[j] = x[j] * cos[j] + (i < half ? -values[i + half] : values[i - half]) * sin[j];
  }
  __syncwarp();
}

// kLanes: lanes that share a key, a power of two, 8 * kLanes >= head_dim.
template <int kLanes>
__global__ void __launch_bounds__(kWarps * 32) attend_kernel(const RopeArgs r, const DeviceAttentionArgs a) {
  constexpr int kColumns = 8 * kLanes, kPer = kColumns / 32, kGroups = kWarps * 32 / kLanes;
  __shared__ float queries[kHeads][kColumns], fresh[2][kColumns];
  __shared__ float parts[kWarps][kHeads][kColumns + 2];
  __shared__ float total[kHeads][kColumns + 2];
  let_next_start();
  const int tid = threadIdx.x, warp = tid / 32, lane = tid % 32, part_lane = lane % kLanes;
  const int d = static_cast<int>(a.head_dim), group = static_cast<int>(a.heads / a.kv_heads);
  const int tiles = (group + kHeads - 1) / kHeads, cluster = gridDim.x, rank = blockIdx.x;
  const int kv_head = blockIdx.y / tiles, tile = blockIdx.y % tiles, token = blockIdx.z;
  const int head0 = kv_head * group + tile * kHeads, heads = min(kHeads, group - tile * kHeads);
  const bool in_head = part_lane * 8 < d, is_last = rank == cluster - 1;
  const TokenInfo info = a.info[token];

  // Keys [begin, position) are in the cache; the token's own is made here.
  const int position = info.position;
  const int begin = a.window > 0 ? max(0, position + 1 - static_cast<int>(a.window)) : 0;
  const int per_block = (position - begin + cluster - 1) / cluster;
  const int first = min(begin + rank * per_block, position), stop = min(first + per_block, position);
  const int64_t head_at = ((2 * a.layer * a.kv_heads) + kv_head) * info.capacity * d;
  uint16_t* keys = info.cache + head_at;
  uint16_t* values = keys + a.kv_heads * info.capacity * d;

  uint4 k_next[kUnroll], v_next[kUnroll];
  const int my_group = tid / kLanes;
  const auto load = [&](int key0) {
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      const int key = key0 + u * kGroups + my_group;
      k_next[u] = v_next[u] = {0, 0, 0, 0};
      if (key < stop && in_head) {
        k_next[u] = *reinterpret_cast<const uint4*>(keys + int64_t{key} * d + part_lane * 8);
        v_next[u] = *reinterpret_cast<const uint4*>(values + int64_t{key} * d + part_lane * 8);
      }
    }
  };
  load(first);
  float turn_cos[kPer], turn_sin[kPer];
#pragma unroll
  for (int j = 0; j < kPer; ++j) {
    const int half = static_cast<int>(r.half), i = lane + 32 * j, at = i < half ? i : i - half;
    turn_cos[j] = i < 2 * half ? r.cos[token * half + at] : 1.0f;
    turn_sin[j] = i < 2 * half ? r.sin[token * half + at] : 0.0f;
  }
  wait_for_previous();

  // A warp for each query head; of the last block also one for the new key, and one for the value.
  float x[kPer], y[kPer];
  const bool has_query = warp < heads, has_fresh = is_last && warp < 2;
#pragma unroll
  for (int j = 0; j < kPer; ++j) {
    const int i = lane + 32 * j;
    x[j] = has_query && i < d ? matrix_value(r.q, token, int64_t{head0 + warp} * d + i) : 0.0f;
    y[j] = has_fresh && i < d ? matrix_value(warp == 0 ? r.k : r.v, token, int64_t{kv_head} * d + i) : 0.0f;
  }
  if (has_query) {
    turn_head<kPer>(r, x, turn_cos, turn_sin, r.q_norm, &parts[warp][0][0]);
    const float scale = a.scale * 1.44269504f;
#pragma unroll
    for (int j = 0; j < kPer; ++j) queries[warp][lane + 32 * j] = x[j] * scale;
  }
  if (has_fresh) {
    if (warp == 0) turn_head<kPer>(r, y, turn_cos, turn_sin, r.k_norm, &parts[warp][1][0]);
    uint16_t* to = (warp == 0 ? keys : values) + int64_t{position} * d;
#pragma unroll
    for (int j = 0; j < kPer; ++j) {
      const int i = lane + 32 * j;
      const uint16_t bits =
          float_to_bf16_bits(through_cache(r, y[j], warp == 0 ? r.key_scale : r.value_scale));
      fresh[warp][i] = bf16_bits_to_float(bits);
      if (i < d && tile == 0) to[i] = bits;
    }
  }
  __syncthreads();
  float q[kHeads][8];
#pragma unroll
  for (int h = 0; h < kHeads; ++h)
#pragma unroll
    for (int i = 0; i < 8; ++i) q[h][i] = h < heads ? queries[h][part_lane * 8 + i] : 0.0f;

  Sums sums[kHeads];
  const auto score = [&](int h, const float* k) {
    float s = 0;
#pragma unroll
    for (int i = 0; i < 8; ++i) s += q[h][i] * k[i];
#pragma unroll
    for (int w = kLanes / 2; w > 0; w /= 2) s += __shfl_xor_sync(~0u, s, w);
    return s;
  };
#pragma unroll 1
  for (int key0 = first; key0 < stop; key0 += kUnroll * kGroups) {
    uint4 k_raw[kUnroll], v_raw[kUnroll];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) k_raw[u] = k_next[u], v_raw[u] = v_next[u];
    load(key0 + kUnroll * kGroups);
    float s[kUnroll][kHeads];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      const bool valid = key0 + u * kGroups + my_group < stop;
      float k[8];
      widen8(k_raw[u], k);
#pragma unroll
      for (int h = 0; h < kHeads; ++h) {
        const float dot = score(h, k);
        s[u][h] = valid ? dot : -INFINITY;
      }
    }
#pragma unroll
    for (int h = 0; h < kHeads; ++h) {
      float top = sums[h].top;
#pragma unroll
      for (int u = 0; u < kUnroll; ++u) top = fmaxf(top, s[u][h]);
      const float from = top == -INFINITY ? 0.0f : top, shrink = exp2f(sums[h].top - from);
      sums[h].top = top;
      sums[h].weight *= shrink;
#pragma unroll
      for (int i = 0; i < 8; ++i) sums[h].v[i] *= shrink;
#pragma unroll
      for (int u = 0; u < kUnroll; ++u) sums[h].weight += s[u][h] = exp2f(s[u][h] - from);
    }
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      float v[8];
      widen8(v_raw[u], v);
#pragma unroll
      for (int h = 0; h < kHeads; ++h)
#pragma unroll
        for (int i = 0; i < 8; ++i) sums[h].v[i] += s[u][h] * v[i];
    }
  }
  if (is_last && warp == 0)
#pragma unroll
    for (int h = 0; h < kHeads; ++h) {
      const float s = score(h, &fresh[0][part_lane * 8]);
      if (my_group == 0) merge(sums[h], s, 1.0f, &fresh[1][part_lane * 8]);
    }

    // Lanes with the same columns, then warps, then blocks.
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
  }
  __syncthreads();  // `parts` held queries on their way
  if (lane < kLanes)
#pragma unroll
    for (int h = 0; h < kHeads; ++h) {
      for (int i = 0; i < 8; ++i) parts[warp][h][lane * 8 + i] = sums[h].v[i];
      if (lane == 0) parts[warp][h][kColumns] = sums[h].top, parts[warp][h][kColumns + 1] = sums[h].weight;
    }
  __syncthreads();
  const auto finish = [&](int h, int i, float value) {
    a.out[token * a.ldo + int64_t{head0 + h} * d + i] = float_to_bf16_bits(value);
  };
  for (int at = tid; at < heads * d; at += kWarps * 32) {
    const int h = at / d, i = at % d;
    float top = -INFINITY;
#pragma unroll
    for (int w = 0; w < kWarps; ++w) top = fmaxf(top, parts[w][h][kColumns]);
    float weight = 0, value = 0;
#pragma unroll
    for (int w = 0; w < kWarps; ++w) {
      const float f = top == -INFINITY ? 0.0f : exp2f(parts[w][h][kColumns] - top);
      weight += f * parts[w][h][kColumns + 1];
      value += f * parts[w][h][i];
    }
    if (cluster == 1) {
      finish(h, i, value / weight);
    } else {
      total[h][i] = value;
      if (i == 0) total[h][kColumns] = top, total[h][kColumns + 1] = weight;
    }
  }
  if (cluster == 1) return;
  cluster_sync();
  for (int at = rank * kWarps * 32 + tid; at < heads * d; at += cluster * kWarps * 32) {
    const int h = at / d, i = at % d;
    float tops[8], weights[8], each[8], top = -INFINITY;
#pragma unroll
    for (int b = 0; b < 8; ++b) {
      tops[b] = -INFINITY;
      if (b >= cluster) continue;
      tops[b] = read_shared_of(&total[h][kColumns], b);
      weights[b] = read_shared_of(&total[h][kColumns + 1], b);
      each[b] = read_shared_of(&total[h][i], b);
    }
#pragma unroll
    for (int b = 0; b < 8; ++b) top = fmaxf(top, tops[b]);
    float weight = 0, value = 0;
#pragma unroll
    for (int b = 0; b < 8; ++b) {
      if (b >= cluster) continue;
      const float f = exp2f(tops[b] - top);
      weight += f * weights[b];
      value += f * each[b];
    }
    finish(h, i, value / weight);
  }
  cluster_sync();  // a block's shared memory stays until all have read it
}

}  // namespace

bool attend_cluster_fits(const DeviceAttentionArgs& a) {
  return a.head_dim % 8 == 0 && a.head_dim <= 256 && a.heads % a.kv_heads == 0;
}

void attend_cluster(const RopeArgs& r, const DeviceAttentionArgs& a, DeviceStream stream) {
  const int64_t tiles = (a.heads / a.kv_heads + kHeads - 1) / kHeads, pieces = a.kv_heads * tiles * a.tokens;
  unsigned cluster = 8;  // enough blocks to fill the GPU, two or three times
  while (cluster > 1 && pieces * cluster > 400) cluster /= 2;
  const dim3 grid(cluster, static_cast<unsigned>(a.kv_heads * tiles), static_cast<unsigned>(a.tokens));
  const auto kernel = a.head_dim <= 64    ? attend_kernel<8>
                      : a.head_dim <= 128 ? attend_kernel<16>
                                          : attend_kernel<32>;
  launch_in_clusters(cluster, kernel, grid, kWarps * 32, 0, stream, "attention", r, a);
}

}  // namespace roundel::cuda
