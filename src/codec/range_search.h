// The weight observer "memoryless_mse" of llm-compressor: a range is shrunk step by step to where the error of its codes is
// least (sum |w - dequantized|^norm; maxshrink 0.20, grid 100, norm 2.4). The original stops when no scale of the
// whole weight has become better for `patience` steps; here every step is tried.
//
//   RangeSearch search(args, DType::kBF16);
//   if (search.on()) Qparams q = search.best(rule, weights, n, range);
#pragma once
#include "codec/qparams.h"
#include "kernels/api/encode.h"

namespace roundel {

class RangeSearch {
 public:
  // Off unless the observer of args is memoryless_mse. Throws Error(kInvalid) for its observer_kwargs.
  RangeSearch(const QuantArgs& args, DType source);
  bool on() const { return steps_ > 0; }
  // x: n elements of the source's type with this range. Thread-safe.
  Qparams best(const QparamsRule& rule, const void* x, int64_t n, const RangeResult& range) const;

 private:
  double error(const QparamsRule& rule, const Qparams& q, const float* values, const void* x, int64_t n,
               int8_t* codes) const;

  bool is_float_ = false;
  DType source_;
  int64_t steps_ = 0;
  double grid_ = 100;
  float norm_ = 2.4f;
};

}  // namespace roundel
