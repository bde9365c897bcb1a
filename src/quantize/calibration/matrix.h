// Matrices of floats for calibration, multiplied by the engine's own linear kernels.
//
//   Matrix h(k, k);
//   PackedMatrix right(h.row(0), k, k, h.ld, pool);                    // h as the right factor
//   right.multiply(delta.row(0), delta.rows, delta.ld, y.row(0), y.ld, pool);     // y = delta . h^T
#pragma once
#include <cstdint>
#include <vector>

#include "kernels/list.h"
#include "tensor/tensor.h"

namespace roundel {

class ThreadPool;

// (rows, cols), rows padded with zeros to a multiple of kColumnUnit, as the left factor of a product must be.
struct Matrix {
  Matrix() = default;
  Matrix(int64_t row_count, int64_t col_count);  // zeros
  float* row(int64_t r) { return data.as<float>() + r * ld; }
  const float* row(int64_t r) const { return data.as<float>() + r * ld; }
  Matrix copy() const;
  int64_t rows = 0, cols = 0, ld = 0;
  Buffer data;
};

class PackedMatrix {
 public:
  // rows: (n,k), `ld` floats apart.
  PackedMatrix(const float* rows, int64_t n, int64_t k, int64_t ld, ThreadPool& pool);
  explicit PackedMatrix(const Matrix& m, ThreadPool& pool)
      : PackedMatrix(m.row(0), m.rows, m.cols, m.ld, pool) {}
  // y (m,n) = x (m,k) . w (n,k)^T. ldx is a multiple of kColumnUnit and columns k to ldx of x are zero. The result does not
  // depend on the number of threads.
  void multiply(const float* x, int64_t m, int64_t ldx, float* y, int64_t ldy, ThreadPool& pool) const;
  int64_t rows() const { return problem_.n; }

 private:
  LinearProblem problem_;
  const LinearKernel* kernel_;
  Buffer packed_;
};

// Columns of a row-major matrix: `cols` floats at each row, rows `ld` apart.
struct Columns {
  const float* data;
  int64_t ld, cols;
};
enum class Triangle { kWhole, kLower };
// h (a.cols,b.cols) += sum over tokens t of a[t]^T b[t]; of kLower at least the lower triangle. The order of the sums does
// not depend on the number of threads.
void add_outer_products(Columns a, Columns b, int64_t tokens, Triangle triangle, Matrix* h, ThreadPool& pool);

// Of every row r of d (m,k): d_r . h . d_r^T, h (k,k) symmetric: the squared error of output r whose weights are off by d_r,
// when h is the second moment of the inputs. Only the lower triangle of h is multiplied, its part off the diagonal twice.
class QuadraticForm {
 public:
  QuadraticForm(const Matrix& h, ThreadPool& pool);
  double sum(const Matrix& d, ThreadPool& pool) const;  // over the rows

 private:
  std::vector<PackedMatrix> blocks_;  // of block_ rows of h, up to the diagonal
  int64_t block_ = 0;
};

}  // namespace roundel
