// Codes and scales of one row in turn, on the exact error (v - w) H (v - w)^T of its values v.
#include <algorithm>
#include <cmath>

#include "base/thread_pool.h"
#include "quantize/calibration/best.h"
#include "quantize/calibration/code_rule.h"

namespace roundel {
namespace {

constexpr int kSweeps = 4;
constexpr int64_t kMostGroups = 128;

// a x = b for a small symmetric positive definite a (n,n); false when it is not.
bool solve(std::vector<double> a, std::vector<double> b, std::vector<double>* x) {
  const size_t n = b.size();
  for (size_t j = 0; j < n; ++j) {
    for (size_t i = j; i < n; ++i) {
      double s = a[i * n + j];
      for (size_t k = 0; k < j; ++k) s -= a[i * n + k] * a[j * n + k];
      if (i == j) {
        if (!(s > 0)) return false;
        a[j * n + j] = std::sqrt(s);
      } else {
        a[i * n + j] = s / a[j * n + j];
      }
    }
  }
  for (size_t i = 0; i < n; ++i) {
    for (size_t k = 0; k < i; ++k) b[i] -= a[i * n + k] * b[k];
    b[i] /= a[i * n + i];
  }
  for (size_t i = n; i-- > 0;) {
    for (size_t k = i + 1; k < n; ++k) b[i] -= a[k * n + i] * b[k];
    b[i] /= a[i * n + i];
  }
  *x = std::move(b);
  return true;
}

class RowRefiner {
 public:
  RowRefiner(const QuantArgs& args, DType dtype, const Matrix& second, const std::vector<int32_t>& order,
             int64_t groups, bool scales_free)
      : rule_(args),
        dtype_(dtype),
        h_(second),
        order_(order),
        width_(group_width(args, second.cols)),
        groups_(groups),
        scales_free_(scales_free && groups <= kMostGroups),
        gradient_(static_cast<size_t>(second.cols)),
        parts_(scales_free_ ? groups : 1, second.cols) {}

  // wh: w . H. codes, scales, zeros: of the row.
  void run(const float* w, const float* wh, int8_t* codes, float* scales, const int8_t* zeros, int rounds) {
    for (int i = 0; i < rounds; ++i) {
      if (scales_free_) {
        multiply_groups(codes, zeros);
        fit_scales(w, codes, scales, zeros);
        for (int64_t c = 0; c < h_.cols; ++c) gradient_[static_cast<size_t>(c)] = -wh[c];
        for (int64_t g = 0; g < groups_; ++g)
          vector_ops().axpy(scales[g], parts_.row(g), h_.cols, gradient_.data());
      } else {
        for (int64_t c = 0; c < h_.cols; ++c) gradient_[static_cast<size_t>(c)] = -wh[c];
        for (int64_t c = 0; c < h_.cols; ++c)
          vector_ops().axpy(value(codes, scales, zeros, c), h_.row(c), h_.cols, gradient_.data());
      }
      if (descend(codes, scales, zeros) == 0) return;
    }
  }

 private:
  float zero(const int8_t* zeros, int64_t g) const { return zeros ? static_cast<float>(zeros[g]) : 0.0f; }
  float value(const int8_t* codes, const float* scales, const int8_t* zeros, int64_t c) const {
    const int64_t g = c / width_;
    return rule_.value(codes[c], scales[g], zero(zeros, g));
  }
  // The value of a code where the scale is 1.
  float unit(const int8_t* codes, const int8_t* zeros, int64_t c) const {
    return rule_.value(codes[c], 1.0f, zero(zeros, c / width_));
  }

  // parts_[g] = sum over the columns of group g of unit * H[c,:]
  void multiply_groups(const int8_t* codes, const int8_t* zeros) {
    for (int64_t g = 0; g < groups_; ++g) {
      float* part = parts_.row(g);
      std::fill(part, part + h_.cols, 0.0f);
      const int64_t c1 = std::min(h_.cols, (g + 1) * width_);
      for (int64_t c = g * width_; c < c1; ++c) {
        const float u = unit(codes, zeros, c);
        if (u != 0) vector_ops().axpy(u, h_.row(c), h_.cols, part);
      }
    }
  }

  // Least squares: the scales for which these codes have the least error.
  void fit_scales(const float* w, const int8_t* codes, float* scales, const int8_t* zeros) {
    const auto n = static_cast<size_t>(groups_);
    std::vector<double> a(n * n), b(n), s;
    for (size_t g = 0; g < n; ++g) {
      const float* part = parts_.row(static_cast<int64_t>(g));
      for (int64_t c = 0; c < h_.cols; ++c) {
        const auto p = static_cast<double>(part[c]);
        a[g * n + static_cast<size_t>(c / width_)] += p * static_cast<double>(unit(codes, zeros, c));
        b[g] += p * static_cast<double>(w[c]);
      }
    }
    for (size_t g = 0; g < n; ++g)
      if (a[g * n + g] == 0) a[g * n + g] = 1;  // a group of zeros: any scale will do
    if (!solve(a, b, &s)) return;
    const auto error = [&](const auto& scale) {
      double e = 0;
      for (size_t g = 0; g < n; ++g) {
        double row = 0;
        for (size_t k = 0; k < n; ++k) row += a[g * n + k] * static_cast<double>(scale(k));
        e += static_cast<double>(scale(g)) * (row - 2 * b[g]);
      }
      return e;
    };
    std::vector<float> fitted(n);
    for (size_t g = 0; g < n; ++g) {
      fitted[g] = round_to(dtype_, static_cast<float>(s[g]));
      // A scale far from the range of its weights would serve these codes only.
      if (!(fitted[g] > 0.5f * scales[g] && fitted[g] < 2.0f * scales[g])) fitted[g] = scales[g];
    }
    if (error([&](size_t g) { return fitted[g]; }) < error([&](size_t g) { return scales[g]; }))
      std::copy(fitted.begin(), fitted.end(), scales);
  }

  // Sweeps of coordinate descent; returns how many codes changed.
  int64_t descend(int8_t* codes, const float* scales, const int8_t* zeros) {
    int64_t changes = 0;
    for (int sweep = 0; sweep < kSweeps; ++sweep) {
      int64_t in_sweep = 0;
      for (const int32_t c : order_) {
        const float curvature = h_.row(c)[c];
        if (!(curvature > 0)) continue;
        const int64_t g = c / width_;
        const float now = rule_.value(codes[c], scales[g], zero(zeros, g));
        const float wanted = now - gradient_[static_cast<size_t>(c)] / curvature;
        const int8_t code = rule_.code(wanted, scales[g], zero(zeros, g));
        if (code == codes[c]) continue;
        const float change = rule_.value(code, scales[g], zero(zeros, g)) - now;
        codes[c] = code;
        vector_ops().axpy(change, h_.row(c), h_.cols, gradient_.data());
        ++in_sweep;
      }
      changes += in_sweep;
      if (in_sweep == 0) break;
    }
    return changes;
  }

  CodeRule rule_;
  DType dtype_;
  const Matrix& h_;
  const std::vector<int32_t>& order_;
  int64_t width_, groups_;
  bool scales_free_;
  std::vector<float> gradient_;
  Matrix parts_;  // (groups,k)
};

}  // namespace

void refine(const Matrix& w, const QuantArgs& args, DType dtype, const Matrix& second,
            const std::vector<int32_t>& order, int rounds, QuantizedRows* rows, ThreadPool& pool) {
  const bool free = args.strategy == Strategy::kGroup || args.strategy == Strategy::kChannel;
  Matrix wh(w.rows, w.cols);
  PackedMatrix(second, pool).multiply(w.row(0), w.rows, w.ld, wh.row(0), wh.ld, pool);
  pool.parallel_for(w.rows, 4, [&](int64_t begin, int64_t end) {
    RowRefiner refiner(args, dtype, second, order, rows->groups, free);
    for (int64_t r = begin; r < end; ++r) {
      const int8_t* zeros = rows->zero_points.empty() ? nullptr : rows->zero_points.data() + r * rows->groups;
      refiner.run(w.row(r), wh.row(r), rows->codes.data() + r * rows->cols,
                  rows->scales.data() + r * rows->groups, zeros, rounds);
    }
  });
}

}  // namespace roundel
