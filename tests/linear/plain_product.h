// Random weights and inputs, and what their product must be: plain loops in double over dequantized values.
#pragma once
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "base/checked.h"
#include "base/numeric.h"
#include "base/rng.h"
#include "base/thread_pool.h"
#include "linear/linear.h"
#include "scheme/scheme_text.h"

namespace roundel {

// E4M3 by its definition (OCP 8-bit floating point, 2023): sign, 4 bits of exponent with bias 7, 3 of mantissa.
inline double e4m3_value(uint8_t code) {
  const int exponent = code >> 3 & 15, mantissa = code & 7;
  const double size = exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, exponent - 10);
  return code & 0x80 ? -size : size;
}
// The nearest E4M3 value, ties to even, at most 448.
inline double e4m3_round(double x) {
  const double size = std::min(std::fabs(x), 448.0);
  const int exponent = size > 0 ? std::max(std::ilogb(size), -6) : -6;
  return std::copysign(std::ldexp(std::nearbyint(std::ldexp(size, 3 - exponent)), exponent - 3), x);
}

struct PlainWeight {
  Scheme scheme;
  DType dtype = DType::kF32;
  int64_t n = 0, k = 0;
  QuantizedRows rows;                    // all of them; unused when dense
  std::vector<uint8_t> dense;            // (N,K) in dtype
  std::vector<int32_t> group_of_column;  // empty: plain order

  double at(int64_t r, int64_t c) const {
    if (!scheme.weights) {
      float value = 0;
      const size_t size = dtype_size(dtype);
      widen_to_float(dtype, dense.data() + static_cast<size_t>(r * k + c) * size, &value, 1);
      return value;
    }
    const int64_t width = group_width(*scheme.weights, k);
    const int64_t g = group_of_column.empty() ? c / width : group_of_column[static_cast<size_t>(c)];
    const size_t at = static_cast<size_t>(r * rows.groups + g);
    const int8_t code = rows.codes[static_cast<size_t>(r * k + c)];
    const double value = scheme.weights->type == NumberType::kFloat
                             ? e4m3_value(static_cast<uint8_t>(code))
                             : code - (rows.zero_points.empty() ? 0 : rows.zero_points[at]);
    return value * static_cast<double>(rows.scales[at]);
  }
};

// `text`: a scheme, or the dtype of a dense weight.
inline PlainWeight random_weight(const std::string& text, int64_t n, int64_t k, uint64_t seed) {
  PlainWeight w;
  w.n = n, w.k = k;
  uint64_t counter = 0;
  const auto random = [&] { return random_unit(seed, counter++); };
  if (const auto dtype = dtype_from_name(text)) {
    w.dtype = *dtype;
    w.dense.resize(static_cast<size_t>(n * k) * dtype_size(*dtype));
    std::vector<float> values(static_cast<size_t>(n * k));
    for (float& v : values) v = static_cast<float>(2 * random() - 1);
    narrow_from_float(*dtype, values.data(), w.dense.data(), values.size());
    return w;
  }
  w.scheme = parse_scheme_text(text, "test").scheme;
  const QuantArgs& a = *w.scheme.weights;
  QuantizedRows& rows = w.rows;
  rows.rows = n, rows.cols = k;
  rows.groups = ceil_div(k, group_width(a, k));
  const int span = 1 << a.num_bits;
  for (int64_t i = 0; i < n * k; ++i) {
    int code = static_cast<int>(random() * span) - span / 2;
    if (a.type == NumberType::kFloat && (code & 0x7f) == 0x7f) code = 0x7e;  // no NaN
    rows.codes.push_back(static_cast<int8_t>(code));
  }
  for (int64_t i = 0; i < n * rows.groups; ++i) {
    rows.scales.push_back(0.002f + 0.02f * static_cast<float>(random()));
    if (!a.symmetric)
      rows.zero_points.push_back(static_cast<int8_t>(static_cast<int>(random() * span) - span / 2));
  }
  return w;
}

struct PlainInput {
  int64_t m = 0, k = 0, ldx = 0;
  std::vector<float> x;  // (M,ldx)
  float static_scale = 0;
  int32_t static_zero = 0;
};

inline PlainInput random_input(int64_t m, int64_t k, uint64_t seed) {
  PlainInput in;
  in.m = m, in.k = k, in.ldx = round_up(k, kColumnUnit);
  in.x.resize(static_cast<size_t>(m * in.ldx), 0.0f);
  for (int64_t t = 0; t < m; ++t)
    for (int64_t c = 0; c < k; ++c)
      in.x[static_cast<size_t>(t * in.ldx + c)] =
          static_cast<float>(3 * random_unit(seed, static_cast<uint64_t>(t * k + c)) - 1);
  return in;
}

// What the input's quantizer leaves of the values: compressed-tensors' formulas (round half to even, after clamping).
inline void quantize_input(const QuantArgs& a, float static_scale, int32_t static_zero, const float* x,
                           int64_t n, double* out) {
  float lo = 0, hi = 0;
  for (int64_t i = 0; i < n; ++i) lo = std::min(lo, x[i]), hi = std::max(hi, x[i]);
  const float amax = std::max(-lo, hi);
  if (a.type == NumberType::kFloat) {
    const float scale = static_scale > 0 ? static_scale : amax / 448.0f;
    for (int64_t i = 0; i < n; ++i) out[i] = e4m3_round(x[i] / scale) * static_cast<double>(scale);
    return;
  }
  const float steps = static_cast<float>((1 << a.num_bits) - 1);
  const float least = -static_cast<float>(1 << (a.num_bits - 1)), most = -least - 1;
  float scale = static_scale, zero = static_cast<float>(static_zero);
  if (static_scale == 0 && a.symmetric) scale = amax / (steps / 2);
  if (static_scale == 0 && !a.symmetric) {
    scale = (hi - lo) / steps;
    zero = std::nearbyint(std::clamp(least - lo / scale, least, most));
  }
  for (int64_t i = 0; i < n; ++i)
    out[i] = static_cast<double>(std::nearbyint(std::clamp(x[i] / scale + zero, least, most)) - zero) *
             static_cast<double>(scale);
}

// Chunks of kRowUnit rows, the last ones first.
inline void pack_all(Linear& linear, const PlainWeight& w) {
  for (int64_t row0 = (w.n - 1) / kRowUnit * kRowUnit; row0 >= 0; row0 -= kRowUnit) {
    const int64_t rows = std::min(kRowUnit, w.n - row0);
    if (!w.scheme.weights) {
      linear.pack_dense(row0, rows, w.dense.data() + static_cast<size_t>(row0 * w.k) * dtype_size(w.dtype));
      continue;
    }
    QuantizedRows part;
    part.row0 = row0, part.rows = rows, part.cols = w.k, part.groups = w.rows.groups;
    const auto slice = [&](const auto& from, int64_t width, auto& to) {
      if (!from.empty()) to.assign(from.begin() + row0 * width, from.begin() + (row0 + rows) * width);
    };
    slice(w.rows.codes, w.k, part.codes);
    slice(w.rows.scales, part.groups, part.scales);
    slice(w.rows.zero_points, part.groups, part.zero_points);
    linear.pack(part);
  }
}

// Float sums of K terms, each wrong by 2^-24 of a partial sum that the sum of magnitudes bounds.
inline void expect_product(const Linear& linear, const PlainWeight& w, const PlainInput& in,
                           const Scheme& scheme, const std::vector<float>& bias) {
  ThreadPool pool(2);
  const int64_t ldy = w.n + 3;
  std::vector<float> y(static_cast<size_t>(in.m * ldy), -12345.0f);
  LinearInput input(in.x.data(), in.m, in.k, in.ldx);
  linear.forward(input, y.data(), ldy, pool);
  std::vector<double> x(static_cast<size_t>(in.k));
  for (int64_t t = 0; t < in.m; ++t) {
    const float* token = in.x.data() + t * in.ldx;
    const bool grouped = scheme.input && scheme.input->strategy == Strategy::kGroup;
    const int64_t width = grouped ? scheme.input->group_size : in.k;
    for (int64_t c = 0; c < in.k; c += width) {
      const int64_t count = std::min(width, in.k - c);
      if (scheme.input) {
        quantize_input(*scheme.input, in.static_scale, in.static_zero, token + c, count, x.data() + c);
      } else {
        std::copy(token + c, token + c + count, x.data() + c);
      }
    }
    for (int64_t n = 0; n < w.n; ++n) {
      double sum = bias.empty() ? 0 : bias[static_cast<size_t>(n)], magnitude = std::fabs(sum);
      for (int64_t c = 0; c < in.k; ++c) {
        sum += x[static_cast<size_t>(c)] * w.at(n, c);
        // |x| + 1: with a zero point both products are formed and subtracted
        magnitude += (std::fabs(x[static_cast<size_t>(c)]) + 1) * std::fabs(w.at(n, c));
      }
      // A kernel that rounds activations to BF16 is wrong by half a unit in the last place of each.
      const double rounding = linear.kernel().round_x ? 0x1p-8 : 0;
      ASSERT_NEAR(y[static_cast<size_t>(t * ldy + n)], sum, magnitude * (300 * 0x1p-24 + rounding))
          << "token " << t << " row " << n;
    }
    for (int64_t n = w.n; n < ldy; ++n) ASSERT_EQ(y[static_cast<size_t>(t * ldy + n)], -12345.0f);
  }
}

}  // namespace roundel
