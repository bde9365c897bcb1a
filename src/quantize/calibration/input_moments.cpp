#include "quantize/calibration/input_moments.h"

#include <algorithm>
#include <cmath>

#include "base/thread_pool.h"

namespace roundel {

InputMoments::InputMoments(int64_t cols, bool with_second, bool with_channels)
    : cols_(cols),
      with_second_(with_second),
      with_channels_(with_channels),
      second_(with_second ? cols : 0, with_second ? cols : 0),
      sum_abs_(static_cast<size_t>(cols)),
      mean_abs_(static_cast<size_t>(cols)),
      lo_(static_cast<size_t>(cols)),
      hi_(static_cast<size_t>(cols)) {}

void InputMoments::add(const Activations& x, ThreadPool& pool) {
  CHECK(x.cols == cols_);
  if (x.rows == 0) return;
  if (with_channels_)
    pool.parallel_for(cols_, 64, [&](int64_t begin, int64_t end) { add_channels(x, begin, end); });
  if (with_second_)
    add_outer_products({x.row(0), x.ld, cols_}, {x.row(0), x.ld, cols_}, x.rows, Triangle::kLower, &second_,
                       pool);
  tokens_ += x.rows;
}

void InputMoments::add_channels(const Activations& x, int64_t c0, int64_t c1) {
  const auto at = static_cast<size_t>(c0), n = static_cast<size_t>(c1 - c0);
  if (tokens_ == 0) {
    std::copy_n(x.row(0) + c0, n, &lo_[at]);
    std::copy_n(x.row(0) + c0, n, &hi_[at]);
  }
  std::vector<float> sum(n);
  for (int64_t t = 0; t < x.rows; ++t) {
    const float* row = x.row(t) + c0;
    for (size_t c = 0; c < n; ++c) {
      sum[c] += std::abs(row[c]);
      lo_[at + c] = std::min(lo_[at + c], row[c]);
      hi_[at + c] = std::max(hi_[at + c], row[c]);
    }
  }
  for (size_t c = 0; c < n; ++c) sum_abs_[at + c] += static_cast<double>(sum[c]);
}

void InputMoments::finish(ThreadPool& pool) {
  if (finished_) return;
  finished_ = true;
  const double tokens = static_cast<double>(std::max<int64_t>(1, tokens_));
  for (size_t c = 0; c < sum_abs_.size(); ++c) mean_abs_[c] = static_cast<float>(sum_abs_[c] / tokens);
  if (!with_second_) return;
  const auto scale = static_cast<float>(1.0 / tokens);
  pool.parallel_for(cols_, 16, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r)
      for (int64_t c = 0; c <= r; ++c) second_.row(r)[c] *= scale;
  });
  pool.parallel_for(cols_, 16, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r)
      for (int64_t c = r + 1; c < cols_; ++c) second_.row(r)[c] = second_.row(c)[r];
  });
}

void InputMoments::rescale(const std::vector<float>& s) {
  CHECK(static_cast<int64_t>(s.size()) == cols_);
  for (size_t c = 0; c < s.size(); ++c) {
    mean_abs_[c] /= s[c];
    lo_[c] /= s[c];
    hi_[c] /= s[c];
  }
  for (int64_t r = 0; r < second_.rows; ++r)
    for (int64_t c = 0; c < cols_; ++c)
      second_.row(r)[c] /= s[static_cast<size_t>(r)] * s[static_cast<size_t>(c)];
}

int64_t InputMoments::bad_channel() const {
  for (int64_t c = 0; c < cols_; ++c) {
    if (!std::isfinite(sum_abs_[static_cast<size_t>(c)])) return c;
    if (with_second_ && !std::isfinite(second_.row(c)[c])) return c;
  }
  return -1;
}

}  // namespace roundel
