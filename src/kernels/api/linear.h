// y[M,N] = x[M,K] . w[N,K]^T, for every kind of weight: the problem, the views, and what a kernel offers.
//
//   const LinearKernel& kernel = choose_linear(problem);            // kernels/list.h, once, at load
//   Buffer packed(kernel.packed_bytes(problem));
//   kernel.pack(problem, rows, packed.data());                      // for each run of rows, as they stream in
//   kernel.run(problem, packed.data(), args, pool);                 // in forward
#pragma once
#include <cstddef>
#include <cstdint>

#include "kernels/api/support.h"

namespace roundel {

class ThreadPool;
struct CpuFeatures;

enum class CodeType : uint8_t { kInt, kE4M3, kBF16, kF16, kF32 };
enum class ScaleType : uint8_t { kBF16, kF16, kF32 };  // the type whose values the scales are
// kFloat: x are floats. kInt8: x are codes with a scale and a zero point for each token.
enum class ActType : uint8_t { kFloat, kInt8 };

constexpr int64_t kFp8Block = 128;

struct LinearProblem {
  int64_t n = 0;  // output rows
  int64_t k = 0;  // input columns
  CodeType code = CodeType::kBF16;
  int bits = 16;           // of kInt: 2 to 8
  bool has_scale = false;  // false for dense weights
  bool has_zero_point = false;
  int64_t group = 0;  // columns that share one scale: k when there is one for each row
  ScaleType scale_type = ScaleType::kBF16;
  ActType act = ActType::kFloat;
  // kE4M3 with one scale for each kFp8Block rows and columns, whose activations (kFloat: values) are E4M3 with a dynamic
  // scale for each kFp8Block columns. GPU kernels multiply such codes.
  bool fp8_blocks = false;

  int64_t groups() const { return group > 0 ? (k + group - 1) / group : 1; }
};

// Rows [row0, row0 + rows) of the weight. row0 is a multiple of kRowUnit; rows too, except at the end.
constexpr int64_t kRowUnit = 32;
struct WeightRows {
  int64_t row0 = 0;
  int64_t rows = 0;
  const void* codes = nullptr;    // (rows,K): int8 (kInt), uint8 (kE4M3), uint16 (kBF16, kF16), float (kF32)
  const float* scales = nullptr;  // (rows,groups)
  const int8_t* zero_points = nullptr;  // (rows,groups)
};

// Activations: rows are `ldx` elements apart; columns K..ldx-1 are readable and zero (floats) or any value (codes).
// ldx is a multiple of kColumnUnit.
constexpr int64_t kColumnUnit = 64;
struct LinearArgs {
  int64_t m = 0;
  int64_t ldx = 0;
  const float* x = nullptr;          // (M,K), kFloat
  const uint16_t* x_bf16 = nullptr;  // (M,K), kFloat, for kernels with round_x: ldx is a multiple of 32 then
  const int8_t* x_codes = nullptr;   // (M,K), kInt8: value = (code - x_zero) * x_scale
  const float* x_scale = nullptr;    // (M)
  const int32_t* x_zero = nullptr;   // (M) or null when all are 0
  const float* bias = nullptr;       // (N) or null
  float* y = nullptr;                // (M,N), rows ldy apart
  int64_t ldy = 0;
};

struct LinearKernel {
  const char* name;  // <isa>_<weight><act>_<op>
  Support (*supports)(const LinearProblem&, const CpuFeatures&);
  size_t (*packed_bytes)(const LinearProblem&);
  void (*pack)(const LinearProblem&, const WeightRows&, uint8_t* packed);
  void (*run)(const LinearProblem&, const uint8_t* packed, const LinearArgs&, ThreadPool&);
  // Row `row` of the weight as floats (K), scales applied: how an embedding reads a weight that is packed for the head.
  void (*unpack_row)(const LinearProblem&, const uint8_t* packed, int64_t row, float* out);
  // How far an activation (kFloat), as this kernel multiplies it, is from the float at most, as a share of the token's
  // largest. 0: it is the float.
  double x_error = 0;
  // Not null: float activations are wanted as x_bf16 instead of x, rounded by this (n numbers).
  void (*round_x)(const float* x, int64_t n, uint16_t* y) = nullptr;
};

}  // namespace roundel
