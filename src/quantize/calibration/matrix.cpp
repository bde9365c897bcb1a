#include "quantize/calibration/matrix.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/thread_pool.h"

namespace roundel {

Matrix::Matrix(int64_t row_count, int64_t col_count)
    : rows(row_count),
      cols(col_count),
      ld(round_up(col_count, kColumnUnit)),
      data(static_cast<size_t>(rows * ld) * sizeof(float), true) {}

Matrix Matrix::copy() const {
  Matrix m;
  m.rows = rows;
  m.cols = cols;
  m.ld = ld;
  m.data = Buffer(data.size());
  if (!data.empty()) std::memcpy(m.data.data(), data.data(), data.size());
  return m;
}

PackedMatrix::PackedMatrix(const float* rows, int64_t n, int64_t k, int64_t ld, ThreadPool& pool) {
  problem_.n = n;
  problem_.k = k;
  problem_.code = CodeType::kF32;
  problem_.bits = 32;
  problem_.group = k;
  problem_.scale_type = ScaleType::kF32;
  kernel_ = &choose_linear(problem_);
  packed_ = Buffer(kernel_->packed_bytes(problem_));
  pool.parallel_for(n, kRowUnit, [&](int64_t begin, int64_t end) {
    std::vector<float> dense(static_cast<size_t>(kRowUnit * k));
    for (int64_t r = begin; r < end; r += kRowUnit) {
      const int64_t count = std::min(kRowUnit, end - r);
      for (int64_t i = 0; i < count; ++i)
        std::memcpy(dense.data() + i * k, rows + (r + i) * ld, static_cast<size_t>(k) * sizeof(float));
      kernel_->pack(problem_, WeightRows{r, count, dense.data(), nullptr, nullptr}, packed_.data());
    }
  });
}

void PackedMatrix::multiply(const float* x, int64_t m, int64_t ldx, float* y, int64_t ldy,
                            ThreadPool& pool) const {
  LinearArgs args;
  args.m = m;
  args.ldx = ldx;
  args.x = x;
  args.y = y;
  args.ldy = ldy;
  kernel_->run(problem_, packed_.data(), args, pool);
}

void add_outer_products(Columns a, Columns b, int64_t tokens, Triangle triangle, Matrix* h,
                        ThreadPool& pool) {
  CHECK(h->rows == a.cols && h->cols == b.cols);
  // Of a piece of work: large ones read the tokens less often.
  const bool large = ceil_div(a.cols, 224) * ceil_div(b.cols, 256) >= int64_t{8} * pool.size();
  const int64_t rows = large ? 224 : 112, cols = large ? 256 : 128;
  const int64_t across = ceil_div(b.cols, cols), pieces = ceil_div(a.cols, rows) * across;
  pool.parallel_for(pieces, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t piece = pieces - 1 - i;  // of a triangle the widest rows first
      const int64_t r0 = piece / across * rows, m = std::min(rows, a.cols - r0);
      const int64_t c0 = piece % across * cols;
      const int64_t n = std::min(cols, (triangle == Triangle::kLower ? r0 + m : b.cols) - c0);
      if (n <= 0) continue;
      vector_ops().outer_products(a.data + r0, a.ld, m, b.data + c0, b.ld, n, tokens, h->row(r0) + c0, h->ld);
    }
  });
}

QuadraticForm::QuadraticForm(const Matrix& h, ThreadPool& pool)
    : block_(round_up(ceil_div(h.rows, int64_t{8}), kColumnUnit)) {
  for (int64_t begin = 0; begin < h.rows; begin += block_) {
    const int64_t end = std::min(begin + block_, h.rows);
    Matrix part(end - begin, end);
    for (int64_t r = begin; r < end; ++r)
      for (int64_t c = 0; c < end; ++c) part.row(r - begin)[c] = c < begin ? 2 * h.row(r)[c] : h.row(r)[c];
    blocks_.emplace_back(part, pool);
  }
}

double QuadraticForm::sum(const Matrix& d, ThreadPool& pool) const {
  constexpr int64_t kRows = 512;
  const VectorOps& ops = vector_ops();
  Matrix product(std::min(d.rows, kRows), block_);
  std::vector<double> sums(static_cast<size_t>(d.rows));
  for (int64_t row0 = 0; row0 < d.rows; row0 += kRows) {
    const int64_t n = std::min(kRows, d.rows - row0);
    for (size_t b = 0; b < blocks_.size(); ++b) {
      blocks_[b].multiply(d.row(row0), n, d.ld, product.row(0), product.ld, pool);
      const float* x = d.row(row0) + static_cast<int64_t>(b) * block_;
      pool.parallel_for(n, 64, [&](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r)
          sums[static_cast<size_t>(row0 + r)] +=
              static_cast<double>(ops.dot(product.row(r), x + r * d.ld, blocks_[b].rows()));
      });
    }
  }
  double total = 0;
  for (const double s : sums) total += s;
  return total;
}

}  // namespace roundel
