#include "codec/dequantize.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/numeric.h"
#include "tensor/tensor.h"

namespace roundel {
namespace {

std::array<float, 256> make_e4m3_values() {
  std::array<float, 256> values;
  for (size_t i = 0; i < values.size(); ++i) values[i] = e4m3_to_float(static_cast<uint8_t>(i));
  return values;
}

// For finite products; unlike round_bf16() without a branch, so that loops vectorize. Infinity and NaN stay what they are.
float round_product_bf16(float x) {
  const uint32_t u = float_bits(x);
  return bits_float((u + 0x7fffu + ((u >> 16) & 1)) & 0xffff0000u);
}

// Round: float -> float. q - zero_point is an integer of 9 bits at most or an E4M3 value: exact in every dtype.
template <class Round>
void dequantize_group(NumberType type, const int8_t* codes, int64_t n, float scale, float zero_point,
                      float* out, Round round) {
  if (type == NumberType::kFloat) {
    static const std::array<float, 256> kValues = make_e4m3_values();
    for (int64_t i = 0; i < n; ++i) out[i] = round(kValues[static_cast<uint8_t>(codes[i])] * scale);
    return;
  }
  for (int64_t i = 0; i < n; ++i) out[i] = round((static_cast<float>(codes[i]) - zero_point) * scale);
}

void dequantize_row(const QuantArgs& args, DType dtype, const QuantizedRows& rows, int64_t r, float* out) {
  const int64_t width = group_width(args, rows.cols);
  for (int64_t g = 0, c = 0; g < rows.groups; ++g, c += width) {
    const int64_t n = std::min(width, rows.cols - c);
    const auto at = static_cast<size_t>(r * rows.groups + g);
    const int8_t* codes = rows.codes.data() + r * rows.cols + c;
    const float zero = rows.zero_points.empty() ? 0.0f : static_cast<float>(rows.zero_points[at]);
    const float scale = rows.scales[at];
    if (dtype == DType::kBF16) {
      dequantize_group(args.type, codes, n, scale, zero, out + c,
                       [](float x) { return round_product_bf16(x); });
    } else if (dtype == DType::kF16) {
      dequantize_group(args.type, codes, n, scale, zero, out + c, [](float x) { return round_f16(x); });
    } else {
      dequantize_group(args.type, codes, n, scale, zero, out + c, [](float x) { return x; });
    }
  }
}

}  // namespace

void dequantize(const QuantArgs& args, DType dtype, const QuantizedRows& rows, float* out) {
  for (int64_t r = 0; r < rows.rows; ++r) dequantize_row(args, dtype, rows, r, out + r * rows.cols);
}

RowErrorMeter::RowErrorMeter(const QuantArgs& args, DType dtype, int64_t cols)
    : args_(args), dtype_(dtype), weights_(static_cast<size_t>(cols)), values_(static_cast<size_t>(cols)) {}

RowError RowErrorMeter::measure(const void* source, const QuantizedRows& rows, int64_t r) {
  widen_to_float(dtype_, source, weights_.data(), weights_.size());
  dequantize_row(args_, dtype_, rows, r, values_.data());
  // Eight sums side by side: one would wait for each addition. Their order is fixed, so the result is too.
  constexpr size_t kLanes = 8;
  double error[kLanes] = {}, weight[kLanes] = {};
  const auto add = [&](size_t i, size_t lane) {
    const double w = static_cast<double>(weights_[i]);
    const double d = w - static_cast<double>(values_[i]);
    // 0 for values that are not finite.
    const bool finite = std::abs(weights_[i]) <= std::numeric_limits<float>::max();
    error[lane] += finite ? d * d : 0.0;
    weight[lane] += finite ? w * w : 0.0;
  };
  size_t i = 0;
  for (; i + kLanes <= weights_.size(); i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) add(i + lane, lane);
  }
  for (; i < weights_.size(); ++i) add(i, 0);
  RowError sum;
  for (size_t lane = 0; lane < kLanes; ++lane) {
    sum.error += error[lane];
    sum.weight += weight[lane];
  }
  return sum;
}

}  // namespace roundel
