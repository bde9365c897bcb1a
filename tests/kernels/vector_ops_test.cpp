// The SIMD operations against the reference: bit for bit where numbers become codes, else within a few units.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "base/cpu_features.h"
#include "base/numeric.h"
#include "base/rng.h"
#include "kernels/list.h"

namespace roundel {
namespace {

const VectorOps& reference() {
  return *vector_ops_list().back();
}

std::vector<const VectorOps*> supported() {
  std::vector<const VectorOps*> list;
  for (const VectorOps* ops : vector_ops_list()) {
    if (ops->supports(cpu_features()).ok) list.push_back(ops);
  }
  return list;
}

constexpr int64_t kSizes[] = {1, 3, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 100, 128, 576, 1001, 4096};

std::vector<float> randoms(int64_t n, uint64_t seed, float span = 4) {
  std::vector<float> x(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) x[i] = span * static_cast<float>(2 * random_unit(seed, i) - 1);
  return x;
}

// |a - b| <= relative * scale, where scale bounds the numbers that were added.
void expect_close(const std::vector<float>& a, const std::vector<float>& b, double relative,
                  const char* what) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    ASSERT_NEAR(a[i], b[i], relative * std::fabs(b[i]) + 1e-37) << what << " [" << i << "] of " << a.size();
  }
}

template <class Call>
void each(Call call) {
  for (const VectorOps* ops : supported()) {
    for (const int64_t n : kSizes) {
      SCOPED_TRACE(std::string(ops->name) + " n " + std::to_string(n));
      call(*ops, n);
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

TEST(VectorOps, RmsNorm) {
  // By hand: x = 3, 4: mean square 12.5.
  const float hand[] = {3, 4}, one[] = {1, 2};
  for (const VectorOps* ops : supported()) {
    float y[2];
    ops->rms_norm(hand, one, 2, 0.5f, y);
    EXPECT_NEAR(y[0], 3 / std::sqrt(13.0), 1e-6);
    EXPECT_NEAR(y[1], 8 / std::sqrt(13.0), 1e-6);
  }
  each([](const VectorOps& ops, int64_t n) {
    const auto x = randoms(n, 1), gain = randoms(n, 2);
    std::vector<float> y(n), wanted(n);
    ops.rms_norm(x.data(), gain.data(), n, 1e-5f, y.data());
    reference().rms_norm(x.data(), gain.data(), n, 1e-5f, wanted.data());
    // The sum of squares has no cancellation: 2^-24 for each of the additions of one lane, and the roundings after it.
    expect_close(y, wanted, std::ldexp(static_cast<double>(n) / 32 + 12, -24), "rms_norm");
    auto in_place = x;
    ops.rms_norm(in_place.data(), gain.data(), n, 1e-5f, in_place.data());
    ASSERT_EQ(in_place, y);
  });
}

TEST(VectorOps, SiluAndGelu) {
  EXPECT_EQ(supported().back(), &reference());
  for (const VectorOps* ops : supported()) {  // values of PyTorch's silu and gelu(approximate="tanh")
    const float gate[] = {-3.0f, -1.0f, 0.0f, 0.5f, 2.0f}, up[] = {1, 1, 1, 1, 1};
    const float silu[] = {-0.14227762f, -0.26894143f, 0.0f, 0.31122968f, 1.7615942f};
    const float gelu[] = {-0.0036373920f, -0.15880796f, 0.0f, 0.34571401f, 1.9545977f};
    float y[5];
    ops->silu_mul(gate, up, 5, y);
    for (int i = 0; i < 5; ++i) EXPECT_NEAR(y[i], silu[i], 1e-6) << ops->name;
    ops->gelu_mul(gate, up, 5, y);
    for (int i = 0; i < 5; ++i) EXPECT_NEAR(y[i], gelu[i], 1e-6) << ops->name;
  }
  each([](const VectorOps& ops, int64_t n) {
    const auto gate = randoms(n, 3, 30), up = randoms(n, 4);
    std::vector<float> y(n), wanted(n);
    ops.silu_mul(gate.data(), up.data(), n, y.data());
    reference().silu_mul(gate.data(), up.data(), n, wanted.data());
    expect_close(y, wanted, 1e-6, "silu_mul");
    // GELU subtracts nearly equal numbers where gate is very negative, in the reference (1 + tanh) too.
    const auto small = randoms(n, 5, 3);
    ops.gelu_mul(small.data(), up.data(), n, y.data());
    reference().gelu_mul(small.data(), up.data(), n, wanted.data());
    expect_close(y, wanted, 4e-6, "gelu_mul");
  });
}

TEST(VectorOps, ExpAtItsEnds) {
  for (const VectorOps* ops : supported()) {
    for (const float z : {-1e30f, -200.0f, -88.0f, -87.0f, 87.0f, 89.0f, 200.0f, 1e30f}) {
      const float one = 1;
      float y = 0;
      ops->silu_mul(&z, &one, 1, &y);
      EXPECT_NEAR(y, z > 0 ? z : 0.0f, 1e-7f * std::fabs(y) + 1e-7f) << ops->name << " " << z;
    }
    const float nan = std::numeric_limits<float>::quiet_NaN(), one = 1;
    float y = 0;
    ops->silu_mul(&nan, &one, 1, &y);
    EXPECT_TRUE(std::isnan(y)) << ops->name;
  }
}

TEST(VectorOps, AddAxpyRopeDot) {
  each([](const VectorOps& ops, int64_t n) {
    const auto a = randoms(n, 6), b = randoms(n, 7);
    std::vector<float> y = a, wanted = a;
    ops.add(y.data(), b.data(), n);
    reference().add(wanted.data(), b.data(), n);
    ASSERT_EQ(y, wanted);
    ops.axpy(0.3f, b.data(), n, y.data());
    reference().axpy(0.3f, b.data(), n, wanted.data());
    for (int64_t i = 0; i < n; ++i) ASSERT_NEAR(y[i], wanted[i], 1e-6);
    double magnitude = 0;
    for (int64_t i = 0; i < n; ++i) magnitude += std::fabs(static_cast<double>(a[i]) * b[i]);
    ASSERT_NEAR(ops.dot(a.data(), b.data(), n), reference().dot(a.data(), b.data(), n),
                magnitude * std::ldexp(static_cast<double>(n) / 32 + 8, -24));
    std::vector<float> cos(n), sin(n);
    for (int64_t i = 0; i < n; ++i) cos[i] = std::cos(a[i]), sin[i] = std::sin(a[i]);
    auto x = randoms(2 * n, 8);
    auto x_wanted = x;
    ops.rope(x.data(), cos.data(), sin.data(), n);
    reference().rope(x_wanted.data(), cos.data(), sin.data(), n);
    for (int64_t i = 0; i < 2 * n; ++i) ASSERT_NEAR(x[i], x_wanted[i], 1e-6);
  });
}

// Rows on which rounding is delicate: ties, zeros, one huge value, subnormals.
std::vector<std::vector<float>> delicate_rows(int64_t n) {
  std::vector<std::vector<float>> rows = {randoms(n, 9), randoms(n, 10, 1e-3f), randoms(n, 11, 1e6f),
                                          std::vector<float>(n, 0.0f), randoms(n, 12, 1e-39f)};
  std::vector<float> ties(n);
  for (int64_t i = 0; i < n; ++i) ties[i] = 0.5f * static_cast<float>(i % 256 - 128);
  ties[0] = 127.5f;  // the scale is 1
  rows.push_back(ties);
  rows.push_back(randoms(n, 13));
  rows.back()[n / 2] = -1e4f;
  rows.push_back(randoms(n, 14));
  for (float& x : rows.back()) x = std::fabs(x) + 1;  // one sign: zero must be representable still
  return rows;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

TEST(VectorOps, QuantizersAreBitEqual) {
  each([](const VectorOps& ops, int64_t n) {
    for (const std::vector<float>& x : delicate_rows(n)) {
      std::vector<int8_t> codes(n + 1, 99), wanted(n + 1, 99);
      ASSERT_EQ(ops.quantize_int8_sym(x.data(), n, codes.data()),
                reference().quantize_int8_sym(x.data(), n, wanted.data()));
      ASSERT_EQ(codes, wanted);
      int32_t zero = 0, wanted_zero = 0;
      ASSERT_EQ(ops.quantize_int8_asym(x.data(), n, codes.data(), &zero),
                reference().quantize_int8_asym(x.data(), n, wanted.data(), &wanted_zero));
      ASSERT_EQ(zero, wanted_zero);
      ASSERT_EQ(codes, wanted);
      ops.quantize_int8_static(x.data(), n, 0.037f, -5, codes.data());
      reference().quantize_int8_static(x.data(), n, 0.037f, -5, wanted.data());
      ASSERT_EQ(codes, wanted);
      for (const float scale : {0.0f, 0.013f}) {
        std::vector<float> y(n), y_wanted(n);
        ops.fake_quantize_e4m3(x.data(), n, scale, y.data());
        reference().fake_quantize_e4m3(x.data(), n, scale, y_wanted.data());
        ASSERT_TRUE(same_bits(y, y_wanted)) << "e4m3 scale " << scale;
        for (const int bits : {2, 4, 8}) {
          ops.fake_quantize_int(x.data(), n, bits, scale, y.data());
          reference().fake_quantize_int(x.data(), n, bits, scale, y_wanted.data());
          ASSERT_TRUE(same_bits(y, y_wanted)) << "int" << bits << " scale " << scale;
        }
      }
    }
  });
}

// Quotients that are a half, or next to one, or no number, or out of reach, of scales of every size.
TEST(VectorOps, QuotientsNextToAHalfRoundAsTheReferenceDoes) {
  for (const VectorOps* ops : supported()) {
    for (int i = 0; i < 400; ++i) {
      const float scale = std::ldexp(1 + static_cast<float>(random_unit(21, static_cast<uint64_t>(i))),
                                     i < 40 ? 6 * i - 120 : i % 40 - 30);
      std::vector<float> x;
      for (int half = -261; half <= 261; half += 2) {
        const float middle = 0.5f * static_cast<float>(half) * scale;
        float up = middle, down = middle;
        x.push_back(middle);
        for (int step = 0; step < 4; ++step) {
          x.push_back(up = std::nextafter(up, 1e38f));
          x.push_back(down = std::nextafter(down, -1e38f));
        }
        x.push_back(middle * (1 + 0x1p-12f));
      }
      for (const float far : {0.0f, -0.0f, 1e30f, -3e38f, INFINITY, -INFINITY, std::nanf(""), 1e-40f})
        x.push_back(far);
      std::vector<int8_t> codes(x.size()), wanted(x.size());
      const auto n = static_cast<int64_t>(x.size());
      ops->quantize_int8_static(x.data(), n, scale, 0, codes.data());
      reference().quantize_int8_static(x.data(), n, scale, 0, wanted.data());
      for (size_t j = 0; j < x.size(); ++j) {
        if (std::isnan(x[j])) continue;
        ASSERT_EQ(codes[j], wanted[j]) << ops->name << " " << x[j] << " / " << scale;
      }
    }
  }
}

TEST(VectorOps, QuantizersFollowTheirDefinition) {
  for (const VectorOps* ops : supported()) {
    const float x[] = {-127.5f, 127.5f, 0.5f, 1.5f, -0.5f, -2.5f, 0.0f, 100.2f};
    int8_t codes[8];
    EXPECT_EQ(ops->quantize_int8_sym(x, 8, codes), 1.0f);
    const int8_t wanted[] = {-128, 127, 0, 2, 0, -2, 0, 100};
    for (int i = 0; i < 8; ++i) EXPECT_EQ(codes[i], wanted[i]) << ops->name << " " << i;
    const float zeros[3] = {};
    EXPECT_EQ(ops->quantize_int8_sym(zeros, 3, codes), std::numeric_limits<float>::epsilon());
    EXPECT_EQ(codes[0], 0);
    const float y[] = {0.0f, 255.0f, 1.0f, 254.4f};
    int32_t zero = 1;
    EXPECT_EQ(ops->quantize_int8_asym(y, 4, codes, &zero), 1.0f);
    EXPECT_EQ(zero, -128);
    EXPECT_EQ(codes[0], -128);
    EXPECT_EQ(codes[1], 127);
    EXPECT_EQ(codes[3], 126);
    // Every E4M3 value and the middles between neighbours, scale 1.
    for (int code = 0; code < 0x7e; ++code) {
      const float low = e4m3_to_float(static_cast<uint8_t>(code)),
                  high = e4m3_to_float(static_cast<uint8_t>(code + 1));
      const float in[] = {low, (low + high) / 2, -high, std::nextafter((low + high) / 2, 1e9f)};
      float out[4];
      ops->fake_quantize_e4m3(in, 4, 1.0f, out);
      EXPECT_EQ(out[0], low) << ops->name;
      EXPECT_EQ(out[1], code % 2 == 0 ? low : high) << ops->name << " tie above " << low;
      EXPECT_EQ(out[2], -high) << ops->name;
      EXPECT_EQ(out[3], high) << ops->name;
    }
  }
}

TEST(VectorOps, OuterProducts) {
  // By hand: two tokens, (1,2)^T (3) + (4,5)^T (6) = (27, 36), added to what is there.
  const float a[] = {1, 2, 4, 5}, b[] = {3, 6};
  for (const VectorOps* ops : supported()) {
    float h[] = {100, 200};
    ops->outer_products(a, 2, 2, b, 1, 1, 2, h, 1);
    EXPECT_EQ(h[0], 127) << ops->name;
    EXPECT_EQ(h[1], 236) << ops->name;
  }
  for (const VectorOps* ops : supported()) {
    for (const auto& [m, n, tokens] : {std::array<int64_t, 3>{1, 1, 1},
                                       {13, 31, 127},
                                       {14, 32, 128},
                                       {15, 33, 129},
                                       {29, 17, 300},
                                       {112, 128, 512}}) {
      SCOPED_TRACE(fmt::format("{} m {} n {} tokens {}", ops->name, m, n, tokens));
      const int64_t lda = m + 3, ldb = n + 2, ldh = n + 1;
      const std::vector<float> left = randoms(lda * tokens, 21), right = randoms(ldb * tokens, 22);
      std::vector<float> h = randoms(ldh * m, 23), expected = h;
      ops->outer_products(left.data(), lda, m, right.data(), ldb, n, tokens, h.data(), ldh);
      reference().outer_products(left.data(), lda, m, right.data(), ldb, n, tokens, expected.data(), ldh);
      // A sum of `tokens` products of at most 16, of 24 bits.
      for (size_t i = 0; i < h.size(); ++i) ASSERT_NEAR(h[i], expected[i], 16.0 * tokens * 0x1p-23);
      for (int64_t r = 0; r < m; ++r) ASSERT_EQ(h[r * ldh + n], expected[r * ldh + n]);  // beside the matrix
    }
  }
}

TEST(VectorOps, NotFiniteNumbersDoNotVanish) {
  for (const VectorOps* ops : supported()) {
    for (const int64_t at : {0, 5, 36}) {
      auto x = randoms(37, 15);
      x[at] = std::numeric_limits<float>::quiet_NaN();
      std::vector<int8_t> codes(37);
      std::vector<float> y(37);
      int32_t zero = 0;
      EXPECT_TRUE(std::isnan(ops->quantize_int8_sym(x.data(), 37, codes.data()))) << ops->name;
      EXPECT_TRUE(std::isnan(ops->quantize_int8_asym(x.data(), 37, codes.data(), &zero))) << ops->name;
      ops->fake_quantize_e4m3(x.data(), 37, 0.1f, y.data());
      EXPECT_TRUE(std::isnan(y[at])) << ops->name;
      ops->fake_quantize_e4m3(x.data(), 37, 0.0f, y.data());
      EXPECT_TRUE(std::isnan(y[at])) << ops->name;
      x[at] = -std::numeric_limits<float>::infinity();
      EXPECT_EQ(ops->quantize_int8_sym(x.data(), 37, codes.data()), std::numeric_limits<float>::infinity());
      ops->fake_quantize_e4m3(x.data(), 37, 1.0f, y.data());
      EXPECT_EQ(y[at], -448.0f) << ops->name;
    }
  }
}

}  // namespace
}  // namespace roundel
