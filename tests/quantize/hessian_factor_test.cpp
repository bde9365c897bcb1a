#include "quantize/calibration/hessian_factor.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/rng.h"
#include "base/thread_pool.h"

namespace roundel {
namespace {

// A A^T / n with more columns than rows: positive definite.
Matrix moment(int64_t n, uint64_t seed) {
  Matrix h(n, n);
  const int64_t m = 2 * n;
  std::vector<double> a(static_cast<size_t>(n * m));
  for (size_t i = 0; i < a.size(); ++i) a[i] = random_unit(seed, i) - 0.5;
  for (int64_t r = 0; r < n; ++r)
    for (int64_t c = 0; c < n; ++c) {
      double s = 0;
      for (int64_t k = 0; k < m; ++k)
        s += a[static_cast<size_t>(r * m + k)] * a[static_cast<size_t>(c * m + k)];
      h.row(r)[c] = static_cast<float>(s / static_cast<double>(m));
    }
  return h;
}

TEST(HessianFactor, IsTheUpperFactorOfTheInverse) {
  ThreadPool pool(3);
  for (const int64_t n : {1, 5, 64, 65, 130}) {
    const Matrix h = moment(n, 1);
    for (const bool descending : {false, true}) {
      const HessianFactor f = factorize(h, {0.01, descending}, pool);
      ASSERT_FALSE(f.failed);
      double mean = 0;
      for (int64_t i = 0; i < n; ++i) mean += static_cast<double>(h.row(i)[i]) / static_cast<double>(n);
      // U (H + damping) U^T = 1, in visiting order.
      double worst = 0;
      for (int64_t i = 0; i < n; ++i)
        for (int64_t j = 0; j < n; ++j) {
          double s = 0;
          for (int64_t a = i; a < n; ++a)
            for (int64_t b = j; b < n; ++b) {
              const int32_t r = f.order[static_cast<size_t>(a)], c = f.order[static_cast<size_t>(b)];
              const double value = static_cast<double>(h.row(r)[c]) + (a == b ? 0.01 * mean : 0.0);
              s += static_cast<double>(f.upper.row(i)[a]) * value * static_cast<double>(f.upper.row(j)[b]);
            }
          worst = std::max(worst, std::abs(s - (i == j ? 1.0 : 0.0)));
          if (n > 70 && j > i + 3) break;  // enough of the large ones
        }
      EXPECT_LT(worst, 2e-5) << n;
      for (int64_t i = 1; i < n && descending; ++i) {
        const int32_t a = f.order[static_cast<size_t>(i - 1)], b = f.order[static_cast<size_t>(i)];
        EXPECT_GE(h.row(a)[a], h.row(b)[b]);
      }
    }
  }
}

TEST(HessianFactor, RaisesTheDampeningWhereTheMatrixIsNotPositive) {
  ThreadPool pool(1);
  Matrix h = moment(8, 2);
  h.row(3)[4] = h.row(4)[3] = 1.2f * h.row(3)[3];  // no second moment looks so
  const HessianFactor f = factorize(h, {0.01, false}, pool);
  EXPECT_FALSE(f.failed);
  EXPECT_GT(f.dampening, 0.01);
  for (int64_t i = 0; i < 8; ++i) h.row(i)[i] = NAN;
  EXPECT_TRUE(factorize(h, {0.01, false}, pool).failed);
}

TEST(HessianFactor, DoesNotDependOnThreads) {
  const Matrix h = moment(190, 3);
  ThreadPool one(1), four(4);
  const HessianFactor a = factorize(h, {}, one), b = factorize(h, {}, four);
  for (int64_t i = 0; i < 190; ++i)
    for (int64_t j = 0; j < 190; ++j) ASSERT_EQ(a.upper.row(i)[j], b.upper.row(i)[j]);
}

}  // namespace
}  // namespace roundel
