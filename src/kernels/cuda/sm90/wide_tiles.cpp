// wide.h on the host: which problems, how much shared memory, which tiles.
#include <algorithm>

#include "kernels/cuda/common/launch.h"
#include "kernels/cuda/sm90/mark.h"
#include "kernels/cuda/sm90/tensor_map.h"
#include "kernels/cuda/sm90/tiles.h"

namespace roundel::cuda {

void launch_wide_int4(const WideArgs& a, int width, const WideTiles& tiles, const CUtensorMap& x,
                      const CUtensorMap& w, size_t shared_bytes, DeviceStream stream);
void launch_wide_bytes(const WideArgs& a, int width, const WideTiles& tiles, const CUtensorMap& x,
                       const CUtensorMap& w, size_t shared_bytes, DeviceStream stream);

void launch_wide_groups(const WideArgs& a, int width, const WideTiles& tiles, const CUtensorMap& x,
                        const CUtensorMap& w, size_t shared_bytes, DeviceStream stream);

int wide_width(int64_t m) {
  return m <= 16 ? 16 : m <= 32 ? 32 : 64;
}

bool wide_weights(const UnitLayout& u) {
  if (u.bits == 8) return u.rows && !u.blocks;
  return (u.sets == 1 || u.sets == 2) && !u.wide_scale;
}

namespace {

bool usual(const UnitLayout& u) {
  return u.rows || (u.sets == 1 && !u.zero);
}

}  // namespace

bool wide_shape(const UnitLayout& u, bool gated) {
  return wide_weights(u) && (gated ? u.n / 2 : u.n) % 4 == 0 && (!gated || u.n % 16 == 0);
}

bool wide_fits(const UnitLayout& u, const DeviceLinearArgs& a) {
  return wide_shape(u, a.gated) && a.x && a.ldx % 8 == 0 && reinterpret_cast<uintptr_t>(a.x) % 16 == 0 &&
         a.ldy % 4 == 0;
}

size_t wide_shared_bytes(const UnitLayout& u, int64_t m, const WideTiles& t) {
  const int64_t tiles = int64_t{t.groups} * 4, width = wide_width(m);
  const int64_t ring = t.stages * (t.units * (width * 256 + tiles * u.unit_bytes) + (tiles + 2) * 8);
  return static_cast<size_t>(1024 + std::max(ring, width * (tiles * 16 + 4) * 4));
}

bool wide_joins(const UnitLayout& u, int64_t m, const WideTiles& t, size_t space, const DeviceInfo& info) {
  const int64_t row_blocks = (u.units_n + t.groups * 4 - 1) / (t.groups * 4);
  const auto room = static_cast<int64_t>((info.shared_memory + 1024) / (wide_shared_bytes(u, m, t) + 1024));
  const int64_t bytes = t.splits * (m * u.n * 4 + t.splits * u.units_n * 8) + 512;
  return static_cast<int64_t>(space) >= bytes &&
         row_blocks * t.splits <=
             info.multiprocessors * std::min<int64_t>(wide_blocks(u.sets, wide_width(m), t.groups), room);
}

bool wide_tiles_exist(const UnitLayout& u, const WideTiles& t) {
  const int64_t per_split = (u.units_k + t.splits - 1) / t.splits;
  if ((t.splits - 1) * per_split >= u.units_k) return false;  // one would have nothing
  if (!usual(u)) return t.units == 1 && t.groups == 2;
  return t.units == 1 ? t.groups == 2 : per_split % 2 == 0 && u.units_k % 2 == 0;
}

namespace {

// Rough time in us: what the busiest multiprocessor brings in, and writing and reading the parts.
double estimate(const UnitLayout& u, int64_t m, const WideTiles& t, int sms) {
  const int64_t tiles = int64_t{t.groups} * 4;
  const int64_t blocks = (u.units_n + tiles - 1) / tiles * t.splits, turns = (blocks + sms - 1) / sms;
  const int64_t steps = (u.units_k + t.splits - 1) / t.splits;
  const double bytes =
      static_cast<double>(turns * steps * (tiles * u.unit_bytes + wide_width(m) * 256 * 2 / 3));
  return bytes / 33e3 + static_cast<double>(t.splits * m * u.n * 8) / 4e6 + 0.1 * t.splits +
         0.3 * static_cast<double>(turns);
}

}  // namespace

WideTiles choose_wide_tiles(const UnitLayout& u, int64_t m, int max_parts, const DeviceInfo& info) {
  if (const TileRow* row = measured_wide(u, m, max_parts, info).row) return wide_tiles(row->tiles);
  WideTiles best;
  double best_time = 1e30;
  for (const int units : {2, 1})
    for (const int groups : {4, 2, 1})
      for (const int splits : {1, 2, 4, 8}) {
        WideTiles t{groups, 8, splits, units};
        if (splits > max_parts || splits * 2 > std::max<int64_t>(u.units_k, 2) || !wide_tiles_exist(u, t))
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
  w.units_k = static_cast<int>(u.units_k);
  w.units_n = static_cast<int>(u.units_n);
  w.units_per_split = (w.units_k + t.splits - 1) / t.splits;
  w.stages = t.stages;
  w.row_scales = u.row_scales;
  w.sets = static_cast<int>(u.sets);
  w.zero = u.zero;
  w.m = static_cast<int>(a.m);
  w.n = static_cast<int>(u.n);
  w.k = static_cast<int>(u.k);
  w.bias = a.bias;
  w.y = a.y;
  w.ldy = a.ldy;
  w.part_stride = a.part_stride;
  w.y_bf16 = a.y_bf16;
  w.gated = a.gated;
  if (t.splits > a.max_parts) {
    Workspace space(a.workspace, a.workspace_bytes);
    w.sums = static_cast<float*>(space.take(static_cast<size_t>(t.splits * a.m * u.n) * 4));
    w.ready = static_cast<uint64_t*>(space.take(static_cast<size_t>(t.splits * t.splits * u.units_n) * 8));
    w.mark = launch_mark();
  }
  const int width = wide_width(a.m);
  const CUtensorMap x = describe_rows(a.x, MapType::kBF16, a.m, u.k, a.ldx * 2, width);
  const CUtensorMap bytes = u.rows ? describe_rows(packed, MapType::kBytes, u.units_n * kUnitRows,
                                                   row_bytes(u), row_bytes(u), kUnitRows)
                                   : CUtensorMap{};
  (!usual(u) ? launch_wide_groups
   : u.rows  ? launch_wide_bytes
             : launch_wide_int4)(w, width, t, x, bytes, wide_shared_bytes(u, a.m, t), stream);
}

}  // namespace roundel::cuda
