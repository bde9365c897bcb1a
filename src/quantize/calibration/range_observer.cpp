#include "quantize/calibration/range_observer.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/nearest.h"
#include "base/thread_pool.h"
#include "quantize/calibration/code_rule.h"

namespace roundel {
namespace {

const std::vector<std::string> kNames = {"minmax", "static_minmax", "memoryless_minmax", "mse",
                                         "memoryless_mse"};

}  // namespace

RangeObserver::RangeObserver(const QuantArgs& args, std::string where)
    : args_(args), where_(std::move(where)) {
  if (args_.strategy != Strategy::kTensor)
    fail(ErrorCode::kUnsupported, "{}: static {} cannot be calibrated; per tensor is possible", where_,
         describe(args_));
  const std::string name = args_.observer.empty() ? "minmax" : args_.observer;
  if (std::find(kNames.begin(), kNames.end(), name) == kNames.end())
    fail(ErrorCode::kUnsupported, "{}: observer \"{}\" is not supported{}", where_, name,
         did_you_mean(name, kNames));
  mse_ = name.ends_with("mse");
  if (name == "static_minmax") kind_ = Kind::kExtremes;
  if (name.starts_with("memoryless")) kind_ = Kind::kLast;
  read_kwargs();
}

void RangeObserver::read_kwargs() {
  if (args_.observer_kwargs.empty()) return;
  const std::string where = where_ + ": observer_kwargs";
  const Json json = parse_json(args_.observer_kwargs, where);
  static const std::vector<std::string> kKeys = {"averaging_constant", "maxshrink", "patience", "grid",
                                                 "norm"};
  for (const auto& [key, value] : json.items())
    if (std::find(kKeys.begin(), kKeys.end(), key) == kKeys.end())
      fail(ErrorCode::kInvalid, "{}: unknown key \"{}\"{}", where, key, did_you_mean(key, kKeys));
  constant_ = optional_number(json, "averaging_constant", where, 0, 1).value_or(constant_);
  maxshrink_ = optional_number(json, "maxshrink", where, 0, 1).value_or(maxshrink_);
  norm_ = optional_number(json, "norm", where, 0.1, 20).value_or(norm_);
  patience_ = optional_int(json, "patience", where, 1, 1 << 20).value_or(patience_);
  grid_ = optional_int(json, "grid", where, 1, 1 << 20).value_or(grid_);
}

void RangeObserver::observe(const float* x, int64_t rows, int64_t n, int64_t ld, ThreadPool& pool) {
  std::vector<Range> ranges(static_cast<size_t>(rows));
  std::vector<uint8_t> bad(static_cast<size_t>(rows));
  pool.parallel_for(rows, 1, [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const RangeResult found = encode_ops().range(SourceType::kF32, x + r * ld, n);
      ranges[static_cast<size_t>(r)] = {found.lo, found.hi};
      bad[static_cast<size_t>(r)] = found.not_finite > 0;
    }
  });
  Range range;
  for (size_t r = 0; r < ranges.size(); ++r) {
    if (bad[r]) fail(ErrorCode::kInvalid, "{}: NaN or infinite values at token {}", where_, r);
    range.lo = std::min(range.lo, ranges[r].lo);
    range.hi = std::max(range.hi, ranges[r].hi);
  }
  if (mse_) range = shrink(range, x, rows, n, ld, pool);
  if (first_ || kind_ == Kind::kLast) {
    lo_ = range.lo;
    hi_ = range.hi;
  } else if (kind_ == Kind::kExtremes) {
    lo_ = std::min(lo_, range.lo);
    hi_ = std::max(hi_, range.hi);
  } else {
    const auto a = static_cast<float>(constant_);
    lo_ += a * (range.lo - lo_);
    hi_ += a * (range.hi - hi_);
  }
  first_ = false;
}

RangeObserver::Range RangeObserver::shrink(Range range, const float* x, int64_t rows, int64_t n, int64_t ld,
                                           ThreadPool& pool) const {
  const CodeRule rule(args_);
  const auto steps = static_cast<int64_t>(maxshrink_ * static_cast<double>(grid_));
  const auto norm = static_cast<float>(norm_);
  Range best = range;
  double least = -1;
  int64_t without = 0;
  std::vector<double> sums(static_cast<size_t>(rows));
  for (int64_t i = 0; i < steps; ++i) {
    const auto p = static_cast<float>(1.0 - static_cast<double>(i) / static_cast<double>(grid_));
    const Range candidate{p * range.lo, p * range.hi};
    const Qparams q = compute_qparams(args_, DType::kF32, candidate.lo, candidate.hi);
    const auto zero = static_cast<float>(q.zero_point);
    pool.parallel_for(rows, 1, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        double sum = 0;
        for (int64_t c = 0; c < n; ++c) {
          const float v = x[r * ld + c];
          sum += static_cast<double>(
              std::pow(std::abs(rule.value(rule.code(v, q.scale, zero), q.scale, zero) - v), norm));
        }
        sums[static_cast<size_t>(r)] = sum;
      }
    });
    double error = 0;
    for (const double s : sums) error += s;
    if (least < 0 || error < least) {
      least = error;
      best = candidate;
      without = 0;
    } else if (++without >= patience_) {
      break;
    }
  }
  return best;
}

Qparams RangeObserver::qparams(DType dtype) const {
  return compute_qparams(args_, dtype, round_to(dtype, lo_), round_to(dtype, hi_));
}

}  // namespace roundel
