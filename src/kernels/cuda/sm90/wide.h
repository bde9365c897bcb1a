// Linears of up to 64 tokens over 4-bit units by warpgroup products (wide.cu): tiles, arguments, the choice of tiles.
#pragma once
#include "kernels/api/device_linear.h"
#include "kernels/cuda/common/layout.h"

namespace roundel::cuda {

// A block of threads takes 64 rows for each of `groups` warpgroups (1, 2 or 4), `splits` blocks share the columns;
// stages of 128 columns in flight.
struct WideTiles {
  int groups = 2, stages = 4, splits = 1;
};

struct WideArgs {
  const uint8_t* packed = nullptr;
  int units_k = 0, units_n = 0, units_per_split = 0, stages = 0;
  int m = 0, n = 0, k = 0;
  const float* bias = nullptr;
  void* y = nullptr;
  int64_t ldy = 0, part_stride = 0;
  bool y_bf16 = false, gated = false;
};

constexpr int kWideUnitBytes = 1024 + 32;  // one BF16 scale for each row of a unit

// 4 bits, symmetric, one BF16 scale for a multiple of 128 columns.
bool wide_weights(const UnitLayout& u);
// bf16 activations, and rows that the copy engine can reach.
bool wide_fits(const UnitLayout& u, const DeviceLinearArgs& a);
int wide_width(int64_t m);  // tokens of a tile: 8, 16, 32 or 64
size_t wide_shared_bytes(int64_t m, const WideTiles& tiles);
WideTiles choose_wide_tiles(const UnitLayout& u, int64_t m, int max_parts, const DeviceInfo& info);
void run_wide(const UnitLayout& u, const uint8_t* packed, const DeviceLinearArgs& a, const WideTiles& tiles,
              DeviceStream stream);

// wide.cu
void launch_wide(const WideArgs& a, const uint16_t* x, int64_t ldx, int width, const WideTiles& tiles,
                 size_t shared_bytes, DeviceStream stream);

}  // namespace roundel::cuda
