// Linears of more than 64 tokens of bf16 over units of 4-bit codes and plain rows of bytes (many.cuh): tiles, arguments, the
// choice of tiles.
#pragma once
#include "kernels/api/device_linear.h"
#include "kernels/cuda/common/layout.h"

namespace roundel::cuda {

// A block of threads makes results of 128 * `tiles` rows of the weight and `tokens` tokens (1 and 128, 2 and 128, or 1 and
// 256); stages of 128 columns in flight.
struct ManyTiles {
  int tiles = 2, tokens = 128, stages = 4;
};

struct ManyArgs {
  const uint8_t* packed = nullptr;
  int units_k = 0 /* runs of 128 columns */, units_n = 0, stages = 0, buffers = 0;
  int m = 0, n = 0;
  // Tiles of results: `row_blocks` by `token_tiles`, `band` tiles of tokens after one another. Either `pieces` blocks share
  // each tile, `span` runs each; or each block takes `span` runs of the first `split_tiles`, and whole tiles of the rest.
  int row_blocks = 0, token_tiles = 0, band = 0, pieces = 1, split_tiles = 0, span = 0;
  const float* row_scales = nullptr;  // of bytes
  const float* bias = nullptr;
  void* y = nullptr;
  int64_t ldy = 0;
  bool y_bf16 = false, gated = false;
  bool staged = false;        // the copy engine can write y
  float* sums = nullptr;      // of parts of tiles, one for each block
  uint64_t* ready = nullptr;  // (blocks,4): `mark` when they are there for a reader
  uint64_t mark = 0;          // of this launch alone
};

// 4 bits with a BF16 scale for 32, 64 or a multiple of 128 columns; bytes with one scale a row.
bool many_weights(const UnitLayout& u);
// These, of a size that the kernel can count.
bool many_shape(const UnitLayout& u);
// bf16 activations in rows that the copy engine can reach; a gated result in rows that can be written whole.
bool many_fits(const UnitLayout& u, const DeviceLinearArgs& a);
bool many_tiles_exist(const UnitLayout& u, const ManyTiles& tiles, const DeviceInfo& info);
size_t many_workspace();
ManyTiles choose_many_tiles(const UnitLayout& u, int64_t m, const DeviceInfo& info);
void run_many(const UnitLayout& u, const uint8_t* packed, const DeviceLinearArgs& a, const ManyTiles& tiles,
              const DeviceInfo& info, DeviceStream stream);

}  // namespace roundel::cuda
