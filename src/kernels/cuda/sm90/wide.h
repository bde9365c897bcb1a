// Linears of up to 64 tokens over units by warpgroup products (wide.cuh): tiles, arguments, the choice of tiles.
#pragma once
#include "kernels/api/device_linear.h"
#include "kernels/cuda/common/layout.h"

namespace roundel::cuda {

// A block of threads takes 64 rows for each of `groups` warpgroups (1, 2 or 4), `splits` blocks share the columns;
// stages of `units` runs of 128 columns in flight: 2, or 1 with 2 groups.
struct WideTiles {
  int groups = 2, stages = 4, splits = 1, units = 2;
};

// Blocks that a multiprocessor has registers for.
constexpr int wide_blocks(int64_t sets, int width, int groups) {
  return sets == 2 && width == 64 ? 1 : 4 / groups;
}

enum class WideCode : uint8_t { kInt4, kInt8, kE4M3 };

struct WideArgs {
  WideCode code = WideCode::kInt4;
  const uint8_t* packed = nullptr;
  int units_k = 0 /* runs of 128 columns */, units_n = 0, units_per_split = 0, stages = 0;
  int m = 0, n = 0, k = 0;
  int64_t row_scales = 0;  // of bytes
  int sets = 1;            // of 4-bit codes
  bool zero = false;
  const float* bias = nullptr;
  void* y = nullptr;
  int64_t ldy = 0, part_stride = 0;
  bool y_bf16 = false, gated = false;
  // Blocks that share rows leave no parts but y, when `ready` is given: their sums (splits,M,N), and from each block of a
  // row for each other `mark`, of this launch alone.
  float* sums = nullptr;
  uint64_t* ready = nullptr;
  uint64_t mark = 0;
};

// 4 bits, a BF16 scale for 64 or a multiple of 128 columns; or plain rows of bytes.
bool wide_weights(const UnitLayout& u);
bool wide_tiles_exist(const UnitLayout& u, const WideTiles& tiles);
bool wide_shape(const UnitLayout& u, bool gated);  // weights and rows of y that it can do
// The same, and bf16 activations, in rows that the copy engine can reach.
bool wide_fits(const UnitLayout& u, const DeviceLinearArgs& a);
int wide_width(int64_t m);  // tokens of a tile: 16, 32 or 64
size_t wide_shared_bytes(const UnitLayout& u, int64_t m, const WideTiles& tiles);
// Whether blocks that share rows can leave a whole result: they wait for one another, so all must run together, and
// need `space` bytes for their sums.
bool wide_joins(const UnitLayout& u, int64_t m, const WideTiles& tiles, size_t space, const DeviceInfo& info);
WideTiles choose_wide_tiles(const UnitLayout& u, int64_t m, int max_parts, const DeviceInfo& info);
// More splits than a.max_parts: they join.
void run_wide(const UnitLayout& u, const uint8_t* packed, const DeviceLinearArgs& a, const WideTiles& tiles,
              DeviceStream stream);

}  // namespace roundel::cuda
