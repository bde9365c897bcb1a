// The rule that turns a range into a scale and a zero point, with all that does not depend on the range worked out once:
// it runs for every group of weights. compute_qparams() of encoder.h is the same rule.
#pragma once
#include "base/numeric.h"
#include "codec/encoder.h"

namespace roundel {

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
