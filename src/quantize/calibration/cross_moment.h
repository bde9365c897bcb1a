// How far the quantized layers before have moved the inputs of a linear, seen against those inputs: E[d x^T] over the
// calibration tokens, where d is what the dense model has there less what the quantized one has.
//
//   CrossMoment drift(k, k);
//   for (each sample) drift.add(dense_input, input, input, pool);        // (T,k) each
//   drift.finish();                                                      // drift.mean(): (k,k)
#pragma once
#include "model/layer_ops.h"
#include "quantize/calibration/matrix.h"

namespace roundel {

class CrossMoment {
 public:
  CrossMoment(int64_t rows, int64_t cols) : mean_(rows, cols) {}
  // Adds sum over tokens of (a - b) x^T. a, b: (T,rows); x: (T,cols).
  void add(const Activations& a, const Activations& b, const Activations& x, ThreadPool& pool);
  void finish(ThreadPool& pool);
  const Matrix& mean() const { return mean_; }

 private:
  Matrix mean_;
  Activations difference_;  // of one call
  int64_t tokens_ = 0;
};

}  // namespace roundel
