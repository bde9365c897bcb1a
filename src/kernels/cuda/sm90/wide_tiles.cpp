// wide.h on the host: which problems, how much shared memory, which tiles.
#include <algorithm>

#include "kernels/cuda/sm90/wide.h"

namespace roundel::cuda {

int wide_width(int64_t m) {
  return m <= 8 ? 8 : m <= 16 ? 16 : m <= 32 ? 32 : 64;
}

bool wide_weights(const UnitLayout& u) {
  return u.bits == 4 && u.sets == 1 && !u.zero && !u.wide_scale;
}

bool wide_fits(const UnitLayout& u, const DeviceLinearArgs& a) {
  const int64_t y_columns = a.gated ? u.n / 2 : u.n;
  return wide_weights(u) && a.x && a.ldx % 8 == 0 && reinterpret_cast<uintptr_t>(a.x) % 16 == 0 &&
         y_columns % 4 == 0 && a.ldy % 4 == 0 && (!a.gated || u.n % 16 == 0);
}

size_t wide_shared_bytes(int64_t m, const WideTiles& t) {
  const int64_t tiles = int64_t{t.groups} * 4, width = wide_width(m);
  const int64_t ring = t.stages * (width * 256 + tiles * kWideUnitBytes + (tiles + 2) * 8);
  return static_cast<size_t>(1024 + std::max(ring, width * (tiles * 16 + 4) * 4));
}

namespace {

// Measured on an H200 (docs/results/cuda.md): the best of each for up to `m` tokens.
struct Measured {
  int64_t n, k, m;
  WideTiles tiles;
};
constexpr Measured kMeasured[] = {{0, 0, 0, {}}};

// Rough time in us: what the busiest multiprocessor brings in, and writing and reading the parts.
double estimate(const UnitLayout& u, int64_t m, const WideTiles& t, int sms) {
  const int64_t tiles = int64_t{t.groups} * 4;
  const int64_t blocks = (u.units_n + tiles - 1) / tiles * t.splits, turns = (blocks + sms - 1) / sms;
  const int64_t steps = (u.units_k + t.splits - 1) / t.splits;
  const double bytes =
      static_cast<double>(turns * steps * (tiles * kWideUnitBytes + wide_width(m) * 256 * 2 / 3));
  return bytes / 33e3 + static_cast<double>(t.splits * m * u.n * 8) / 4e6 + 0.1 * t.splits +
         0.3 * static_cast<double>(turns);
}

}  // namespace

WideTiles choose_wide_tiles(const UnitLayout& u, int64_t m, int max_parts, const DeviceInfo& info) {
  for (const Measured& known : kMeasured)
    if (known.n == u.n && known.k == u.k && m <= known.m && known.tiles.splits <= max_parts)
      return known.tiles;
  WideTiles best;
  double best_time = 1e30;
  for (const int groups : {4, 2, 1})
    for (const int splits : {1, 2, 4, 8}) {
      if (splits > max_parts || splits * 2 > std::max<int64_t>(u.units_k, 2)) continue;
      if ((splits - 1) * ((u.units_k + splits - 1) / splits) >= u.units_k) continue;  // an empty one
      WideTiles t{groups, 8, splits};
      const size_t room = info.shared_memory / static_cast<size_t>(groups == 4 ? 1 : groups == 2 ? 2 : 3);
      while (t.stages > 2 && wide_shared_bytes(m, t) > room - 1024) --t.stages;
      const double time = estimate(u, m, t, info.multiprocessors);
      if (time < best_time) best_time = time, best = t;
    }
  return best;
}

void run_wide(const UnitLayout& u, const uint8_t* packed, const DeviceLinearArgs& a, const WideTiles& t,
              DeviceStream stream) {
  WideArgs w;
  w.packed = packed;
  w.units_k = static_cast<int>(u.units_k);
  w.units_n = static_cast<int>(u.units_n);
  w.units_per_split = (w.units_k + t.splits - 1) / t.splits;
  w.stages = t.stages;
  w.m = static_cast<int>(a.m);
  w.n = static_cast<int>(u.n);
  w.k = static_cast<int>(u.k);
  w.bias = a.bias;
  w.y = a.y;
  w.ldy = a.ldy;
  w.part_stride = a.part_stride;
  w.y_bf16 = a.y_bf16;
  w.gated = a.gated;
  launch_wide(w, static_cast<const uint16_t*>(a.x), a.ldx, wide_width(a.m), t, wide_shared_bytes(a.m, t),
              stream);
}

}  // namespace roundel::cuda
