// bytes.h on the host: which problems, how much shared memory, which tiles.
#include <algorithm>

#include "kernels/cuda/sm90/tensor_map.h"
#include "kernels/cuda/sm90/tiles.h"

namespace roundel::cuda {

void launch_bytes_e4m3(const BytesArgs& a, const BytesTiles& tiles, const CUtensorMap& x,
                       const CUtensorMap& w, DeviceStream stream);
void launch_bytes_blocks(const BytesArgs& a, const BytesTiles& tiles, const CUtensorMap& x,
                         const CUtensorMap& w, DeviceStream stream);
void launch_bytes_int8(const BytesArgs& a, const BytesTiles& tiles, const CUtensorMap& x,
                       const CUtensorMap& w, DeviceStream stream);

namespace {

int64_t token_rows(int64_t m) {
  return (m + 7) / 8 * 8;
}
int64_t row_tiles(const UnitLayout& u, const BytesTiles& t) {
  return (u.n + 2 * t.rows - 1) / (2 * t.rows);
}

}  // namespace

bool bytes_fit(const UnitLayout& u, const DeviceLinearArgs& a) {
  return u.rows && a.x8 && a.ldx8 % 16 == 0 && reinterpret_cast<uintptr_t>(a.x8) % 16 == 0 && u.n % 2 == 0 &&
         a.ldy % 2 == 0 && (a.scale_ld != 0) == u.blocks && (!a.gated || u.n % 16 == 0);
}

bool bytes_run_together(const UnitLayout& u, int64_t m, const BytesTiles& t, const DeviceInfo& info) {
  const int64_t kept = 1024, fixed = 512;  // of each block: by the system, and declared in the kernel
  const int64_t room = (static_cast<int64_t>(info.shared_memory) + kept) /
                       (static_cast<int64_t>(bytes_shared_bytes(m, t)) + kept + fixed);
  return row_tiles(u, t) <= info.multiprocessors * std::min<int64_t>(bytes_blocks(t.rows), room);
}

bool bytes_round_gate(const UnitLayout& u, const DeviceForm& form, int64_t m, const DeviceInfo& info) {
  if (!u.rows || u.blocks || form.group != 0 || u.n % (2 * kScaleColumns) != 0) return false;
  using Kind = DeviceForm::Kind;
  if (form.kind != Kind::kE4M3 && form.kind != Kind::kInt8 &&
      !(form.kind == Kind::kInt8Static && form.zero_point == 0))
    return false;
  return bytes_run_together(u, m, choose_bytes_tiles(u, m, 1, info), info);
}

size_t bytes_shared_bytes(int64_t m, const BytesTiles& t) {
  const int64_t rows = token_rows(m);
  return static_cast<size_t>(1024 + t.stages * (int64_t{t.rows} * 256 + rows * 128 + 16) + (64 - rows) * 128);
}

bool bytes_tiles_exist(const UnitLayout& u, const BytesTiles& t) {
  const int64_t per_split = (u.units_k + t.splits - 1) / t.splits;
  const bool known = t.rows == 32 || t.rows == 64 || t.rows == 96 || t.rows == 112 || t.rows == 128;
  return known && (t.splits - 1) * per_split < u.units_k;
}

namespace {

// Rough time in us: what the busiest multiprocessor brings in, and writing and reading the parts.
double estimate(const UnitLayout& u, int64_t m, const BytesTiles& t, int sms) {
  const int64_t blocks = row_tiles(u, t) * t.splits, turns = (blocks + sms - 1) / sms;
  const int64_t runs = (u.units_k + t.splits - 1) / t.splits;
  const double bytes = static_cast<double>(turns * runs * 128 * (2 * t.rows + token_rows(m) / 4));
  return bytes / 35e3 + static_cast<double>(t.splits * m * u.n * 8) / 4e6 + 0.1 * t.splits +
         0.3 * static_cast<double>(turns);
}

}  // namespace

BytesTiles choose_bytes_tiles(const UnitLayout& u, int64_t m, int max_parts, const DeviceInfo& info) {
  if (const TileRow* row = measured_bytes(u, m, max_parts, info).row) return bytes_tiles(row->tiles);
  BytesTiles best;
  double best_time = 1e30;
  for (const int rows : {32, 64, 96, 112, 128})
    for (const int splits : {1, 2, 4, 8}) {
      BytesTiles t{rows, 8, splits};
      if (splits > max_parts || splits * 2 > std::max<int64_t>(u.units_k, 2) || !bytes_tiles_exist(u, t))
        continue;
      while (t.stages > 3 && bytes_shared_bytes(m, t) > info.shared_memory / 2 - 2048) --t.stages;
      const double time = estimate(u, m, t, info.multiprocessors);
      if (time < best_time) best_time = time, best = t;
    }
  return best;
}

void run_bytes(const UnitLayout& u, const uint8_t* packed, const DeviceLinearArgs& a, const BytesTiles& t,
               DeviceStream stream) {
  BytesArgs b;
  b.row_scales = reinterpret_cast<const float*>(packed + u.row_scales);
  b.token_scale = a.token_scale;
  b.bias = a.bias;
  b.y = a.y;
  b.ldy = a.ldy;
  b.y_low = a.y_low;
  b.part_stride = a.part_stride;
  b.y_bf16 = a.y_bf16;
  b.gated = a.gated;
  b.m = static_cast<int>(a.m);
  b.n = static_cast<int>(u.n);
  b.runs = static_cast<int>(u.units_k);
  b.runs_per_split = (b.runs + t.splits - 1) / t.splits;
  b.stages = t.stages;
  b.token_rows = static_cast<int>(token_rows(a.m));
  b.w_scale_ld = static_cast<int>(u.scale_row);
  b.x_scale_ld = static_cast<int>(a.scale_ld);
  b.form = a.form;
  b.x8 = a.codes.x8;
  b.ld8 = a.codes.ld8;
  b.x8_scale = a.codes.token_scale;
  b.counters = a.counters;
  const CUtensorMap x = describe_rows(a.x8, MapType::kBytes, a.m, row_bytes(u), a.ldx8, b.token_rows);
  const CUtensorMap w =
      describe_rows(packed, MapType::kBytes, u.units_n * kUnitRows, row_bytes(u), row_bytes(u), 2 * t.rows);
  const auto launch = u.blocks ? launch_bytes_blocks : u.e4m3 ? launch_bytes_e4m3 : launch_bytes_int8;
  launch(b, t, x, w, stream);
}

}  // namespace roundel::cuda
