#include "quantize/calibration/matrix.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "base/thread_pool.h"

namespace roundel {
namespace {

TEST(QuadraticForm, IsTheSumOverRowsOfTheProduct) {
  for (const int64_t k : {1, 63, 64, 200, 576, 1100}) {
    std::mt19937 rng(static_cast<unsigned>(k));
    std::normal_distribution<float> normal;
    Matrix h(k, k), d(530, k);  // more rows than are multiplied at once
    for (int64_t r = 0; r < k; ++r)
      for (int64_t c = 0; c <= r; ++c) h.row(r)[c] = h.row(c)[r] = normal(rng) + (r == c ? 20.0f : 0.0f);
    for (int64_t r = 0; r < d.rows; ++r)
      for (int64_t c = 0; c < k; ++c) d.row(r)[c] = normal(rng);
    double want = 0;
    for (int64_t r = 0; r < d.rows; ++r)
      for (int64_t i = 0; i < k; ++i) {
        double sum = 0;
        for (int64_t j = 0; j < k; ++j) sum += static_cast<double>(h.row(i)[j]) * d.row(r)[j];
        want += sum * d.row(r)[i];
      }
    ThreadPool one(1), three(3);
    const double got = QuadraticForm(h, one).sum(d, one);
    EXPECT_NEAR(got, want, 1e-5 * std::abs(want)) << k;
    EXPECT_EQ(got, QuadraticForm(h, three).sum(d, three)) << k;
  }
}

}  // namespace
}  // namespace roundel
