// What calibration keeps of the inputs of a linear: the second moment, and the mean and range of each channel.
//
//   InputMoments moments(k, true, true);
//   for (each sample) moments.add(x, pool);                 // x: (T,k)
//   moments.finish(pool);
//   moments.second();                                       // (k,k): mean over tokens of x x^T
#pragma once
#include <vector>

#include "model/layer_ops.h"
#include "quantize/calibration/matrix.h"

namespace roundel {

class InputMoments {
 public:
  // What is asked for: the matrix, and the mean and range of each channel.
  InputMoments(int64_t cols, bool with_second, bool with_channels);
  // The sums run over the tokens in order, whatever the number of threads.
  void add(const Activations& x, ThreadPool& pool);
  void finish(ThreadPool& pool);
  // The inputs were divided by s (cols) afterwards.
  void rescale(const std::vector<float>& s);

  int64_t cols() const { return cols_; }
  int64_t tokens() const { return tokens_; }
  const Matrix& second() const { return second_; }
  const std::vector<float>& mean_abs() const { return mean_abs_; }
  const std::vector<float>& lo() const { return lo_; }
  const std::vector<float>& hi() const { return hi_; }
  // The first channel with a NaN or an infinity, -1: none. Where nothing was asked for, nothing is found.
  int64_t bad_channel() const;

 private:
  void add_channels(const Activations& x, int64_t c0, int64_t c1);

  int64_t cols_;
  bool with_second_, with_channels_;
  bool finished_ = false;
  int64_t tokens_ = 0;
  Matrix second_;  // until finish() the lower triangle only
  std::vector<double> sum_abs_;
  std::vector<float> mean_abs_, lo_, hi_;
};

}  // namespace roundel
