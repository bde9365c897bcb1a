#include "codec/qparams.h"

#include <algorithm>
#include <cmath>

#include "tensor/tensor.h"

namespace roundel {
namespace {

constexpr float kMaxF16 = 65504.0f;

float epsilon_of(DType dtype) {
  return dtype == DType::kBF16 ? 0x1p-7f : dtype == DType::kF16 ? 0x1p-10f : 0x1p-23f;
}

DType scale_type_of(const QuantArgs& args, DType dtype) {
  if (args.scale_dtype == "torch.bfloat16") return DType::kBF16;
  if (args.scale_dtype == "torch.float16") return DType::kF16;
  if (args.scale_dtype == "torch.float32") return DType::kF32;
  return dtype;
}

}  // namespace

QparamsRule::QparamsRule(const QuantArgs& args, DType dtype)
    : dtype_(dtype),
      scale_dtype_(scale_type_of(args, dtype)),
      symmetric_(args.symmetric),
      qmin_(static_cast<float>(args.qmin())),
      qmax_(static_cast<float>(args.qmax())),
      epsilon_(epsilon_of(scale_dtype_)) {}

float QparamsRule::final_scale(float scale) const {
  if (scale_dtype_ != dtype_) {
    if (scale_dtype_ == DType::kF16) scale = std::min(scale, kMaxF16);
    scale = round(round_to(scale_dtype_, scale));
  }
  return scale == 0 ? epsilon_ : scale;
}

Qparams QparamsRule::operator()(float lo, float hi) const {
  const float range = qmax_ - qmin_;
  if (symmetric_) return {final_scale(round(std::max(-lo, hi) / (range / 2))), 0};
  float scale = round(round(hi - lo) / range);
  if (!std::isfinite(scale)) {
    scale = round(
        static_cast<float>((static_cast<double>(hi) - static_cast<double>(lo)) / static_cast<double>(range)));
  }
  const float zero = round(qmin_ - round(lo / scale));
  // 0 / 0 for a group of zeros. The original clamps the NaN and converts it to an integer, which gives 0.
  const int zero_point = std::isnan(zero) ? 0 : static_cast<int>(std::lrint(std::clamp(zero, qmin_, qmax_)));
  return {final_scale(scale), zero_point};
}

Qparams compute_qparams(const QuantArgs& args, DType dtype, float lo, float hi) {
  return QparamsRule(args, dtype)(lo, hi);
}

}  // namespace roundel
