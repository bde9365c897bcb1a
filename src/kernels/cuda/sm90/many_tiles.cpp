// many.h on the host: which problems, how the work is divided, which tiles.
#include <algorithm>

#include "base/error.h"
#include "kernels/cuda/common/launch.h"
#include "kernels/cuda/sm90/mark.h"
#include "kernels/cuda/sm90/tensor_map.h"
#include "kernels/cuda/sm90/tiles.h"

namespace roundel::cuda {

void launch_many_int4(const ManyArgs& a, const ManyTiles& tiles, unsigned blocks, const CUtensorMap& x,
                      const CUtensorMap& w, const CUtensorMap& y, size_t shared_bytes, DeviceStream stream);
void launch_many_bytes(const ManyArgs& a, bool e4m3, const ManyTiles& tiles, unsigned blocks,
                       const CUtensorMap& x, const CUtensorMap& w, const CUtensorMap& y, size_t shared_bytes,
                       DeviceStream stream);
void launch_many_groups(const ManyArgs& a, int sets, bool zero, const ManyTiles& tiles, unsigned blocks,
                        const CUtensorMap& x, const CUtensorMap& w, const CUtensorMap& y, size_t shared_bytes,
                        DeviceStream stream);

namespace {

constexpr int64_t kMaxBlocks = 144;
constexpr int64_t kBand = 1024;  // tokens whose tiles come after one another: their activations stay in L2

int64_t rows_of(const ManyTiles& t) {
  return int64_t{128} * t.tiles;
}
// Of 32 tokens and 64 rows, for each warpgroup: all of a tile's, where there is room.
int buffers_of(const UnitLayout& u, const ManyTiles& t) {
  return t.tokens == 256 ? 1 : u.rows ? 4 : t.tiles * 4;
}
size_t shared_bytes(const UnitLayout& u, const ManyTiles& t) {
  const int64_t stage = t.tokens * 256 + rows_of(t) / kUnitRows * u.unit_bytes + 16;
  return static_cast<size_t>(1024 + t.stages * stage + 2 * buffers_of(u, t) * 4096);
}

// How the tiles of results are divided among blocks, and about how many us it takes (measured on an H200).
struct Plan {
  int64_t row_blocks = 0, token_tiles = 0, blocks = 0, pieces = 1, split_tiles = 0, span = 0;
  double time = 0;
};

Plan plan_of(const UnitLayout& u, int64_t m, const ManyTiles& t, int sms) {
  Plan p;
  p.row_blocks = (u.n + rows_of(t) - 1) / rows_of(t);
  p.token_tiles = (m + t.tokens - 1) / t.tokens;
  const int64_t tiles = p.row_blocks * p.token_tiles, runs = u.units_k;
  const int64_t most = std::min<int64_t>(sms, kMaxBlocks);
  const bool half = t.tiles * t.tokens == 128;
  // Tiles of 256 tokens bring 1.5 times as much into shared memory: in a long prompt, where the card's power is the limit,
  // they are the slower ones (38,800 to 39,500 tokens/s of 2048, 41,500 without them).
  const double run = half ? 0.76 : t.tokens == 256 ? (m >= 1536 ? 1.5 : 1.32) : 1.4, adding = half ? 2.5 : 5;
  p.blocks = std::min(most, tiles);
  p.time = static_cast<double>((tiles + most - 1) / most * runs) * run;
  for (const int64_t pieces : {2, 3, 4}) {  // of each tile
    const int64_t span = (runs + pieces - 1) / pieces;
    const double time = static_cast<double>(span) * run + 0.8 * adding;
    if (tiles * pieces > most || (pieces - 1) * span >= runs || time >= p.time) continue;
    p.pieces = pieces, p.blocks = tiles * pieces, p.split_tiles = tiles, p.span = span, p.time = time;
  }
  const int64_t left = tiles % most;
  if (left == 0) return p;
  const int64_t split = tiles < most ? tiles : most + left;
  const int64_t span = std::max<int64_t>((split * runs + most - 1) / most, std::min<int64_t>(runs, 4));
  const double others = static_cast<double>((runs + span - 1) / span);
  const double time = static_cast<double>((tiles - split) / most * runs + span) * run + adding * others;
  if (time >= p.time) return p;
  p.pieces = 1, p.blocks = most, p.split_tiles = split, p.span = span, p.time = time;
  return p;
}

}  // namespace

bool many_weights(const UnitLayout& u) {
  if (u.rows) return !u.blocks;
  return u.bits == 4 && (u.sets == 1 || u.sets == 2 || u.sets == 4) && !u.wide_scale;
}

bool many_shape(const UnitLayout& u) {
  return many_weights(u) && u.units_n * u.units_k < (1 << 24);
}

bool many_fits(const UnitLayout& u, const DeviceLinearArgs& a) {
  const bool whole = a.ldy % 8 == 0 && reinterpret_cast<uintptr_t>(a.y) % 16 == 0 && u.n % 16 == 0;
  return many_shape(u) && a.x && a.ldx % 8 == 0 && reinterpret_cast<uintptr_t>(a.x) % 16 == 0 &&
         (!a.gated || whole) && a.workspace_bytes >= many_workspace();
}

bool many_tiles_exist(const UnitLayout& u, const ManyTiles& t, const DeviceInfo& info) {
  return !(u.rows && t.tokens == 256) && (t.tiles == 1 || (t.tiles == 2 && t.tokens == 128)) &&
         (t.tokens == 128 || t.tokens == 256) && t.stages >= 3 && t.stages <= 8 &&
         shared_bytes(u, t) <= info.shared_memory;
}

size_t many_workspace() {
  return static_cast<size_t>(kMaxBlocks * (rows_of({2}) * 128 * 4 + 32) + 512);
}

ManyTiles choose_many_tiles(const UnitLayout& u, int64_t m, const DeviceInfo& info) {
  if (const TileRow* row = measured_many(u, m, info).row) return many_tiles(row->tiles);
  ManyTiles best;
  double best_time = 1e30;
  for (ManyTiles t : {ManyTiles{1, 256, 6}, ManyTiles{2, 128, 6}, ManyTiles{1, 128, 6}}) {
    while (t.stages > 2 && !many_tiles_exist(u, t, info)) --t.stages;
    if (t.stages <= 2) continue;
    const double time = plan_of(u, m, t, info.multiprocessors).time;
    if (time < best_time) best_time = time, best = t;
  }
  return best;
}

void run_many(const UnitLayout& u, const uint8_t* packed, const DeviceLinearArgs& a, const ManyTiles& t,
              const DeviceInfo& info, DeviceStream stream) {
  const Plan plan = plan_of(u, a.m, t, info.multiprocessors);
  Workspace space(a.workspace, a.workspace_bytes);
  ManyArgs w;
  w.packed = packed;
  w.units_k = static_cast<int>(u.units_k), w.units_n = static_cast<int>(u.units_n), w.stages = t.stages;
  w.m = static_cast<int>(a.m), w.n = static_cast<int>(u.n);
  w.row_blocks = static_cast<int>(plan.row_blocks), w.token_tiles = static_cast<int>(plan.token_tiles);
  w.band = static_cast<int>(kBand / t.tokens);
  w.pieces = static_cast<int>(plan.pieces), w.split_tiles = static_cast<int>(plan.split_tiles);
  w.span = static_cast<int>(plan.span);
  w.bias = a.bias, w.y = a.y, w.ldy = a.ldy, w.y_bf16 = a.y_bf16 || a.gated, w.gated = a.gated;
  w.staged = w.y_bf16 && a.ldy % 8 == 0 && reinterpret_cast<uintptr_t>(a.y) % 16 == 0 && u.n % 8 == 0;
  const int64_t blocks = plan.blocks;
  w.sums = static_cast<float*>(space.take(static_cast<size_t>(blocks * rows_of(t) * t.tokens) * 4));
  w.ready = static_cast<uint64_t*>(space.take(static_cast<size_t>(blocks) * 32));
  w.mark = launch_mark();
  const CUtensorMap x = describe_rows(a.x, MapType::kBF16, a.m, u.k, a.ldx * 2, t.tokens);
  const CUtensorMap units = u.rows ? describe_rows(packed, MapType::kBytes, u.units_n * kUnitRows,
                                                   row_bytes(u), row_bytes(u), static_cast<int>(rows_of(t)))
                                   : describe_units(packed, u, static_cast<int>(rows_of(t) / kUnitRows));
  if (u.rows) w.row_scales = reinterpret_cast<const float*>(packed + u.row_scales);
  w.buffers = buffers_of(u, t);
  const CUtensorMap y = !w.staged ? CUtensorMap{}
                        : a.gated ? describe_rows(a.y, MapType::kBF16, a.m, u.n / 2, a.ldy * 2, 32, 64)
                                  : describe_rows(a.y, MapType::kBF16, a.m, u.n, a.ldy * 2, 32);
  const size_t shared = shared_bytes(u, t);
  if (u.rows)
    launch_many_bytes(w, u.e4m3, t, static_cast<unsigned>(blocks), x, units, y, shared, stream);
  else if (u.sets == 1 && !u.zero)
    launch_many_int4(w, t, static_cast<unsigned>(blocks), x, units, y, shared, stream);
  else
    launch_many_groups(w, static_cast<int>(u.sets), u.zero, t, static_cast<unsigned>(blocks), x, units, y,
                       shared, stream);
}

}  // namespace roundel::cuda
