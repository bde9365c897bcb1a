// The rule that turns a range into a scale and a zero point, with all that does not depend on the range worked out once:
// it runs for every group of weights.
#pragma once
#include "base/dtype.h"
#include "base/numeric.h"
#include "scheme/quant_args.h"

namespace roundel {

struct Qparams {
  float scale = 1;
  int zero_point = 0;
};
// Scale and zero point for a range (docs/format.md, 6), computed and rounded in `dtype` (BF16, F16, F32). lo <= 0 <= hi,
// finite.
// The scale is always finite and positive: where the original divides 0 by 0 or underflows it takes the dtype's epsilon;
// where hi - lo overflows the dtype the original stores infinity, and this takes the scale of the exact difference.
Qparams compute_qparams(const QuantArgs& args, DType dtype, float lo, float hi);

class QparamsRule {
 public:
  QparamsRule(const QuantArgs& args, DType dtype);
  Qparams operator()(float lo, float hi) const;
  float qmin() const { return qmin_; }
  float qmax() const { return qmax_; }

 private:
  float round(float x) const {
    if (dtype_ == DType::kBF16) return round_bf16(x);
    return dtype_ == DType::kF16 ? round_f16(x) : x;
  }
  float final_scale(float scale) const;

  DType dtype_;        // arithmetic
  DType scale_dtype_;  // the scales are values of this type too
  bool symmetric_;
  float qmin_, qmax_, epsilon_;
};

}  // namespace roundel
