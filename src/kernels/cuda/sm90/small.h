// Linears of few tokens over packed units: what the kernel's launcher, its choice of tiles and the bench share.
#pragma once
#include "kernels/api/device_linear.h"
#include "kernels/cuda/common/layout.h"

namespace roundel::cuda {

// How the weight is divided: a warp takes row_tiles blocks of 16 rows, a block of threads warps_n warps along the rows
// and warps_k along the columns, `splits` blocks share the columns; stages: units in flight for each warp.
struct SmallTiles {
  int row_tiles = 1, warps_n = 1, warps_k = 8, stages = 4, splits = 1;
};

struct SmallArgs {
  const uint8_t* packed = nullptr;
  int unit_bytes = 0, units_k = 0, units_n = 0;
  int64_t row_scales = 0, row_zeros = 0;
  int m = 0, n = 0, k = 0;
  const uint16_t* x = nullptr;  // bf16, or:
  int64_t ldx = 0, x_low = 0;   // x_low: of up to 8 tokens
  const uint16_t* x16 = nullptr;
  const float* x_scale = nullptr;
  int64_t ld16 = 0;
  const float* residual = nullptr;  // or floats to be normalized first (one token)
  const float* gain = nullptr;
  float eps = 0;
  const float* bias = nullptr;
  void* y = nullptr;
  int64_t ldy = 0, y_low = 0, part_stride = 0;
  bool y_bf16 = false, gated = false, add = false;
  int warps_n = 0, warps_k = 0, stages = 0, units_per_split = 0;
  int x_row_bytes = 0;       // of a token in shared memory
  int chunks = 0;            // runs of 128 columns in a split
  uint32_t chunk_magic = 0;  // ceil(2^32 / chunks), for dividing by a multiplication; 0 when chunks is 1
};

constexpr int64_t kSmallMaxTokens = 64;
constexpr int64_t kSmallAtOnce = 32;  // of one launch

// Bytes of shared memory, or 0 when the tiles do not exist for this many tokens.
size_t small_shared_bytes(const UnitLayout& u, int64_t m, const SmallTiles& tiles);
// The tiles for a problem; splits at most max_parts.
SmallTiles choose_small_tiles(const UnitLayout& u, int64_t m, int max_parts, bool gated,
                              const DeviceInfo& info);
bool small_tiles_exist(const UnitLayout& u, int64_t m, int row_tiles);
void run_small(const UnitLayout& u, const uint8_t* packed, const DeviceLinearArgs& a, const SmallTiles& tiles,
               DeviceStream stream);

}  // namespace roundel::cuda
