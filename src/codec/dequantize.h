// The error of encoded rows against their source, for reports. dequantize() itself is declared in encoder.h.
#pragma once
#include <vector>

#include "codec/encoder.h"

namespace roundel {

struct RowError {
  double error = 0, weight = 0;  // sum (w - dequantized)^2, sum w^2 over the finite weights of a row
};

// Scratch for one thread.
class RowErrorMeter {
 public:
  RowErrorMeter(const QuantArgs& args, DType dtype, int64_t cols);
  // source: row r of the chunk, in the dtype.
  RowError measure(const void* source, const QuantizedRows& rows, int64_t r);

 private:
  const QuantArgs& args_;
  DType dtype_;
  std::vector<float> weights_, values_;
};

}  // namespace roundel
