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

enum class WideCode : uint8_t { kInt4, kInt8, kE4M3 };

struct WideArgs {
  WideCode code = WideCode::kInt4;
  const uint8_t* packed = nullptr;
  int units_k = 0 /* runs of 128 columns */, units_n = 0, units_per_split = 0, stages = 0;
  int m = 0, n = 0, k = 0;
  int64_t row_scales = 0;  // of bytes
  const float* x_scale = nullptr;
  int64_t x_scale_stride = 0;  // between tokens
  const float* bias = nullptr;
  void* y = nullptr;
  int64_t ldy = 0, part_stride = 0;
  bool y_bf16 = false, gated = false;
};

constexpr int kWideUnitBytes = 1024 + 32;  // one BF16 scale for each row of a unit

// 4 bits, symmetric, one BF16 scale for a multiple of 128 columns; or bytes, symmetric, one scale a row.
bool wide_weights(const UnitLayout& u);
bool wide_tiles_exist(const UnitLayout& u, const WideTiles& tiles);
// bf16 activations, of bytes x16 with one scale a token, and rows that the copy engine can reach.
bool wide_fits(const UnitLayout& u, const DeviceLinearArgs& a);
int wide_width(int64_t m);  // tokens of a tile: 16, 32 or 64
size_t wide_shared_bytes(const UnitLayout& u, int64_t m, const WideTiles& tiles);
WideTiles choose_wide_tiles(const UnitLayout& u, int64_t m, int max_parts, const DeviceInfo& info);
void run_wide(const UnitLayout& u, const uint8_t* packed, const DeviceLinearArgs& a, const WideTiles& tiles,
              DeviceStream stream);

// wide.cu
void launch_wide(const WideArgs& a, const uint16_t* x, int64_t ldx, int width, const WideTiles& tiles,
                 size_t shared_bytes, DeviceStream stream);

}  // namespace roundel::cuda
