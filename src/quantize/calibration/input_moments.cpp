#include "quantize/calibration/input_moments.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/thread_pool.h"

namespace roundel {
namespace {

constexpr int64_t kPanel = 128;

}  // namespace

InputMoments::InputMoments(int64_t cols, bool with_second, bool with_channels)
    : cols_(cols),
      with_second_(with_second),
      with_channels_(with_channels),
      part_(with_second || with_channels ? cols : 0, kPart),
      second_(with_second ? cols : 0, with_second ? cols : 0),
      product_(with_second ? cols : 0, kPanel),
      sum_abs_(static_cast<size_t>(cols)),
      mean_abs_(static_cast<size_t>(cols)),
      lo_(static_cast<size_t>(cols)),
      hi_(static_cast<size_t>(cols)) {}

void InputMoments::add(const Activations& x, ThreadPool& pool) {
  CHECK(x.cols == cols_);
  if (part_.rows == 0) return;
  for (int64_t t = 0; t < x.rows;) {
    const int64_t n = std::min(x.rows - t, kPart - filled_);
    pool.parallel_for(cols_, 16, [&](int64_t begin, int64_t end) {
      for (int64_t c0 = begin; c0 < end; c0 += 16) {
        const int64_t c1 = std::min(end, c0 + 16);
        for (int64_t i = 0; i < n; ++i) {
          const float* from = x.row(t + i);
          for (int64_t c = c0; c < c1; ++c) part_.row(c)[filled_ + i] = from[c];
        }
      }
    });
    filled_ += n;
    t += n;
    if (filled_ == kPart) take_part(pool);
  }
}

void InputMoments::add_channel(size_t c, const float* row) {
  float sum = 0;
  if (tokens_ == 0) lo_[c] = hi_[c] = row[0];
  for (int64_t t = 0; t < filled_; ++t) {
    sum += std::abs(row[t]);
    lo_[c] = std::min(lo_[c], row[t]);
    hi_[c] = std::max(hi_[c], row[t]);
  }
  sum_abs_[c] += static_cast<double>(sum);
}

void InputMoments::take_part(ThreadPool& pool) {
  if (filled_ == 0) return;
  pool.parallel_for(cols_, 4, [&](int64_t begin, int64_t end) {
    for (int64_t c = begin; c < end; ++c) {
      float* row = part_.row(c);
      if (filled_ < kPart)
        std::memset(row + filled_, 0, static_cast<size_t>(kPart - filled_) * sizeof(float));
      if (with_channels_) add_channel(static_cast<size_t>(c), row);
    }
  });
  if (with_second_) {
    for (int64_t c0 = 0; c0 < cols_; c0 += kPanel) {
      const int64_t n = std::min(kPanel, cols_ - c0);
      const PackedMatrix right(part_.row(c0), n, kPart, part_.ld, pool);
      // The lower triangle only, in panels.
      right.multiply(part_.row(c0), cols_ - c0, part_.ld, product_.row(0), product_.ld, pool);
      pool.parallel_for(cols_ - c0, 8, [&](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r) vector_ops().add(second_.row(c0 + r) + c0, product_.row(r), n);
      });
    }
  }
  tokens_ += filled_;
  filled_ = 0;
}

void InputMoments::finish(ThreadPool& pool) {
  if (finished_) return;
  finished_ = true;
  take_part(pool);
  part_ = Matrix();
  product_ = Matrix();
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
