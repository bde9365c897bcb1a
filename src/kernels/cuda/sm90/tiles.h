// Which tiles a linear takes: a measured row where there is one, and what there is to be measured.
#pragma once
#include "kernels/cuda/sm90/bytes.h"
#include "kernels/cuda/sm90/many.h"
#include "kernels/cuda/sm90/small.h"
#include "kernels/cuda/sm90/wide.h"

namespace roundel::cuda {

constexpr char kSmallName[] = "sm90_small", kWideName[] = "sm90_wide", kBytesName[] = "sm90_bytes",
               kManyName[] = "sm90_many";
constexpr int kMostParts = 8;

constexpr Tiles numbers(const SmallTiles& t) {
  return {t.row_tiles, t.warps_n, t.warps_k, t.stages, t.splits};
}
constexpr Tiles numbers(const WideTiles& t) {
  return {t.groups, t.stages, t.splits, t.units, 0};
}
constexpr Tiles numbers(const BytesTiles& t) {
  return {t.rows, t.stages, t.splits, 0, 0};
}
constexpr Tiles numbers(const ManyTiles& t) {
  return {t.tiles, t.tokens, t.stages, 0, 0};
}
constexpr SmallTiles small_tiles(const Tiles& t) {
  return {t[0], t[1], t[2], t[3], t[4]};
}
constexpr WideTiles wide_tiles(const Tiles& t) {
  return {t[0], t[1], t[2], t[3]};
}
constexpr BytesTiles bytes_tiles(const Tiles& t) {
  return {t[0], t[1], t[2]};
}

constexpr ManyTiles many_tiles(const Tiles& t) {
  return {t[0], t[1], t[2]};
}

TileKey tile_key(const char* kernel, const UnitLayout& u, int64_t m, bool whole);
// Whether these numbers, which may come from a file, are tiles that can run.
bool small_usable(const UnitLayout& u, int64_t m, int max_parts, const SmallTiles& t, const DeviceInfo& info);
bool wide_usable(const UnitLayout& u, int64_t m, int max_parts, const WideTiles& t, const DeviceInfo& info);
bool bytes_usable(const UnitLayout& u, int64_t m, int max_parts, const BytesTiles& t, const DeviceInfo& info);

// The measured row: the user's, else one that is compiled in; row null: neither.
struct MeasuredTiles {
  const TileRow* row = nullptr;
  TileSource source = TileSource::kHeuristic;
};
MeasuredTiles measured_small(const UnitLayout& u, int64_t m, int max_parts, const DeviceInfo& info);
MeasuredTiles measured_wide(const UnitLayout& u, int64_t m, int max_parts, const DeviceInfo& info);
MeasuredTiles measured_bytes(const UnitLayout& u, int64_t m, int max_parts, const DeviceInfo& info);
// Only a row for nearly as many tokens: how tiles divide them decides.
MeasuredTiles measured_many(const UnitLayout& u, int64_t m, const DeviceInfo& info);

// All that are worth measuring. together: only those whose blocks all run at once.
std::vector<Tiles> small_choices(const UnitLayout& u, int64_t m, int max_parts, const DeviceInfo& info);
std::vector<Tiles> wide_choices(const UnitLayout& u, int64_t m, int max_parts, const DeviceInfo& info);
std::vector<Tiles> bytes_choices(const UnitLayout& u, int64_t m, int max_parts, bool together,
                                 const DeviceInfo& info);
std::vector<Tiles> many_choices(const UnitLayout& u, const DeviceInfo& info);

// shipped_tiles.cpp. There the weights "byte.row" stand for "int8.row" and "e4m3.row".
const TileTable& shipped_tiles();

}  // namespace roundel::cuda
