// sm90_units: quantized weights on Hopper. Few tokens go to small.cuh, wide.cuh and bytes.cuh; many tokens of bf16 to
// many.cuh, of bytes to cuBLASLt; the rest through bf16 rows and cuBLASLt.
#include <algorithm>

#include "base/error.h"
#include "kernels/cuda/common/launch.h"
#include "kernels/cuda/sm80/kernels.h"
#include "kernels/cuda/sm90/bytes.h"
#include "kernels/cuda/sm90/many.h"
#include "kernels/cuda/sm90/small.h"
#include "kernels/cuda/sm90/tensor_map.h"
#include "kernels/cuda/sm90/tiles.h"
#include "kernels/cuda/sm90/wide.h"

namespace roundel::cuda {

// small_int4.cu, small_byte.cu
void launch_small_int4(const UnitLayout& u, const SmallArgs& a, const SmallTiles& tiles,
                       const CUtensorMap& rows_of_bytes, size_t shared_bytes, DeviceStream stream);
void launch_small_byte(const UnitLayout& u, const SmallArgs& a, const SmallTiles& tiles,
                       const CUtensorMap& rows_of_bytes, size_t shared_bytes, DeviceStream stream);

namespace {

int token_tiles(int64_t m) {
  return m <= 8 ? 1 : m <= 16 ? 2 : m <= 32 ? 4 : 8;
}

int64_t units_per_split(const UnitLayout& u, int splits) {
  const int64_t pair = kScaleColumns / u.unit_k;  // whole runs of kScaleColumns
  return (u.units_k / pair + splits - 1) / splits * pair;
}

// Rows of tokens in shared memory start 16 bytes off a multiple of 128: eight tokens meet no bank twice.
int64_t x_row_bytes(int64_t columns) {
  return (columns * 2 + 127) / 128 * 128 + 16;
}

Support supports(const LinearProblem& p, const DeviceInfo& info) {
  if (info.major != 9) return {false, "needs compute capability 9.0 (Hopper)"};
  return units_support(p, info);
}

SmallTiles tiles_for(const LinearProblem& p, const DeviceLinearArgs& a, const DeviceInfo& info) {
  if (a.tiles) return small_tiles(*a.tiles);
  return choose_small_tiles(unit_layout(p), a.m, a.y_bf16 || a.gated || a.add || a.residual ? 1 : a.max_parts,
                            a.gated, info);
}

// Tokens [first, first + count) of the arguments.
DeviceLinearArgs rows_of(const DeviceLinearArgs& a, int64_t first, int64_t count) {
  DeviceLinearArgs part = a;
  part.m = count;
  if (a.x) part.x = static_cast<const uint16_t*>(a.x) + first * a.ldx;
  if (a.x16) part.x16 = static_cast<const uint16_t*>(a.x16) + first * a.ld16;
  if (a.x_scale) part.x_scale = a.x_scale + first * (a.ld16 / kScaleColumns);
  part.y = static_cast<uint8_t*>(a.y) + first * a.ldy * (a.y_bf16 || a.gated ? 2 : 4);
  return part;
}

// Tokens from which on wgmma is the faster way.
constexpr int64_t kWideFrom = 9;

bool goes_wide(const UnitLayout& u, int64_t m) {
  return m >= kWideFrom && m <= kSmallMaxTokens && wide_weights(u);
}
bool wants_x16(const LinearProblem& p, int64_t m) {
  return m > 1 && !unit_layout(p).blocks && m <= kSmallMaxTokens && !goes_wide(unit_layout(p), m);
}

// Codes of a byte by codes of a byte: bytes.cuh up to kSmallTokens tokens, then cuBLASLt.
bool takes_bytes(const LinearProblem& p, const DeviceForm& form, int64_t m, const DeviceInfo& info) {
  return takes_codes(p, form) && (m <= kSmallMaxTokens ? p.n % 16 == 0 : units_take_bytes(p, form, m, info));
}
bool rounds_gate(const LinearProblem& p, const DeviceForm& form, int64_t m, const DeviceInfo& info) {
  return m <= kSmallMaxTokens && bytes_round_gate(unit_layout(p), form, m, info);
}

bool fuses_gate(const LinearProblem& p, TileUse::Input input, int64_t m, const DeviceInfo& info) {
  using Input = TileUse::Input;
  const UnitLayout u = unit_layout(p);
  if (p.n % 16 != 0) return false;
  if (input == Input::kBytes) return m <= kSmallMaxTokens;
  if (m > kSmallMaxTokens) return input == Input::kBF16 && many_weights(u);
  if (input == Input::kBF16 && goes_wide(u, m)) return wide_shape(u, true);
  return choose_small_tiles(u, std::min(m, kSmallAtOnce), 1, true, info).stages > 0;
}

size_t workspace(const LinearProblem& p, int64_t m, bool bytes) {
  if (!bytes && m > kSmallMaxTokens && many_shape(unit_layout(p))) return many_workspace();
  return unpacked_workspace(p, m, bytes);
}

// A block reads all of a token's residual, so only one token's.
bool fuses_norm(const LinearProblem& p, int64_t m, const DeviceInfo& info) {
  return m == 1 && p.k % 8 == 0 && choose_small_tiles(unit_layout(p), m, 1, false, info).stages > 0;
}
bool adds(const LinearProblem& p, int64_t m, const DeviceInfo& info) {
  return m == 1 && choose_small_tiles(unit_layout(p), m, 1, false, info).stages > 0;
}

bool takes_terms(const LinearProblem& p, int64_t m, const DeviceInfo& info) {
  return adds(p, m, info);
}

// Where blocks that share rows can join their results, a whole one is made as parts are.
struct WideChoice {
  WideTiles tiles;
  int parts = 1;
};
WideChoice choose_wide(const UnitLayout& u, int64_t m, int parts, bool gated, size_t space,
                       const DeviceInfo& info) {
  if (parts == 1 && !gated) {
    const WideTiles joined = choose_wide_tiles(u, m, kMostParts, info);
    if (wide_joins(u, m, joined, space, info)) return {joined, kMostParts};
  }
  return {choose_wide_tiles(u, m, parts, info), parts};
}

int run(const LinearProblem& p, const uint8_t* packed, const DeviceLinearArgs& a, const DeviceInfo& info,
        DeviceStream stream) {
  CHECK(a.x_low == 0 || takes_terms(p, a.m, info));
  if (a.m <= kSmallMaxTokens) {
    const UnitLayout u = unit_layout(p);
    if (a.x8) {
      CHECK(bytes_fit(u, a));
      const BytesTiles tiles = a.tiles
                                   ? bytes_tiles(*a.tiles)
                                   : choose_bytes_tiles(u, a.m, a.y_bf16 || a.gated ? 1 : a.max_parts, info);
      run_bytes(u, packed, a, tiles, stream);
      return tiles.splits;
    }
    if (goes_wide(u, a.m) && a.y_low == 0 && wide_fits(u, a)) {
      DeviceLinearArgs part = a;
      if (a.y_bf16 || a.gated) part.max_parts = 1;
      const WideTiles tiles =
          a.tiles ? wide_tiles(*a.tiles)
                  : choose_wide(u, a.m, part.max_parts, a.gated, a.workspace_bytes, info).tiles;
      run_wide(u, packed, part, tiles, stream);
      return std::min(tiles.splits, part.max_parts);
    }
    DeviceLinearArgs part = a;  // 32 tokens at a time
    part.m = std::min(a.m, kSmallAtOnce);
    const SmallTiles tiles = tiles_for(p, part, info);
    for (int64_t first = 0; tiles.stages > 0 && first < a.m; first += part.m) {
      run_small(u, packed, rows_of(a, first, std::min(a.m - first, part.m)), tiles, stream);
      if (first + part.m >= a.m) return tiles.splits;
    }
  }
  if (const UnitLayout u = unit_layout(p); a.m > kSmallMaxTokens && many_fits(u, a)) {
    run_many(u, packed, a, a.tiles ? many_tiles(*a.tiles) : choose_many_tiles(u, a.m, info), info, stream);
    return 1;
  }
  CHECK(!a.gated && !a.residual && !a.add);
  return multiply_units(p, packed, a, info, stream);
}

enum class Part { kNone, kSmall, kWide, kBytes, kMany };

int parts_of(const TileUse& use) {
  return use.whole || use.gated ? 1 : kMostParts;
}

// Which of the ways in run() a use takes.
Part part_for(const UnitLayout& u, const TileUse& use, const DeviceInfo& info) {
  if (use.m > kSmallMaxTokens)
    return use.input == TileUse::Input::kBF16 && many_weights(u) ? Part::kMany : Part::kNone;
  if (use.input == TileUse::Input::kBytes) return Part::kBytes;
  if (use.input == TileUse::Input::kBF16 && goes_wide(u, use.m) && wide_shape(u, use.gated))
    return Part::kWide;
  const int64_t m = std::min(use.m, kSmallAtOnce);
  return choose_small_tiles(u, m, parts_of(use), use.gated, info).stages > 0 ? Part::kSmall : Part::kNone;
}

TileChoice tile_choice(const LinearProblem& p, const TileUse& use, const DeviceInfo& info) {
  const UnitLayout u = unit_layout(p);
  const int parts = parts_of(use);
  const auto choice = [&](const char* kernel, int64_t m, const MeasuredTiles& measured, const auto& tiles) {
    return TileChoice{tile_key(kernel, u, m, parts == 1), numbers(tiles), measured.source};
  };
  const int64_t m = std::min(use.m, kSmallAtOnce);
  switch (part_for(u, use, info)) {
    case Part::kSmall:
      return choice(kSmallName, m, measured_small(u, m, parts, info),
                    choose_small_tiles(u, m, parts, use.gated, info));
    case Part::kWide: {
      const WideChoice wide = choose_wide(u, use.m, parts, use.gated, workspace(p, use.m, false), info);
      return {tile_key(kWideName, u, use.m, wide.parts == 1), numbers(wide.tiles),
              measured_wide(u, use.m, wide.parts, info).source};
    }
    case Part::kBytes:
      return choice(kBytesName, use.m, measured_bytes(u, use.m, parts, info),
                    choose_bytes_tiles(u, use.m, parts, info));
    case Part::kMany:
      return {tile_key(kManyName, u, use.m, true), numbers(choose_many_tiles(u, use.m, info)),
              measured_many(u, use.m, info).source};
    case Part::kNone:
      break;
  }
  return {};
}

std::vector<Tiles> tile_choices(const LinearProblem& p, const TileUse& use, const DeviceInfo& info) {
  const UnitLayout u = unit_layout(p);
  const int parts = parts_of(use);
  switch (part_for(u, use, info)) {
    case Part::kSmall:
      return small_choices(u, std::min(use.m, kSmallAtOnce), parts, info);
    case Part::kWide: {
      const size_t space = workspace(p, use.m, false);
      const int most = choose_wide(u, use.m, parts, use.gated, space, info).parts;
      std::vector<Tiles> all = wide_choices(u, use.m, most, info);
      if (most > parts)
        std::erase_if(all, [&](const Tiles& t) { return !wide_joins(u, use.m, wide_tiles(t), space, info); });
      return all;
    }
    case Part::kBytes: {  // blocks that round the gate must not lose that
      const BytesTiles now = choose_bytes_tiles(u, use.m, 1, info);
      return bytes_choices(u, use.m, parts, use.gated && bytes_run_together(u, use.m, now, info), info);
    }
    case Part::kMany:
      return many_choices(u, info);
    case Part::kNone:
      break;
  }
  return {};
}

// Rough time in us of a choice: the busiest multiprocessor's share of the weight and of the activations, more when too
// little is on its way, and small costs of adding up.
double estimate(const UnitLayout& u, int64_t m, const SmallTiles& t, int sms, size_t shared_bytes) {
  const int64_t block_tiles = int64_t{t.row_tiles} * t.warps_n, warps = int64_t{t.warps_n} * t.warps_k;
  const int64_t blocks = (u.units_n + block_tiles - 1) / block_tiles * t.splits;
  const int64_t resident = std::clamp<int64_t>(
      std::min<int64_t>((220 << 10) / static_cast<int64_t>(shared_bytes + 1024), 20 / warps), 1, 8);
  const int64_t turns = (blocks + sms - 1) / sms;  // blocks that the busiest multiprocessor runs
  const double units = static_cast<double>(block_tiles * units_per_split(u, t.splits));
  const double read = static_cast<double>(turns) * units * static_cast<double>(u.unit_bytes) / 35e3;
  const double stage =
      static_cast<double>(turns * m * units_per_split(u, t.splits) * u.unit_k * 2) / (m > 1 ? 80e3 : 40e3);
  const double flight =
      static_cast<double>(std::min(resident, turns) * warps * t.stages * t.row_tiles * u.unit_bytes);
  const double thin = flight < 40e3 ? 40e3 / flight : 1;
  const double parts =
      static_cast<double>(t.splits * m * u.n * 8) / 4e6;  // written, and read by the next kernel
  return read * thin + stage + parts + 0.06 * t.splits + 0.05 * t.warps_k;
}

}  // namespace

bool small_tiles_exist(const UnitLayout& u, int64_t m, int row_tiles) {
  const int t = token_tiles(m);
  if (u.bits == 4 && u.sets == 1 && !u.zero && !u.wide_scale) {
    if (t == 1) return row_tiles <= 4 || row_tiles == 7;
    return t == 2 ? row_tiles <= 4 : t == 4 ? row_tiles <= 2 : row_tiles == 1;
  }
  if (u.rows && ((t == 1 && row_tiles == 4) || (t == 4 && row_tiles == 2))) return true;
  return row_tiles == 2 && t <= 2;
}

size_t small_shared_bytes(const UnitLayout& u, int64_t m, const SmallTiles& t) {
  const int64_t warps = t.warps_n * t.warps_k, columns = units_per_split(u, t.splits) * u.unit_k;
  const auto up = [](int64_t x) { return (x + 127) / 128 * 128; };
  const int64_t aligning = u.rows ? 2048 : 0;
  const int64_t ring = std::max(warps * t.stages * t.row_tiles * u.unit_bytes,
                                warps * t.row_tiles * 16 * token_tiles(m) * 8 * 4);
  return static_cast<size_t>(up(warps * t.stages * 8 + 8) + up((columns + 127) / 128 * token_tiles(m) * 32) +
                             up(m * x_row_bytes(columns)) + ring +
                             aligning);  // and 128 that the kernel has of its own
}

SmallTiles choose_small_tiles(const UnitLayout& u, int64_t m, int max_parts, bool, const DeviceInfo& info) {
  SmallTiles best;
  best.stages = 0;
  if (u.blocks) return best;  // codes by codes only
  if (const TileRow* row = measured_small(u, m, max_parts, info).row) return small_tiles(row->tiles);
  double best_time = 1e30;
  for (const int row_tiles : {1, 2, 3, 4, 7}) {
    if (!small_tiles_exist(u, m, row_tiles)) continue;
    for (const int warps_n : {1, 2, 4, 8})
      for (const int warps_k : {1, 2, 4, 8, 16}) {
        if (warps_n * warps_k < 4 || warps_n * warps_k > 16) continue;
        for (const int splits : {1, 2, 4, 8}) {
          if (splits > max_parts || (splits - 1) * units_per_split(u, splits) >= u.units_k) continue;
          for (const int stages : {2, 3, 4}) {
            const SmallTiles t{row_tiles, warps_n, warps_k, stages, splits};
            const size_t shared = small_shared_bytes(u, m, t);
            if (shared + 128 > info.shared_memory) continue;
            const double time = estimate(u, m, t, info.multiprocessors, shared);
            if (time < best_time) best_time = time, best = t;
          }
        }
      }
  }
  return best;
}

void run_small(const UnitLayout& u, const uint8_t* packed, const DeviceLinearArgs& a, const SmallTiles& t,
               DeviceStream stream) {
  SmallArgs s;
  s.packed = packed;
  s.unit_bytes = static_cast<int>(u.unit_bytes);
  s.units_k = static_cast<int>(u.units_k);
  s.units_n = static_cast<int>(u.units_n);
  s.row_scales = u.row_scales;
  s.row_zeros = u.row_zeros;
  s.m = static_cast<int>(a.m);
  s.n = static_cast<int>(u.n);
  s.k = static_cast<int>(u.k);
  s.x = static_cast<const uint16_t*>(a.x);
  s.ldx = a.ldx;
  s.x_low = a.x_low;
  s.x16 = static_cast<const uint16_t*>(a.x16);
  s.x_scale = a.x_scale;
  s.ld16 = a.ld16;
  s.residual = a.residual;
  s.gain = a.gain;
  s.eps = a.eps;
  s.add = a.add;
  s.bias = a.bias;
  s.y = a.y;
  s.ldy = a.ldy;
  s.y_low = a.y_low;
  s.part_stride = a.part_stride;
  s.y_bf16 = a.y_bf16;
  s.gated = a.gated;
  s.warps_n = t.warps_n;
  s.warps_k = t.warps_k;
  s.stages = t.stages;
  s.units_per_split = static_cast<int>(units_per_split(u, t.splits));
  s.x_row_bytes = static_cast<int>(x_row_bytes(s.units_per_split * u.unit_k));
  s.chunks = static_cast<int>(s.units_per_split * u.unit_k / kScaleColumns);
  s.chunk_magic = static_cast<uint32_t>(((uint64_t{1} << 32) + static_cast<uint64_t>(s.chunks) - 1) /
                                        static_cast<uint64_t>(s.chunks));
  const size_t shared = small_shared_bytes(u, a.m, t);
  const CUtensorMap rows = u.rows ? describe_rows(packed, MapType::kBytes, u.units_n * kUnitRows,
                                                  row_bytes(u), row_bytes(u), kUnitRows)
                                  : CUtensorMap{};
  (u.bits == 4 ? launch_small_int4 : launch_small_byte)(u, s, t, rows, shared, stream);
}

}  // namespace roundel::cuda

namespace roundel {
extern const DeviceLinearKernel kSm90Units = {
    "sm90_units_mma",  cuda::supports,    cuda::units_bytes, cuda::pack_units, cuda::unpack_unit_rows,
    cuda::fuses_gate,  cuda::rounds_gate, cuda::fuses_norm,  cuda::adds,       cuda::takes_terms,
    cuda::takes_bytes, cuda::wants_x16,   cuda::workspace,   cuda::run,        cuda::tile_choice,
    cuda::tile_choices};
}  // namespace roundel
