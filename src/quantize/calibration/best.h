// The default of roundel for weights of few bits (docs/calibration.md):
//   1. the weight is moved to where, on the inputs that the quantized layers before give, its output is that of the dense
//      model: W + (W E[d x^T] + E[r x^T]) (H + damping)^-1, d the drift of its input, r that of what its output is added to;
//   2. scales are searched that shrink the range, columns weighted by what GPTQ cannot make up for;
//   3. GPTQ;
//   4. scales are fitted to the codes and codes to the scales in turn, on the exact error (coordinate descent).
// FP8 weights: step 3 only, with scales per row from the observer memoryless_mse; the rest made a model worse
// (docs/results/calibration.md).
#pragma once
#include "codec/quantized_rows.h"
#include "quantize/calibration/cross_moment.h"
#include "quantize/calibration/hessian_factor.h"
#include "quantize/calibration/input_moments.h"
#include "quantize/calibration/layer_weights.h"
#include "quantize/calibration_steps.h"

namespace roundel {

struct BestInputs {
  const Matrix* second = nullptr;         // H: (k,k)
  const HessianFactor* factor = nullptr;  // of H
  const Matrix* drift = nullptr;          // E[d x^T] (k,k) or null
  const Matrix* residual = nullptr;       // E[r x^T] (n,k) or null
};

QuantizedRows quantize_best(const LayerModule& module, const QuantizedRows& nearest, const BestInputs& inputs,
                            ThreadPool& pool, CalibratedModule* report);

// Step 2: scales and zero points of `nearest` replaced where a smaller range has less error. importance: (k).
void search_scales(const Matrix& w, const QuantArgs& args, DType dtype, const std::vector<float>& importance,
                   QuantizedRows* rows, ThreadPool& pool);
// Step 4, `rounds` times. second: with the damping added. order: that of the columns.
void refine(const Matrix& w, const QuantArgs& args, DType dtype, const Matrix& second,
            const std::vector<int32_t>& order, int rounds, QuantizedRows* rows, ThreadPool& pool);

}  // namespace roundel
