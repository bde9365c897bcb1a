// y[M,N] = x[M,K] . w[N,K]^T on a GPU: what a kernel offers. All pointers are device memory.
//
//   const DeviceLinearKernel& kernel = choose_device_linear(problem, gpu.info());
//   DeviceBuffer packed(gpu, kernel.packed_bytes(problem), "weights");
//   kernel.pack(problem, rows, packed.data(), gpu.stream());
//   int parts = kernel.run(problem, packed.data(), args, gpu.info(), gpu.stream());
#pragma once
#include <cstddef>
#include <cstdint>

#include "kernels/api/device.h"
#include "kernels/api/device_ops.h"
#include "kernels/api/device_tiles.h"
#include "kernels/api/linear.h"

namespace roundel {

// Where the rows of one weight go in a packed weight that holds several: after one another, or, for gate and up, in
// alternating blocks of 8 rows, so that one thread meets gate and up of the same output.
struct RowMap {
  int64_t offset = 0;  // pair 0: row r goes to offset + r
  int64_t pair =
      0;  // rows of gate, and of up; else 0: row r + offset of [gate; up] is put where it alternates
};
constexpr int64_t kPairRows = 8;

// constexpr: kernels call it too.
constexpr int64_t packed_row(const RowMap& map, int64_t r) {
  r += map.offset;
  if (map.pair == 0) return r;
  const int64_t half = r / map.pair, i = r % map.pair;
  return (i / kPairRows * 2 + half) * kPairRows + i % kPairRows;
}

// Rows [row0, row0 + rows) of a weight, on the device, in the layout of WeightRows.
struct DeviceWeightRows {
  int64_t row0 = 0, rows = 0;
  const void* codes = nullptr;
  const float* scales = nullptr;
  const int8_t* zero_points = nullptr;
  RowMap map;
};

// cuBLASLt multiplies FP8 blocks of this many tokens, or a multiple.
constexpr int64_t kTokenUnit = 4;

struct DeviceLinearArgs {
  int64_t m = 0;
  const void* x = nullptr;  // (M,K) bf16, rows ldx apart; columns up to a multiple of 8 are zero
  int64_t ldx = 0;
  int64_t x_low = 0;               // where takes_terms: x has two terms (device_ops.h)
  const void* x16 = nullptr;       // (M,ld16) half: used instead of x when given
  const float* x_scale = nullptr;  // (M, ld16 / kScaleColumns)
  bool one_scale = false;          // the same for all columns of a token
  int64_t ld16 = 0;
  // Codes with one float scale a token, instead of x, where takes_bytes: as DeviceCodes::x8, rows ldx8 apart.
  const void* x8 = nullptr;
  int64_t ldx8 = 0;
  const float* token_scale = nullptr;  // (M), with x8
  // Not 0: token_scale is (ldx8 / kScaleColumns, scale_ld), a scale for each run of a token. scale_ld is M, up to a multiple
  // of kTokenUnit, and more than kSmallTokens rows of x8 and of y are there up to this, with whatever they hold.
  int64_t scale_ld = 0;
  // Or, where fuses_norm: x = residual / sqrt(mean(residual^2) + eps) * gain, of (M,K) floats, rows ld_residual apart.
  const float* residual = nullptr;
  int64_t ld_residual = 0;
  const float* gain = nullptr;
  float eps = 0;
  bool add = false;             // where adds: y is float, and the product is added to it
  const float* bias = nullptr;  // (N) in packed order, or null
  void* y = nullptr;            // (M,N) float or bf16, rows ldy apart
  int64_t ldy = 0;
  bool y_bf16 = false;
  bool gated = false;  // rows alternate (RowMap): y (M,N/2) bf16 = silu(gate) * up
  int64_t y_low = 0;   // with gated, where few tokens: y has two terms
  // Or, where rounds_gate: that, rounded to `form`, as bytes (codes.x8, codes.token_scale) instead of y.
  DeviceForm form;
  DeviceCodes codes;
  uint32_t* counters = nullptr;  // kSmallTokens + 2, zero before and after, with `form`
  int max_parts =
      1;  // y may be that many float matrices, part_stride elements apart, whose sum is the result
  int64_t part_stride = 0;
  void* workspace = nullptr;
  size_t workspace_bytes = 0;
  const Tiles* tiles = nullptr;  // one of tile_choices(); null: the kernel chooses
};

struct DeviceLinearKernel {
  const char* name;  // <arch>_<weights>_<op>
  Support (*supports)(const LinearProblem&, const DeviceInfo&);
  size_t (*packed_bytes)(const LinearProblem&);
  void (*pack)(const LinearProblem&, const DeviceWeightRows&, uint8_t* packed, DeviceStream);
  // Rows of the weight as floats (count,K): ids on the device, in packed order; scales applied.
  void (*unpack_rows)(const LinearProblem&, const uint8_t* packed, const int32_t* ids, int64_t id_stride,
                      int64_t count, float* out, int64_t ldo, DeviceStream);
  // Whether run() can do `gated` for m tokens that come in this form.
  bool (*fuses_gate)(const LinearProblem&, TileUse::Input, int64_t m, const DeviceInfo&);
  // Whether run() can do `gated` from x8 and round it to this form for m tokens.
  bool (*rounds_gate)(const LinearProblem&, const DeviceForm&, int64_t m, const DeviceInfo&);
  // Whether run() can do `residual`, and whether it can do `add`, for m tokens.
  bool (*fuses_norm)(const LinearProblem&, int64_t m, const DeviceInfo&);
  bool (*adds)(const LinearProblem&, int64_t m, const DeviceInfo&);
  // Whether run() takes x of two terms for m tokens; else both terms are multiplied as tokens of their own.
  bool (*takes_terms)(const LinearProblem&, int64_t m, const DeviceInfo&);
  // Whether run() takes activations of this form as x8 for m tokens.
  bool (*takes_bytes)(const LinearProblem&, const DeviceForm&, int64_t m, const DeviceInfo&);
  // Whether activations that need no rounding should come as x16 (DeviceForm::kHalf) for m tokens.
  bool (*wants_x16)(const LinearProblem&, int64_t m);
  // bytes: for activations that come as x8; else for others.
  size_t (*workspace_bytes)(const LinearProblem&, int64_t m, bool bytes);
  // Returns how many parts of y it wrote.
  int (*run)(const LinearProblem&, const uint8_t* packed, const DeviceLinearArgs&, const DeviceInfo&,
             DeviceStream);
  // How run() divides the work of few tokens, and all ways that it offers; null where it has no choice. What it chooses is
  // the user's measured row (DeviceInfo::tuned), else a row that is compiled in, else an estimate.
  TileChoice (*tile_choice)(const LinearProblem&, const TileUse&, const DeviceInfo&) = nullptr;
  std::vector<Tiles> (*tile_choices)(const LinearProblem&, const TileUse&, const DeviceInfo&) = nullptr;
};

}  // namespace roundel
