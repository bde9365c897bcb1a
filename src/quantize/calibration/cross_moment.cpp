#include "quantize/calibration/cross_moment.h"

#include <algorithm>

#include "base/thread_pool.h"

namespace roundel {
namespace {

// (T,n) - (T,n), transposed: (n,T).
Matrix transposed_difference(const Activations& a, const Activations* b, ThreadPool& pool) {
  Matrix m(a.cols, a.rows);
  pool.parallel_for(a.cols, 16, [&](int64_t begin, int64_t end) {
    for (int64_t c0 = begin; c0 < end; c0 += 16) {
      const int64_t c1 = std::min(end, c0 + 16);
      for (int64_t t = 0; t < a.rows; ++t)
        for (int64_t c = c0; c < c1; ++c) m.row(c)[t] = a.row(t)[c] - (b ? b->row(t)[c] : 0.0f);
    }
  });
  return m;
}

}  // namespace

void CrossMoment::add(const Activations& a, const Activations& b, const Activations& x, ThreadPool& pool) {
  CHECK(a.cols == mean_.rows && x.cols == mean_.cols && a.rows == x.rows);
  const Matrix left = transposed_difference(a, &b, pool);
  const PackedMatrix right(transposed_difference(x, nullptr, pool), pool);
  constexpr int64_t kRows = 512;
  Matrix product(std::min(kRows, mean_.rows), mean_.cols);
  for (int64_t r0 = 0; r0 < mean_.rows; r0 += kRows) {
    const int64_t n = std::min(kRows, mean_.rows - r0);
    right.multiply(left.row(r0), n, left.ld, product.row(0), product.ld, pool);
    pool.parallel_for(n, 8, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) vector_ops().add(mean_.row(r0 + r), product.row(r), mean_.cols);
    });
  }
  tokens_ += a.rows;
}

void CrossMoment::finish(ThreadPool& pool) {
  const auto scale = static_cast<float>(1.0 / static_cast<double>(std::max<int64_t>(1, tokens_)));
  pool.parallel_for(mean_.rows, 16, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r)
      for (int64_t c = 0; c < mean_.cols; ++c) mean_.row(r)[c] *= scale;
  });
}

}  // namespace roundel
