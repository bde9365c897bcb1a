// Per-tensor error between two checkpoints of one model, whatever each is stored as.
//
//   std::vector<TensorComparison> rows = compare_weights(open_model(a), open_model(b), pool);
#pragma once
#include <string>
#include <vector>

#include "model/model_files.h"

namespace roundel {

class ThreadPool;

struct TensorComparison {
  std::string module, scheme_a, scheme_b;
  int64_t rows = 0, cols = 0;
  double sqnr_db = 0;           // 10 log10(sum a^2 / sum (a - b)^2); infinite when equal
  double max_error = 0;         // max |a - b|
  double relative_error = 0;    // sqrt(sum (a - b)^2 / sum a^2)
  double share_at_limits = -1;  // of B's codes: at the smallest or largest code; -1 when B is dense
};

// Weights of every module, A the reference. Error(kInvalid) listing modules whose shapes differ or that only one has.
std::vector<TensorComparison> compare_weights(const ModelFiles& a, const ModelFiles& b, ThreadPool& pool);

}  // namespace roundel
