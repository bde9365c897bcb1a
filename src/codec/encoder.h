// RTN: float weights to codes, scales and zero points, row chunk by row chunk, byte for byte what compressed-tensors 0.20
// computes in the weight's own dtype (spec section 6).
//
//   WeightEncoder encoder(args, rows, cols, DType::kBF16, "model.layers.0.mlp.up_proj");
//   if (encoder.needs_range()) for (each chunk) encoder.observe(chunk);      // tensor strategy: a first pass
//   encoder.encode(row0, rows, source, &out);                                // out: QuantizedRows
#pragma once
#include <cstdint>
#include <string>

#include "base/dtype.h"
#include "codec/quantized_rows.h"
#include "scheme/quant_args.h"

namespace roundel {

class ThreadPool;

struct Qparams {
  float scale = 1;
  int zero_point = 0;
};
// Scale and zero point for a range, computed and rounded in `dtype` (BF16, F16, F32). lo <= 0 <= hi. Spec 6.2.
Qparams compute_qparams(const QuantArgs& args, DType dtype, float lo, float hi);

class WeightEncoder {
 public:
  // `module` is for messages. `allow_not_finite`: NaN and infinities are counted, not an error (they become codes of 0 or the
  // limits).
  WeightEncoder(const QuantArgs& args, int64_t rows, int64_t cols, DType source, std::string module, bool allow_not_finite = false);
  bool needs_range() const;
  // Both read `rows` rows of (rows,cols) source elements. Not thread-safe themselves; they use `pool` inside.
  void observe(const void* source, int64_t row0, int64_t rows, ThreadPool& pool);
  void encode(const void* source, int64_t row0, int64_t rows, QuantizedRows* out, ThreadPool& pool);
  // sum (w - dequantized)^2 and sum w^2 so far, in double: the relative error of reports.
  double error_sum() const { return error_sum_; }
  double weight_sum() const { return weight_sum_; }
  void measure_error(bool on) { measure_error_ = on; }

 private:
  QuantArgs args_;
  int64_t rows_, cols_;
  DType source_;
  std::string module_;
  bool allow_not_finite_;
  bool measure_error_ = false;
  float lo_ = 0, hi_ = 0;  // of the tensor strategy
  double error_sum_ = 0, weight_sum_ = 0;
};

// Float values of the codes: (q - zero_point) * scale, rounded to `dtype` as the original library does. out: (rows,cols).
void dequantize(const QuantArgs& args, DType dtype, const QuantizedRows& rows, float* out);

}  // namespace roundel
