#include "kernels/cuda/sm90/tiles.h"

#include <algorithm>

#include "base/log.h"

namespace roundel::cuda {
namespace {

bool one_of(int value, std::initializer_list<int> list) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

// "int4.g128", "int4.g64.asym", "int8.row", "e4m3.g64.f32". A group of more than a unit's columns costs what the unit does.
std::string weights_text(const UnitLayout& u) {
  std::string text = u.e4m3 ? "e4m3" : u.bits == 4 ? "int4" : "int8";
  text += u.sets == 0 ? ".row" : fmt::format(".g{}", u.unit_k / u.sets);
  if (u.zero) text += ".asym";
  if (u.wide_scale && u.sets > 0) text += ".f32";
  return text;
}

template <class Usable>
MeasuredTiles measured(TileKey key, const DeviceInfo& info, Usable usable) {
  if (info.tuned)
    if (const TileRow* row = info.tuned->find(key, usable)) return {row, TileSource::kTuned};
  if (key.weights == "int8.row" || key.weights == "e4m3.row") key.weights = "byte.row";
  const TileRow* row = shipped_tiles().find(key, usable);
  return row ? MeasuredTiles{row, TileSource::kShipped} : MeasuredTiles{};
}

struct Counted {
  int64_t blocks;
  Tiles tiles;
};
// Without those that leave multiprocessors idle or give each many blocks, where there are others.
std::vector<Tiles> worth_measuring(const std::vector<Counted>& all, const DeviceInfo& info) {
  int64_t fewest = INT64_MAX, most = 0;
  for (const Counted& c : all) fewest = std::min(fewest, c.blocks), most = std::max(most, c.blocks);
  const int64_t sms = info.multiprocessors;
  std::vector<Tiles> kept;
  for (const Counted& c : all)
    if (2 * c.blocks >= std::min(sms, most) && c.blocks <= std::max(5 * sms, 2 * fewest))
      kept.push_back(c.tiles);
  return kept;
}

int64_t blocks_of(int64_t rows, int64_t rows_of_block, int splits) {
  return (rows + rows_of_block - 1) / rows_of_block * splits;
}

}  // namespace

TileKey tile_key(const char* kernel, const UnitLayout& u, int64_t m, bool whole) {
  return {kernel, weights_text(u), u.n, u.k, m, whole};
}

bool small_usable(const UnitLayout& u, int64_t m, int max_parts, const SmallTiles& t,
                  const DeviceInfo& info) {
  if (!one_of(t.row_tiles, {1, 2, 3, 4, 7}) || t.warps_n < 1 || t.warps_n > 16 || t.warps_k < 1 ||
      t.warps_k > 16 || t.stages < 2 || t.stages > 8 || !one_of(t.splits, {1, 2, 4, 8}))
    return false;
  const int warps = t.warps_n * t.warps_k;
  const int64_t run = kScaleColumns / u.unit_k, runs = u.units_k / run;  // units that are not parted
  const int64_t per_split = (runs + t.splits - 1) / t.splits;
  return t.splits <= max_parts && warps >= 4 && warps <= 16 && (t.splits - 1) * per_split < runs &&
         small_tiles_exist(u, m, t.row_tiles) && small_shared_bytes(u, m, t) + 128 <= info.shared_memory;
}

bool wide_usable(const UnitLayout& u, int64_t m, int max_parts, const WideTiles& t, const DeviceInfo& info) {
  return one_of(t.groups, {1, 2, 4}) && one_of(t.units, {1, 2}) && one_of(t.splits, {1, 2, 4, 8}) &&
         t.stages >= 2 && t.stages <= 8 && t.splits <= max_parts && wide_tiles_exist(u, t) &&
         wide_shared_bytes(u, m, t) <= info.shared_memory;
}

bool bytes_usable(const UnitLayout& u, int64_t m, int max_parts, const BytesTiles& t,
                  const DeviceInfo& info) {
  return one_of(t.splits, {1, 2, 4, 8}) && t.stages >= 2 && t.stages <= 8 && t.splits <= max_parts &&
         bytes_tiles_exist(u, t) && bytes_shared_bytes(m, t) + 1024 <= info.shared_memory;
}

MeasuredTiles measured_small(const UnitLayout& u, int64_t m, int max_parts, const DeviceInfo& info) {
  return measured(tile_key(kSmallName, u, m, max_parts == 1), info,
                  [&](const Tiles& t) { return small_usable(u, m, max_parts, small_tiles(t), info); });
}
MeasuredTiles measured_wide(const UnitLayout& u, int64_t m, int max_parts, const DeviceInfo& info) {
  return measured(tile_key(kWideName, u, m, max_parts == 1), info,
                  [&](const Tiles& t) { return wide_usable(u, m, max_parts, wide_tiles(t), info); });
}
MeasuredTiles measured_bytes(const UnitLayout& u, int64_t m, int max_parts, const DeviceInfo& info) {
  return measured(tile_key(kBytesName, u, m, max_parts == 1), info,
                  [&](const Tiles& t) { return bytes_usable(u, m, max_parts, bytes_tiles(t), info); });
}
MeasuredTiles measured_many(const UnitLayout& u, int64_t m, const DeviceInfo& info) {
  const MeasuredTiles found = measured(tile_key(kManyName, u, m, true), info, [&](const Tiles& t) {
    return many_tiles_exist(u, many_tiles(t), info);
  });
  return found.row && found.row->key.m * 7 <= m * 8 ? found : MeasuredTiles{};
}

std::vector<Tiles> small_choices(const UnitLayout& u, int64_t m, int max_parts, const DeviceInfo& info) {
  std::vector<Counted> all;
  for (const int row_tiles : {1, 2, 3, 4, 7})
    for (const int warps_n : {1, 2, 3, 4, 6, 8})
      for (const int warps_k : {1, 2, 4, 6, 8, 12, 16})
        for (const int splits : {1, 2, 4, 8})
          for (const int stages : {2, 3, 4, 6}) {
            const SmallTiles t{row_tiles, warps_n, warps_k, stages, splits};
            if (u.units_k / splits < warps_k && warps_k > 1) continue;  // a warp would have nothing
            if (small_usable(u, m, max_parts, t, info))
              all.push_back({blocks_of(u.units_n, int64_t{row_tiles} * warps_n, splits), numbers(t)});
          }
  return worth_measuring(all, info);
}

std::vector<Tiles> wide_choices(const UnitLayout& u, int64_t m, int max_parts, const DeviceInfo& info) {
  std::vector<Counted> all;
  for (const int units : {1, 2})
    for (const int groups : {1, 2, 4})
      for (const int splits : {1, 2, 4, 8})
        for (const int stages : {2, 3, 4, 6, 8}) {
          const WideTiles t{groups, stages, splits, units};
          if (wide_usable(u, m, max_parts, t, info))
            all.push_back({blocks_of(u.units_n, int64_t{groups} * 4, splits), numbers(t)});
        }
  return worth_measuring(all, info);
}

std::vector<Tiles> bytes_choices(const UnitLayout& u, int64_t m, int max_parts, bool together,
                                 const DeviceInfo& info) {
  std::vector<Counted> all;
  for (const int rows : {32, 64, 96, 112, 128})
    for (const int splits : {1, 2, 4, 8})
      for (const int stages : {2, 3, 4, 5, 6, 8}) {
        const BytesTiles t{rows, stages, splits};
        if (!bytes_usable(u, m, max_parts, t, info) || (together && !bytes_run_together(u, m, t, info)))
          continue;
        all.push_back({blocks_of(u.n, int64_t{2} * rows, splits), numbers(t)});
      }
  return worth_measuring(all, info);
}

std::vector<Tiles> many_choices(const UnitLayout& u, const DeviceInfo& info) {
  std::vector<Tiles> all;
  for (const auto& [tiles, tokens] : {std::pair(1, 128), {1, 256}, {2, 128}})
    for (const int stages : {3, 4, 5, 6})
      if (many_tiles_exist(u, {tiles, tokens, stages}, info))
        all.push_back(numbers(ManyTiles{tiles, tokens, stages}));
  return all;
}

}  // namespace roundel::cuda
