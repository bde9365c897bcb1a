// Linears of up to 64 tokens over plain rows of bytes, whose activations are codes of a byte too: E4M3 by E4M3, int8 by
// int8 (bytes.cuh): tiles, arguments, the choice of tiles.
#pragma once
#include "kernels/api/device_linear.h"
#include "kernels/cuda/common/layout.h"

namespace roundel::cuda {

// A block of threads takes 2 * `rows` rows of the weight (rows: 32, 64, 96, 112 or 128), `splits` blocks share the
// columns; stages of 128 columns in flight.
struct BytesTiles {
  int rows = 64, stages = 4, splits = 1;
};

// Blocks that a multiprocessor has registers for.
constexpr int bytes_blocks(int rows) {
  return rows <= 32 ? 4 : rows <= 64 ? 2 : 1;
}

struct BytesArgs {
  const float* row_scales = nullptr;
  const float* token_scale = nullptr;
  const float* bias = nullptr;
  void* y = nullptr;
  int64_t ldy = 0, y_low = 0, part_stride = 0;
  bool y_bf16 = false, gated = false;
  int m = 0, n = 0, runs = 0 /* of 128 columns */, runs_per_split = 0, stages = 0;
  int token_rows = 0;  // m, up to a multiple of 8
  // Of blocks: row_scales are (blocks of 128 rows, w_scale_ld), token_scale (runs, x_scale_ld).
  int w_scale_ld = 0, x_scale_ld = 0;
  DeviceForm form;  // of the gated result, when not kNone
  uint8_t* x8 = nullptr;
  int64_t ld8 = 0;
  float* x8_scale = nullptr;
  uint32_t* counters = nullptr;
};

// Whether these activations can be multiplied: codes of a byte, an even number of rows.
bool bytes_fit(const UnitLayout& u, const DeviceLinearArgs& a);
// Whether all blocks, of results in one part, run at the same time.
bool bytes_run_together(const UnitLayout& u, int64_t m, const BytesTiles& tiles, const DeviceInfo& info);
// Whether the gated result can be rounded to whole tokens' scales at once: all blocks must run together.
bool bytes_round_gate(const UnitLayout& u, const DeviceForm& form, int64_t m, const DeviceInfo& info);
size_t bytes_shared_bytes(int64_t m, const BytesTiles& tiles);
bool bytes_tiles_exist(const UnitLayout& u, const BytesTiles& tiles);
BytesTiles choose_bytes_tiles(const UnitLayout& u, int64_t m, int max_parts, const DeviceInfo& info);
void run_bytes(const UnitLayout& u, const uint8_t* packed, const DeviceLinearArgs& a, const BytesTiles& tiles,
               DeviceStream stream);

}  // namespace roundel::cuda
