#include "quantize/calibration/cross_moment.h"

#include <algorithm>

#include "base/thread_pool.h"

namespace roundel {

void CrossMoment::add(const Activations& a, const Activations& b, const Activations& x, ThreadPool& pool) {
  CHECK(a.cols == mean_.rows && x.cols == mean_.cols && a.rows == x.rows);
  if (a.rows == 0) return;
  difference_.reshape(a.rows, a.cols);
  pool.parallel_for(a.rows, 16, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t)
      for (int64_t c = 0; c < a.cols; ++c) difference_.row(t)[c] = a.row(t)[c] - b.row(t)[c];
  });
  add_outer_products({difference_.row(0), difference_.ld, a.cols}, {x.row(0), x.ld, x.cols}, a.rows,
                     Triangle::kWhole, &mean_, pool);
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
