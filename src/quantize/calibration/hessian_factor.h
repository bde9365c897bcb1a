// The factor that GPTQ walks along: U upper triangular with U^T U = (H + damping)^-1, columns in the order they are visited
// (Frantar et al. 2022; spec of llm-compressor: dead columns, dampening relative to the mean of the diagonal, static order).
//
//   HessianFactor f = factorize(moments.second(), {.dampening = 0.01, .descending = true}, pool);
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "quantize/calibration/matrix.h"

namespace roundel {

struct FactorOptions {
  double dampening = 0.01;  // times the mean of the diagonal
  bool descending = true;   // columns by falling diagonal ("static" activation order); false: as they are
};

struct HessianFactor {
  Matrix upper;                // (k,k), rows and columns in visiting order; empty when `failed`
  std::vector<int32_t> order;  // the column visited i-th
  std::vector<bool> dead;      // by column: the input was always 0
  int64_t dead_count = 0;
  double dampening = 0;  // as used: raised tenfold up to 1 while the factorization fails
  bool failed = false;
};

HessianFactor factorize(const Matrix& h, const FactorOptions& options, ThreadPool& pool);

// a (n,n) symmetric in double, rows ld apart: the lower triangle becomes that of L with L L^T = a. False when a is not
// positive definite.
bool cholesky(double* a, int64_t n, int64_t ld, ThreadPool& pool);
// Lower triangular L (n,n) becomes its inverse, in place.
void invert_lower(double* l, int64_t n, int64_t ld, ThreadPool& pool);

}  // namespace roundel
