// A decode step's attention in one kernel: each token is the next of its own sequence. The blocks of a cluster divide the
// keys of one key/value head (and up to four query heads that share it); each rotates the queries, the last one also makes
// the new key and value and puts them into the cache; then they add up through one another's shared memory, always in the
// same order. The cache's older entries are read before the kernel before is done: it does not write them.
#include "kernels/cuda/common/cache.cuh"
#include "kernels/cuda/sm80/kernels.h"

namespace roundel::cuda {
namespace {

constexpr int kThreads = 256, kHeads = 4, kUnroll = 2;
constexpr int kKeyWarp = 4, kValueWarp = 5;  // which make the new entries; warps 0 to 3 rotate queries

struct Sums {  // of one query head: running maximum, sum of weights, weighted values of this lane's 8 columns
  float top = -INFINITY, weight = 0, v[8] = {};
};

__device__ __forceinline__ float fast_exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
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

// Columns lane + 32 j of a head, from the parts that a linear left: four parts are read at a time, added in order.
template <int kPer>
__device__ __forceinline__ void read_head(const DeviceMatrix& m, int64_t row, int64_t column, int d,
                                          float (&x)[kPer]) {
  const int lane = threadIdx.x % 32;
  const int64_t at = row * m.ld + column + lane;
#pragma unroll
  for (int j = 0; j < kPer; ++j) x[j] = 0;
#pragma unroll 1
  for (int part = 0; part < m.parts; part += 4) {
    float y[4][kPer];
#pragma unroll
    for (int p = 0; p < 4; ++p)
#pragma unroll
      for (int j = 0; j < kPer; ++j) {
        y[p][j] = 0;
        if (part + p >= m.parts || lane + 32 * j >= d) continue;
        const int64_t i = at + (part + p) * m.part_stride + 32 * j;
        y[p][j] = m.bf16 ? bf16_bits_to_float(static_cast<const uint16_t*>(m.data)[i])
                         : static_cast<const float*>(m.data)[i];
      }
#pragma unroll
    for (int p = 0; p < 4; ++p)
#pragma unroll
      for (int j = 0; j < kPer; ++j) x[j] += y[p][j];
  }
  if (m.row_scale)
#pragma unroll
    for (int j = 0; j < kPer; ++j) x[j] *= m.row_scale[row];
}

// Normalized where there is a gain, then rotated; `values` is the warp's own shared memory.
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

// kLanes: lanes that share a key, a power of two, 8 * kLanes >= head_dim. Long unrolled code was slow in a layer's one run.
template <int kLanes, KvType kType>
__global__ void __launch_bounds__(kThreads, 2) attend_kernel(const RopeArgs r, const DeviceAttentionArgs a) {
  constexpr int kColumns = 8 * kLanes, kPer = kColumns / 32, kGroups = kThreads / kLanes;
  __shared__ __align__(16) float parts[kGroups][kHeads][kColumns + 4];
  __shared__ __align__(16) float queries[kHeads][kColumns];
  __shared__ __align__(16) uint8_t fresh[2][kColumns * kv_bytes(kType)];
  __shared__ float factors[kGroups][kHeads], total[kHeads][kColumns + 2];
  let_next_start();
  const int tid = threadIdx.x, warp = tid / 32, lane = tid % 32, part_lane = lane % kLanes;
  const int d = static_cast<int>(a.head_dim), group = static_cast<int>(a.heads / a.kv_heads);
  const int tiles = (group + kHeads - 1) / kHeads, cluster = gridDim.x, rank = blockIdx.x;
  const int kv_head = blockIdx.y / tiles, tile = blockIdx.y % tiles, token = blockIdx.z;
  const int head0 = kv_head * group + tile * kHeads, heads = min(kHeads, group - tile * kHeads);
  const bool in_head = part_lane * 8 < d, is_last = rank == cluster - 1;
  const TokenInfo info = a.info[token];

  // Keys [begin, position) are in the cache; the token's own is made here, by the last block.
  const int position = info.position;
  const int begin = a.window > 0 ? max(0, position + 1 - static_cast<int>(a.window)) : 0;
  const int per_block = (position - begin + cluster - 1) / cluster;
  const int first = min(begin + rank * per_block, position), stop = min(first + per_block, position);
  const int end = is_last ? position + 1 : stop;
  const int64_t keys = head_in_page(a.layer, false, a.kv_heads, kv_head, d);
  const int64_t values = head_in_page(a.layer, true, a.kv_heads, kv_head, d);

  KvRaw<kType> k_next[kUnroll], v_next[kUnroll];
  const int my_group = tid / kLanes;
  const auto load = [&](int key0) {
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      const int key = key0 + u * kGroups + my_group;
      k_next[u] = v_next[u] = {};
      if (key < stop && in_head) {
        const uint8_t* page = info.pages[key / kPageTokens];
        const int64_t row = key % kPageTokens * int64_t{d} + part_lane * 8;
        k_next[u] = read_kv8<kType>(page, keys + row);
        v_next[u] = read_kv8<kType>(page, values + row);
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

  const bool is_query = warp < heads, is_fresh = is_last && (warp == kKeyWarp || warp == kValueWarp);
  if (is_query || is_fresh) {
    const bool is_value = warp == kValueWarp;
    const DeviceMatrix from = is_query ? r.q : is_value ? r.v : r.k;
    float x[kPer];
    read_head<kPer>(from, token, int64_t{is_query ? head0 + warp : kv_head} * d, d, x);
    if (!is_value)
      turn_head<kPer>(r, x, turn_cos, turn_sin, is_query ? r.q_norm : r.k_norm,
                      is_query ? queries[warp] : parts[0][0]);
    const float scale = a.scale * 1.44269504f * a.kv.key_scale;
    uint8_t* page = is_query ? nullptr : info.pages[position / kPageTokens];
    const int64_t to = (is_value ? values : keys) + position % kPageTokens * int64_t{d};
#pragma unroll
    for (int j = 0; j < kPer; ++j) {
      const int i = lane + 32 * j;
      if (is_query) {
        queries[warp][i] = x[j] * scale;
        continue;
      }
      put_kv(r.kv, fresh[is_value], i, x[j], is_value);
      if (i < d && tile == 0) put_kv(r.kv, page, to + i, x[j], is_value);
    }
  }
  __syncthreads();
  float q[kHeads][8];
#pragma unroll
  for (int h = 0; h < kHeads; ++h)
#pragma unroll
    for (int i = 0; i < 8; ++i) q[h][i] = h < heads ? queries[h][part_lane * 8 + i] : 0.0f;

  Sums sums[kHeads];
#pragma unroll 1
  for (int key0 = first; key0 < end; key0 += kUnroll * kGroups) {
    KvRaw<kType> k_raw[kUnroll], v_raw[kUnroll];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      k_raw[u] = k_next[u], v_raw[u] = v_next[u];
      if (is_last && key0 + u * kGroups + my_group == position) {
        k_raw[u] = read_kv8<kType>(fresh[0], part_lane * 8);
        v_raw[u] = read_kv8<kType>(fresh[1], part_lane * 8);
      }
    }
    load(key0 + kUnroll * kGroups);
    float s[kUnroll][kHeads];
#pragma unroll
    for (int u = 0; u < kUnroll; ++u) {
      float k[8];
      widen8(k_raw[u], k);
#pragma unroll
      for (int h = 0; h < kHeads; ++h) {
        float dot = 0;
#pragma unroll
        for (int i = 0; i < 8; ++i) dot += q[h][i] * k[i];
#pragma unroll
        for (int w = kLanes / 2; w > 0; w /= 2) dot += __shfl_xor_sync(~0u, dot, w);
        s[u][h] = key0 + u * kGroups + my_group < end ? dot : -INFINITY;
      }
    }
#pragma unroll
    for (int h = 0; h < kHeads; ++h) {
      float top = sums[h].top;
#pragma unroll
      for (int u = 0; u < kUnroll; ++u) top = fmaxf(top, s[u][h]);
      const float from = top == -INFINITY ? 0.0f : top, shrink = fast_exp2(sums[h].top - from);
      sums[h].top = top;
      sums[h].weight *= shrink;
#pragma unroll
      for (int i = 0; i < 8; ++i) sums[h].v[i] *= shrink;
#pragma unroll
      for (int u = 0; u < kUnroll; ++u) sums[h].weight += s[u][h] = fast_exp2(s[u][h] - from);
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

  // The groups of lanes, then the blocks.
#pragma unroll
  for (int h = 0; h < kHeads; ++h) {
    float* to = &parts[my_group][h][part_lane * 8];
    *reinterpret_cast<float4*>(to) = {sums[h].v[0], sums[h].v[1], sums[h].v[2], sums[h].v[3]};
    *reinterpret_cast<float4*>(to + 4) = {sums[h].v[4], sums[h].v[5], sums[h].v[6], sums[h].v[7]};
    if (part_lane == 0)
      parts[my_group][h][kColumns] = sums[h].top, parts[my_group][h][kColumns + 1] = sums[h].weight;
  }
  __syncthreads();
  if (tid < kGroups * kHeads) {
    const int g = tid / kHeads, h = tid % kHeads;
    float top = -INFINITY;
#pragma unroll 8
    for (int i = 0; i < kGroups; ++i) top = fmaxf(top, parts[i][h][kColumns]);
    factors[g][h] = top == -INFINITY ? 0.0f : fast_exp2(parts[g][h][kColumns] - top);
    if (g == 0) total[h][kColumns] = top;
  }
  __syncthreads();
  const auto finish = [&](int h, int i, float value) {
    put_terms(a.out + token * a.ldo + int64_t{head0 + h} * d + i, a.low, value * a.kv.value_scale);
  };
#pragma unroll 1
  for (int at = tid; at < heads * d; at += kThreads) {
    const int h = at / d, i = at % d;
    float weight = 0, value = 0;
#pragma unroll 8
    for (int g = 0; g < kGroups; ++g) {
      const float f = factors[g][h];
      weight += f * parts[g][h][kColumns + 1];
      value += f * parts[g][h][i];
    }
    if (cluster == 1) {
      finish(h, i, value / weight);
    } else {
      total[h][i] = value;
      if (i == 0) total[h][kColumns + 1] = weight;
    }
  }
  if (cluster == 1) return;
  cluster_sync();
#pragma unroll 1
  for (int at = rank * kThreads + tid; at < heads * d; at += cluster * kThreads) {
    const int h = at / d, i = at % d;
    float tops[8], weights[8], each[8], top = -INFINITY;
#pragma unroll
    for (int b = 0; b < 8; ++b) {
      const int from = min(b, cluster - 1);
      tops[b] = read_shared_of(&total[h][kColumns], from);
      weights[b] = read_shared_of(&total[h][kColumns + 1], from);
      each[b] = read_shared_of(&total[h][i], from);
    }
#pragma unroll
    for (int b = 0; b < 8; ++b) top = fmaxf(top, tops[b]);
    float weight = 0, value = 0;
#pragma unroll
    for (int b = 0; b < 8; ++b) {
      const float f = b < cluster ? fast_exp2(tops[b] - top) : 0.0f;
      weight += f * weights[b];
      value += f * each[b];
    }
    finish(h, i, value / weight);
  }
  cluster_sync();  // a block's shared memory stays until all have read it
}

template <KvType kType>
void run(const RopeArgs& r, const DeviceAttentionArgs& a, DeviceStream stream) {
  const int64_t tiles = (a.heads / a.kv_heads + kHeads - 1) / kHeads, pieces = a.kv_heads * tiles * a.tokens;
  unsigned cluster = 8;  // enough blocks to fill the GPU, two or three times
  while (cluster > 1 && pieces * cluster > 400) cluster /= 2;
  const dim3 grid(cluster, static_cast<unsigned>(a.kv_heads * tiles), static_cast<unsigned>(a.tokens));
  const auto kernel = a.head_dim <= 64    ? attend_kernel<8, kType>
                      : a.head_dim <= 128 ? attend_kernel<16, kType>
                                          : attend_kernel<32, kType>;
  launch_in_clusters(cluster, kernel, grid, kThreads, 0, stream, "attention", r, a);
}

}  // namespace

bool attend_cluster_fits(const DeviceAttentionArgs& a) {
  return a.head_dim % 8 == 0 && a.head_dim <= 256 && a.heads % a.kv_heads == 0;
}

void attend_cluster(const RopeArgs& r, const DeviceAttentionArgs& a, DeviceStream stream) {
  (a.kv.type == KvType::kBF16   ? run<KvType::kBF16>
   : a.kv.type == KvType::kF32  ? run<KvType::kF32>
   : a.kv.type == KvType::kE4M3 ? run<KvType::kE4M3>
                                : run<KvType::kInt8>)(r, a, stream);
}

}  // namespace roundel::cuda
