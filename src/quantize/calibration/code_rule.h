// One weight to its code and back, in float: what GPTQ and the search of scales do with weights that have moved off the
// checkpoint's own type. Scales and zero points are those of codec/encoder.h.
#pragma once
#include <algorithm>
#include <cstdint>

#include "base/numeric.h"
#include "scheme/quant_args.h"

namespace roundel {

// To nearest, ties to even, for |x| < 2^22: the sum has no bits left for a fraction.
inline float round_even(float x) {
  constexpr float kMagic = 12582912.0f;  // 1.5 * 2^23
  return (x + kMagic) - kMagic;
}

class CodeRule {
 public:
  explicit CodeRule(const QuantArgs& args)
      : is_float_(args.type == NumberType::kFloat),
        lo_(static_cast<float>(args.qmin())),
        hi_(static_cast<float>(args.qmax())) {}

  // int8_t, or the byte of E4M3. NaN becomes the lowest integer.
  int8_t code(float w, float scale, float zero) const {
    if (is_float_) return static_cast<int8_t>(float_to_e4m3(std::clamp(w / scale, lo_, hi_)));
    return static_cast<int8_t>(round_even(std::min(hi_, std::max(lo_, w / scale + zero))));
  }
  float value(int8_t code, float scale, float zero) const {
    if (is_float_) return e4m3_to_float(static_cast<uint8_t>(code)) * scale;
    return (static_cast<float>(code) - zero) * scale;
  }
  float lo() const { return lo_; }
  float hi() const { return hi_; }
  bool is_float() const { return is_float_; }

 private:
  bool is_float_;
  float lo_, hi_;
};

}  // namespace roundel
