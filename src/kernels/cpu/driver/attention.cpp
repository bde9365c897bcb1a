// The listed CPU kernels for attention: heads and tiles of tokens, divided among the threads.
// The tiles themselves are in kernels/cpu/<isa>.
#include <algorithm>
#include <vector>

#include "base/checked.h"
#include "base/cpu_features.h"
#include "base/thread_pool.h"
#include "kernels/cpu/common/amx.h"
#include "kernels/cpu/driver/scratch.h"

namespace roundel {
namespace {

// Rows (tokens x query heads of one key/value head) that share a transposed tile of keys: enough that transposing costs
// little (it takes the time of 10 rows' products), few enough that queries, scores and sums stay in the L2 cache: 240 KiB
// for 128 dimensions.
constexpr int64_t kRows = 192;

thread_local Scratch scratch;

int64_t scratch_floats(const AttentionArgs& a, int64_t rows) {
  return 2 * a.head_dim * kKeyTile + rows * (round_up(a.head_dim, 16) + a.head_dim + kKeyTile + 2);
}
int64_t amx_scratch_floats(const AttentionArgs& a, int64_t rows) {
  const int64_t d = round_up(a.head_dim, 32), padded = round_up(rows, 16);
  return padded * d / 2 + 64 * d + padded * (d + 17);
}

// A sequence's tiles: `parts` times its key/value heads, numbered from `first`.
struct Cut {
  const AttentionArgs* args;
  int64_t first, tokens, parts;
};

template <int64_t kMostRows, int64_t (*kFloats)(const AttentionArgs&, int64_t)>
void drive(void (*tile_fn)(const AttentionTile&), const AttentionArgs* sequences, int64_t count,
           ThreadPool& pool) {
  std::vector<Cut> cuts;
  cuts.reserve(static_cast<size_t>(count));
  int64_t tiles = 0, floats = 0;
  for (const AttentionArgs* a = sequences; a < sequences + count; ++a) {
    if (a->tokens <= 0) continue;
    const int64_t per_kv = a->heads / a->kv_heads;
    const int64_t tokens = std::clamp<int64_t>(kMostRows / per_kv, 1, a->tokens);
    cuts.push_back({a, tiles, tokens, ceil_div(a->tokens, tokens)});
    tiles += cuts.back().parts * a->kv_heads;
    floats = std::max(floats, kFloats(*a, tokens * per_kv));
  }
  pool.parallel_for(tiles, 1, [&](int64_t begin, int64_t end) {
    AttentionTile tile;
    tile.scratch = reinterpret_cast<float*>(scratch.reserve(floats * 4));
    auto cut = std::upper_bound(cuts.begin(), cuts.end(), begin,
                                [](int64_t i, const Cut& c) { return i < c.first; });
    --cut;
    for (int64_t i = begin; i < end; ++i) {
      if (cut + 1 != cuts.end() && i == cut[1].first) ++cut;
      const AttentionArgs& a = *cut->args;
      const int64_t part = cut->parts - 1 - (i - cut->first) / a.kv_heads;  // the longest rows first
      tile.args = &a;
      tile.kv_head = (i - cut->first) % a.kv_heads;
      tile.token0 = part * cut->tokens;
      tile.token1 = std::min(a.tokens, tile.token0 + cut->tokens);
      tile_fn(tile);
    }
  });
}

template <void (*kTile)(const AttentionTile&)>
void run(const AttentionArgs* sequences, int64_t count, ThreadPool& pool) {
  drive<kRows, scratch_floats>(kTile, sequences, count, pool);
}
void run_amx(const AttentionArgs* sequences, int64_t count, ThreadPool& pool) {
  drive<kAmxAttentionRows, amx_scratch_floats>(amxbf16_attention_tile, sequences, count, pool);
}

}  // namespace

extern const AttentionKernel kAmxAttention = {"amxbf16_attention", amx_bf16_supports, run_amx, true};
extern const AttentionKernel kAvx512Attention = {"avx512_f32_attention", avx512_supports,
                                                 run<avx512_attention_tile>};
extern const AttentionKernel kAvx2Attention = {"avx2_f32_attention", avx2_supports, run<avx2_attention_tile>};

}  // namespace roundel
