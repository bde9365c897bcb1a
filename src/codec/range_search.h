// The weight observer "memoryless_mse" of llm-compressor: a range is shrunk step by step to where the error of its codes is
// least (sum |w - dequantized|^norm; maxshrink 0.20, grid 100, norm 2.4). The original stops when no scale of the
// whole weight has become better for `patience` (5) steps: so does this where a weight has one scale, else every step is
// tried.
//
//   RangeSearch search(args, DType::kBF16);
//   if (search.on()) Qparams q = search.best(rule, weights, n, range);
//   for (each row of a block) search.add_errors(rule, row, n, range, sums);  // sums: search.steps() doubles
//   Qparams q = search.pick(rule, range, sums);
#pragma once
#include "codec/qparams.h"
#include "kernels/api/encode.h"

namespace roundel {

class RangeSearch {
 public:
  // Off unless the observer of args is memoryless_mse. Throws Error(kInvalid) for its observer_kwargs.
  RangeSearch(const QuantArgs& args, DType source);
  bool on() const { return steps_ > 0; }
  int64_t steps() const { return steps_; }
  // x: n elements of the source's type with this range. Thread-safe.
  Qparams best(const QparamsRule& rule, const void* x, int64_t n, const RangeResult& range) const;
  // The two halves of best(), for a scale of several runs of elements: range is that of all of them.
  void add_errors(const QparamsRule& rule, const void* x, int64_t n, const RangeResult& range,
                  double* sums) const;
  Qparams pick(const QparamsRule& rule, const RangeResult& range, const double* sums) const;

 private:
  Qparams at_step(const QparamsRule& rule, const RangeResult& range, int64_t step) const;
  double error(const QparamsRule& rule, const Qparams& q, const float* values, const void* x, int64_t n,
               int8_t* codes) const;

  bool is_float_ = false;
  DType source_;
  int64_t steps_ = 0, patience_ = 0;  // patience 0: all steps
  double grid_ = 100;
  float norm_ = 2.4f;
};

}  // namespace roundel
