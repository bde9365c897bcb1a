// RTN: float weights to codes, scales and zero points, row chunk by row chunk, byte for byte what compressed-tensors 0.20
// computes in the weight's own dtype (docs/format.md, 6).
//
//   WeightEncoder encoder(args, rows, cols, DType::kBF16, "model.layers.0.mlp.up_proj");
//   for (; encoder.wants_pass(); encoder.end_pass()) for (each chunk) encoder.observe(chunk);  // tensor strategy: first
//   encoder.encode(source, row0, rows, &out, pool);                          // out: QuantizedRows
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/checked.h"
#include "base/dtype.h"
#include "codec/quantized_rows.h"
#include "codec/range_search.h"
#include "scheme/quant_args.h"

namespace roundel {

class ThreadPool;

// Whether a row's codes follow from its own groups alone, with the range as it is: what a GPU can do while a model loads.
bool encodes_by_groups(const QuantArgs& args, DType source);

class WeightEncoder {
 public:
  // `module` is for messages. `allow_not_finite`: NaN and infinities are counted, not an error (they become codes of 0 or
  // the limits). Throws Error(kUnsupported) for arguments and source dtypes that cannot be encoded.
  WeightEncoder(const QuantArgs& args, int64_t rows, int64_t cols, DType source, std::string module,
                bool allow_not_finite = false);
  // Whether all rows must pass through observe() first (once more): one scale for the tensor, or blocks that chunks cut.
  // A pass for the ranges; with the observer memoryless_mse another one for the errors.
  bool wants_pass() const { return passes_ < passes_wanted(); }
  void end_pass() { ++passes_; }
  // Both read `rows` rows of (rows,cols) source elements, from row0 on, a multiple of kChunkUnit. Not thread-safe
  // themselves; they use `pool` inside, and the results do not depend on its size.
  // Throws Error(kInvalid) with the count and the first place of NaN and infinite values in these rows.
  void observe(const void* source, int64_t row0, int64_t rows, ThreadPool& pool);
  void encode(const void* source, int64_t row0, int64_t rows, QuantizedRows* out, ThreadPool& pool);
  // sum (w - dequantized)^2 and sum w^2 so far, in double: the relative error of reports.
  double error_sum() const { return error_sum_; }
  double weight_sum() const { return weight_sum_; }
  void measure_error(bool on) { measure_error_ = on; }
  int64_t not_finite() const { return not_finite_; }  // NaN and infinite values seen so far

 private:
  struct RowFault {
    int64_t count = 0, first = -1;  // first: column
  };
  class RowCoder;
  int passes_wanted() const;
  int64_t blocks_across() const { return ceil_div(cols_, block_cols_); }
  void find_ranges(const void* source, int64_t row0, int64_t rows, ThreadPool& pool);
  void sum_errors(const void* source, int64_t row0, int64_t rows, ThreadPool& pool);
  void report(const std::vector<RowFault>& faults, int64_t row0);

  QuantArgs args_;
  int64_t rows_, cols_;
  DType source_;
  std::string module_;
  bool allow_not_finite_;
  bool measure_error_ = false;
  int64_t block_rows_ = 0, block_cols_ = 0;  // of the tensor (all of it) and block strategies
  std::vector<float> lo_, hi_;               // (row blocks, column blocks)
  RangeSearch search_;
  std::vector<double> errors_;  // (row blocks, column blocks, steps of the search)
  int passes_ = 0;
  double error_sum_ = 0, weight_sum_ = 0;
  int64_t not_finite_ = 0;
};

// Float values of the codes: (q - zero_point) * scale, rounded to `dtype` (that of the scales) as the original library
// does. out: (rows,cols). Columns are in groups one after the other, not those of weight_g_idx.
void dequantize(const QuantArgs& args, DType dtype, const QuantizedRows& rows, float* out);

}  // namespace roundel
