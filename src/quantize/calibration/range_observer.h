// Observers of static activations: from the ranges of the batches (here: samples) to one range.
//
//   RangeObserver observer(args, "model.layers.0.self_attn.q_proj: input");
//   for (each sample) observer.observe(x, pool);
//   Qparams q = observer.qparams(DType::kBF16);
//
// minmax (also when none is named): a moving average of each end, averaging_constant 0.01; static_minmax: the extremes;
// memoryless_minmax: the last batch; mse and memoryless_mse: the same two with each batch's range shrunk to where
// sum |x - quantized x|^norm is least (maxshrink 0.20, patience 5, grid 100, norm 2.4).
#pragma once
#include <string>

#include "codec/encoder.h"
#include "model/layer_ops.h"

namespace roundel {

class RangeObserver {
 public:
  // args: per tensor. Throws Error(kUnsupported) for other observers and arguments, Error(kInvalid) for their values.
  RangeObserver(const QuantArgs& args, std::string where);
  // Rows of n values, `ld` apart. Throws Error(kInvalid) naming `where` when a value is NaN or infinite.
  void observe(const float* x, int64_t rows, int64_t n, int64_t ld, ThreadPool& pool);
  void observe(const Activations& x, ThreadPool& pool) { observe(x.row(0), x.rows, x.cols, x.ld, pool); }
  Qparams qparams(DType dtype) const;
  float lo() const { return lo_; }
  float hi() const { return hi_; }

 private:
  enum class Kind { kMovingAverage, kExtremes, kLast };
  struct Range {
    float lo = 0, hi = 0;
  };
  void read_kwargs();
  Range shrink(Range range, const float* x, int64_t rows, int64_t n, int64_t ld, ThreadPool& pool) const;

  QuantArgs args_;
  std::string where_;
  Kind kind_ = Kind::kMovingAverage;
  bool mse_ = false;
  double constant_ = 0.01;
  double maxshrink_ = 0.20, norm_ = 2.4;
  int64_t patience_ = 5, grid_ = 100;
  bool first_ = true;
  float lo_ = 0, hi_ = 0;
};

}  // namespace roundel
