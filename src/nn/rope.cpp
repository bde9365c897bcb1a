#include "nn/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.h"

namespace roundel {
namespace {

// Frequencies in float, as the originals hold them: theta^(-2i/rotated).
std::vector<float> plain_frequencies(double theta, int64_t rotated) {
  std::vector<float> f(static_cast<size_t>(rotated / 2));
  for (size_t i = 0; i < f.size(); ++i) {
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(rotated);
    f[i] = 1.0f / static_cast<float>(std::pow(theta, static_cast<double>(exponent)));
  }
  return f;
}

// Llama 3.1: long wavelengths are divided by the factor, short ones kept, those between are blended.
void scale_llama3(const RopeSettings& s, std::vector<float>& f) {
  const double original = static_cast<double>(s.original_max_position);
  const double low = original / s.low_freq_factor, high = original / s.high_freq_factor;
  for (float& v : f) {
    const double wavelength = 2 * std::numbers::pi / v;
    if (wavelength > low) {
      v = static_cast<float>(v / s.factor);
    } else if (wavelength >= high) {
      const double smooth =
          (original / wavelength - s.low_freq_factor) / (s.high_freq_factor - s.low_freq_factor);
      v = static_cast<float>((1 - smooth) * v / s.factor + smooth * v);
    }
  }
}

// YaRN (Peng et al. 2023): interpolation of the slow dimensions, extrapolation of the fast ones, a ramp between.
void scale_yarn(const RopeSettings& s, std::vector<float>& f) {
  const double original =
      static_cast<double>(s.original_max_position ? s.original_max_position : s.max_position);
  const double dim = static_cast<double>(s.rotated);
  auto correction = [&](double rotations) {
    return dim * std::log(original / (rotations * 2 * std::numbers::pi)) / (2 * std::log(s.theta));
  };
  const double low = std::max(std::floor(correction(s.beta_fast)), 0.0);
  double high = std::min(std::ceil(correction(s.beta_slow)), dim - 1);
  if (low == high) high += 0.001;
  for (size_t i = 0; i < f.size(); ++i) {
    const double ramp = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    f[i] = static_cast<float>(f[i] / s.factor * ramp + f[i] * (1 - ramp));
  }
}

double default_attention_factor(const RopeSettings& s) {
  if (s.type == "yarn") return s.factor <= 1 ? 1.0 : 0.1 * std::log(s.factor) + 1.0;
  if (s.type != "longrope") return 1.0;
  const double original = static_cast<double>(s.original_max_position);
  const double factor = s.factor > 1 ? s.factor : static_cast<double>(s.max_position) / original;
  return factor <= 1 ? 1.0 : std::sqrt(1 + std::log(factor) / std::log(original));
}

}  // namespace

Rope::Rope(RopeSettings settings) : settings_(std::move(settings)) {
  const RopeSettings& s = settings_;
  CHECK(s.rotated > 0 && s.rotated % 2 == 0);
  base_ = plain_frequencies(s.theta, s.rotated);
  attention_factor_ = s.attention_factor > 0 ? s.attention_factor : default_attention_factor(s);
  if (s.type == "linear") {
    for (float& v : base_) v = static_cast<float>(v / s.factor);
  } else if (s.type == "llama3") {
    scale_llama3(s, base_);
  } else if (s.type == "yarn") {
    scale_yarn(s, base_);
  } else if (s.type == "longrope") {
    CHECK(s.short_factor.size() == base_.size() && s.long_factor.size() == base_.size());
    long_ = base_;
    for (size_t i = 0; i < base_.size(); ++i) {
      long_[i] = static_cast<float>(long_[i] / s.long_factor[i]);
      base_[i] = static_cast<float>(base_[i] / s.short_factor[i]);
    }
  }
}

std::vector<float> Rope::frequencies(int64_t length) const {
  const RopeSettings& s = settings_;
  if (s.type == "longrope" && length > s.original_max_position) return long_;
  if (s.type == "dynamic" && length > s.max_position) {  // NTK: a larger base, by the length
    const double grown =
        s.factor * static_cast<double>(length) / static_cast<double>(s.max_position) - (s.factor - 1);
    const double dim = static_cast<double>(s.rotated);
    return plain_frequencies(s.theta * std::pow(grown, dim / (dim - 2)), s.rotated);
  }
  return base_;
}

bool Rope::same_frequencies(int64_t length_a, int64_t length_b) const {
  return frequencies(length_a) == frequencies(length_b);
}

RopeAngles Rope::angles(int64_t start, int64_t tokens, int64_t length) const {
  const std::vector<float> f = frequencies(length);
  RopeAngles a;
  a.half = half();
  a.cos.resize(static_cast<size_t>(tokens * a.half));
  a.sin.resize(a.cos.size());
  const float factor = static_cast<float>(attention_factor_);
  for (int64_t t = 0; t < tokens; ++t) {
    for (int64_t i = 0; i < a.half; ++i) {
      const float angle =
          static_cast<float>(start + t) * f[static_cast<size_t>(i)];  // in float, as the originals
      a.cos[static_cast<size_t>(t * a.half + i)] = std::cos(angle) * factor;
      a.sin[static_cast<size_t>(t * a.half + i)] = std::sin(angle) * factor;
    }
  }
  return a;
}

void RopeTable::copy(int64_t start, int64_t tokens, int64_t length, float* cos, float* sin) {
  constexpr int64_t kMost = 1 << 15, kAtOnce = 256;  // positions
  const auto put = [&](const RopeAngles& a, int64_t first) {
    std::copy_n(a.cos.begin() + first * a.half, tokens * a.half, cos);
    std::copy_n(a.sin.begin() + first * a.half, tokens * a.half, sin);
  };
  const int64_t end = start + tokens;
  if (kept_.cos.empty()) length_ = length;
  if (end > kMost || !rope_.same_frequencies(length, length_))
    return put(rope_.angles(start, tokens, length), 0);
  kept_.half = rope_.half();
  const auto have = static_cast<int64_t>(kept_.cos.size()) / kept_.half;
  if (end > have) {
    const RopeAngles more = rope_.angles(have, (end - have + kAtOnce - 1) / kAtOnce * kAtOnce, length_);
    kept_.cos.insert(kept_.cos.end(), more.cos.begin(), more.cos.end());
    kept_.sin.insert(kept_.sin.end(), more.sin.begin(), more.sin.end());
  }
  put(kept_, start);
}

}  // namespace roundel
