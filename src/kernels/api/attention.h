// Causal attention of one sequence over its key/value cache, with grouped query heads, an optional sliding window, and
// an online softmax: no score matrix in memory (Milakov, Gimelshein 2018; Dao et al. 2022).
#pragma once
#include <cstdint>

#include "kernels/api/support.h"

namespace roundel {

class ThreadPool;
struct CpuFeatures;

struct AttentionArgs {
  int64_t tokens = 0;  // T new tokens, at positions start .. start + T - 1
  int64_t start = 0;
  int64_t heads = 0;  // H query heads; H / kv_heads of them share one key/value head
  int64_t kv_heads = 0;
  int64_t head_dim = 0;      // D
  float scale = 0;           // usually 1 / sqrt(D)
  int64_t window = 0;        // 0: all earlier tokens; else only the last `window` positions, own one included
  const float* q = nullptr;  // (T,H,D), tokens ldq apart
  int64_t ldq = 0;
  // (kv_heads, positions, D), bf16 or float: the cache, rotated; heads `kv_stride` apart, positions D apart
  const void* k = nullptr;
  const void* v = nullptr;  // like k
  bool kv_bf16 = false;
  int64_t kv_stride = 0;
  float value_scale = 1;  // of v, where it holds codes; that of k belongs to `scale`
  float* out = nullptr;   // (T,H,D), tokens ldo apart
  int64_t ldo = 0;
};

struct AttentionKernel {
  const char* name;  // "avx512_f32_attention"
  Support (*supports)(const CpuFeatures&);
  // Some sequences at once: their heads and tokens are one loop over the threads.
  void (*run_all)(const AttentionArgs* sequences, int64_t count, ThreadPool&);
  bool rounds_to_bf16 = false;  // queries, keys, values and weights, once each
  void run(const AttentionArgs& a, ThreadPool& pool) const { run_all(&a, 1, pool); }
};

}  // namespace roundel
