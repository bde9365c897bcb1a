#include "codec/range_search.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "kernels/list.h"
#include "tensor/tensor.h"

namespace roundel {
namespace {

SourceType source_type(DType dtype) {
  if (dtype == DType::kBF16) return SourceType::kBF16;
  return dtype == DType::kF16 ? SourceType::kF16 : SourceType::kF32;
}

}  // namespace

RangeSearch::RangeSearch(const QuantArgs& args, DType source)
    : is_float_(args.type == NumberType::kFloat), source_(source) {
  if (args.observer != "memoryless_mse") return;
  double maxshrink = 0.20, patience = 5;
  if (!args.observer_kwargs.empty()) {
    const Json kwargs = parse_json(args.observer_kwargs, "observer_kwargs");
    maxshrink = optional_number(kwargs, "maxshrink", "observer_kwargs", 0, 1).value_or(maxshrink);
    patience = optional_number(kwargs, "patience", "observer_kwargs", 1, 100000).value_or(patience);
    grid_ = optional_number(kwargs, "grid", "observer_kwargs", 1, 100000).value_or(grid_);
    norm_ = static_cast<float>(optional_number(kwargs, "norm", "observer_kwargs", 1, 10).value_or(2.4));
  }
  steps_ = std::max<int64_t>(1, static_cast<int64_t>(maxshrink * grid_));
  if (args.strategy == Strategy::kTensor) patience_ = static_cast<int64_t>(patience);
}

double RangeSearch::error(const QparamsRule& rule, const Qparams& q, const float* values, const void* x,
                          int64_t n, int8_t* codes) const {
  const SourceType type = source_type(source_);
  const auto zero = static_cast<float>(q.zero_point);
  if (is_float_)
    encode_ops().encode_e4m3(type, x, n, q.scale, reinterpret_cast<uint8_t*>(codes));
  else
    encode_ops().encode_int(type, x, n, q.scale, zero, rule.qmin(), rule.qmax(), codes);
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) {
    const float code =
        is_float_ ? e4m3_to_float(static_cast<uint8_t>(codes[i])) : static_cast<float>(codes[i]) - zero;
    const float off = std::abs(round_to(source_, code * q.scale) - values[i]);
    if (off > 0) sum += static_cast<double>(std::pow(off, norm_));
  }
  return sum;
}

Qparams RangeSearch::at_step(const QparamsRule& rule, const RangeResult& range, int64_t step) const {
  const auto p = static_cast<float>(1.0 - static_cast<double>(step) / grid_);
  return rule(round_to(source_, range.lo * p), round_to(source_, range.hi * p));
}

void RangeSearch::add_errors(const QparamsRule& rule, const void* x, int64_t n, const RangeResult& range,
                             double* sums) const {
  std::vector<float> values(static_cast<size_t>(n));
  std::vector<int8_t> codes(static_cast<size_t>(n));
  widen_to_float(source_, x, values.data(), values.size());
  for (int64_t i = 0; i < steps_; ++i)
    sums[i] += error(rule, at_step(rule, range, i), values.data(), x, n, codes.data());
}

Qparams RangeSearch::pick(const QparamsRule& rule, const RangeResult& range, const double* sums) const {
  int64_t best = 0;
  for (int64_t i = 1; i < steps_ && (patience_ == 0 || i - best <= patience_); ++i)
    if (sums[i] < sums[best]) best = i;
  return at_step(rule, range, best);
}

Qparams RangeSearch::best(const QparamsRule& rule, const void* x, int64_t n, const RangeResult& range) const {
  std::vector<double> sums(static_cast<size_t>(steps_));
  add_errors(rule, x, n, range, sums.data());
  return pick(rule, range, sums.data());
}

}  // namespace roundel
