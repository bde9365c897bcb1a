// wide.h on the host: which problems, how much shared memory, which tiles.
#include <algorithm>
#include <span>

#include "kernels/cuda/sm90/wide.h"

namespace roundel::cuda {

int wide_width(int64_t m) {
  return m <= 16 ? 16 : m <= 32 ? 32 : 64;
}

bool wide_weights(const UnitLayout& u) {
  if (u.bits == 8) return u.sets == 0 && !u.zero;
  return u.sets == 1 && !u.zero && !u.wide_scale;
}

namespace {

int64_t runs_k(const UnitLayout& u) {  // of 128 columns
  return u.bits == 8 ? u.units_k / 2 : u.units_k;
}
int64_t run_bytes(const UnitLayout& u) {  // of 16 rows
  return u.bits == 8 ? 2 * kUnitCodeBytes : kWideUnitBytes;
}

}  // namespace

bool wide_fits(const UnitLayout& u, const DeviceLinearArgs& a) {
  const int64_t y_columns = a.gated ? u.n / 2 : u.n;
  const void* x = u.bits == 8 ? a.x16 : a.x;
  const int64_t ldx = u.bits == 8 ? a.ld16 : a.ldx;
  return wide_weights(u) && x && (u.bits == 4 || a.one_scale) && ldx % 8 == 0 &&
         reinterpret_cast<uintptr_t>(x) % 16 == 0 && y_columns % 4 == 0 && a.ldy % 4 == 0 &&
         (!a.gated || u.n % 16 == 0);
}

size_t wide_shared_bytes(const UnitLayout& u, int64_t m, const WideTiles& t) {
  const int64_t tiles = int64_t{t.groups} * 4, width = wide_width(m);
  const int64_t ring = t.stages * (t.units * (width * 256 + tiles * run_bytes(u)) + (tiles + 2) * 8);
  return static_cast<size_t>(1024 + std::max(ring, width * (tiles * 16 + 4) * 4));
}

bool wide_tiles_exist(const UnitLayout& u, const WideTiles& t) {
  const int64_t per_split = (runs_k(u) + t.splits - 1) / t.splits;
  if ((t.splits - 1) * per_split >= runs_k(u)) return false;  // one would have nothing
  return t.units == 1 ? t.groups == 2 : per_split % 2 == 0 && runs_k(u) % 2 == 0;
}

namespace {

// Measured on an H200 (docs/results/cuda.md): the best of each for up to `m` tokens.
struct Measured {
  int64_t n, k, m;
  WideTiles tiles;
};
constexpr Measured kMeasured[] = {
    {6144, 4096, 64, {2, 2, 4, 2}},  {4096, 4096, 16, {1, 2, 8, 2}},  {4096, 4096, 64, {2, 2, 8, 1}},
    {28672, 4096, 32, {2, 3, 1, 2}}, {28672, 4096, 64, {4, 3, 1, 2}}, {4096, 14336, 16, {1, 3, 8, 2}},
    {4096, 14336, 32, {1, 2, 8, 2}}, {4096, 14336, 64, {2, 2, 8, 1}},
};
constexpr Measured kMeasuredBytes[] = {
    {6144, 4096, 16, {1, 3, 4, 2}},  {6144, 4096, 64, {2, 3, 2, 2}},  {4096, 4096, 64, {2, 3, 4, 2}},
    {28672, 4096, 16, {4, 3, 1, 2}}, {28672, 4096, 32, {2, 2, 1, 2}}, {28672, 4096, 64, {2, 3, 1, 2}},
    {4096, 14336, 32, {2, 4, 4, 2}}, {4096, 14336, 64, {2, 3, 4, 2}},
};

// Rough time in us: what the busiest multiprocessor brings in, and writing and reading the parts.
double estimate(const UnitLayout& u, int64_t m, const WideTiles& t, int sms) {
  const int64_t tiles = int64_t{t.groups} * 4;
  const int64_t blocks = (u.units_n + tiles - 1) / tiles * t.splits, turns = (blocks + sms - 1) / sms;
  const int64_t steps = (runs_k(u) + t.splits - 1) / t.splits;
  const double bytes =
      static_cast<double>(turns * steps * (tiles * run_bytes(u) + wide_width(m) * 256 * 2 / 3));
  return bytes / 33e3 + static_cast<double>(t.splits * m * u.n * 8) / 4e6 + 0.1 * t.splits +
         0.3 * static_cast<double>(turns);
}

}  // namespace

WideTiles choose_wide_tiles(const UnitLayout& u, int64_t m, int max_parts, const DeviceInfo& info) {
  for (const Measured& known : u.bits == 4 ? std::span<const Measured>(kMeasured) : kMeasuredBytes)
    if (known.n == u.n && known.k == u.k && m <= known.m && known.tiles.splits <= max_parts)
      return known.tiles;
  WideTiles best;
  double best_time = 1e30;
  for (const int units : {2, 1})
    for (const int groups : {4, 2, 1})
      for (const int splits : {1, 2, 4, 8}) {
        WideTiles t{groups, 8, splits, units};
        if (splits > max_parts || splits * 2 > std::max<int64_t>(runs_k(u), 2) || !wide_tiles_exist(u, t))
          continue;
        const size_t room = info.shared_memory / static_cast<size_t>(groups == 4 ? 1 : groups == 2 ? 2 : 3);
        while (t.stages > 2 && wide_shared_bytes(u, m, t) > room - 1024) --t.stages;
        const double time = estimate(u, m, t, info.multiprocessors) * (units == 1 ? 1.2 : 1);
        if (time < best_time) best_time = time, best = t;
      }
  return best;
}

void run_wide(const UnitLayout& u, const uint8_t* packed, const DeviceLinearArgs& a, const WideTiles& t,
              DeviceStream stream) {
  WideArgs w;
  w.code = u.bits == 4 ? WideCode::kInt4 : u.e4m3 ? WideCode::kE4M3 : WideCode::kInt8;
  w.packed = packed;
  w.units_k = static_cast<int>(runs_k(u));
  w.units_n = static_cast<int>(u.units_n);
  w.units_per_split = (w.units_k + t.splits - 1) / t.splits;
  w.stages = t.stages;
  w.row_scales = u.row_scales;
  w.x_scale = a.x_scale;
  w.x_scale_stride = a.ld16 / kScaleColumns;
  w.m = static_cast<int>(a.m);
  w.n = static_cast<int>(u.n);
  w.k = static_cast<int>(u.k);
  w.bias = a.bias;
  w.y = a.y;
  w.ldy = a.ldy;
  w.part_stride = a.part_stride;
  w.y_bf16 = a.y_bf16;
  w.gated = a.gated;
  const bool bytes = u.bits == 8;
  launch_wide(w, static_cast<const uint16_t*>(bytes ? a.x16 : a.x), bytes ? a.ld16 : a.ldx, wide_width(a.m),
              t, wide_shared_bytes(u, a.m, t), stream);
}

}  // namespace roundel::cuda
