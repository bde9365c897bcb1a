// GPTQ: columns are rounded one after the other, and the error of each is made up for by those that follow (Frantar et al.
// 2022). Scales and zero points are given, of the unchanged weights, as llm-compressor has them.
//
//   QuantizedRows grid = round_to_nearest(w, args, dtype, name, pool);
//   QuantizedRows codes = gptq(w, args, DType::kBF16, grid, factor, 128, pool);
#pragma once
#include <string>

#include "codec/quantized_rows.h"
#include "quantize/calibration/hessian_factor.h"

namespace roundel {

// A whole weight through the encoder, as values of `dtype`: codes, scales and zero points of all rows.
QuantizedRows round_to_nearest(const Matrix& w, const QuantArgs& args, DType dtype, const std::string& module,
                               ThreadPool& pool);

// w: (n,k). grid: all its rows; its scales and zero points are kept, its codes are replaced. Columns that are dead in the
// factor become 0. dtype: what values are rounded to, as the original dequantizes. block: columns whose error is made up for
// at once.
QuantizedRows gptq(const Matrix& w, const QuantArgs& args, DType dtype, QuantizedRows grid,
                   const HessianFactor& factor, int64_t block, ThreadPool& pool);

// The floats that codes stand for, not rounded to the dtype: what the engine's kernels multiply with. (n,k)
Matrix values_of(const QuantizedRows& rows, const QuantArgs& args, ThreadPool& pool);

}  // namespace roundel
