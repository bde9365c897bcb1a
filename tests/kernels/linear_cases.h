// Random linear problems for tests and for the bench: weights, activations, and the error a kernel may make.
#pragma once
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "base/checked.h"
#include "base/numeric.h"
#include "base/rng.h"
#include "kernels/api/linear.h"

namespace roundel {

inline size_t code_bytes(CodeType type) {
  return type == CodeType::kF32 ? 4 : type == CodeType::kBF16 || type == CodeType::kF16 ? 2 : 1;
}

// A quantized weight; group 0: one scale a row.
inline LinearProblem weights(CodeType code, int bits, int64_t n, int64_t k, int64_t group, bool zero,
                             ScaleType scale = ScaleType::kBF16) {
  LinearProblem p;
  p.n = n, p.k = k, p.code = code, p.bits = bits, p.group = group > 0 ? group : k;
  p.has_scale = true, p.has_zero_point = zero, p.scale_type = scale;
  return p;
}
inline LinearProblem dense(CodeType code, int64_t n, int64_t k) {
  LinearProblem p;
  p.n = n, p.k = k, p.group = k, p.code = code, p.bits = code == CodeType::kF32 ? 32 : 16;
  return p;
}

struct LinearCase {
  LinearProblem problem;
  std::vector<uint8_t> codes;
  std::vector<float> scales;
  std::vector<int8_t> zero_points;
  int64_t m = 0, ldx = 0;
  std::vector<float> x;
  std::vector<uint16_t> x_bf16;  // x rounded, for kernels that want it so
  std::vector<int8_t> x_codes;
  std::vector<float> x_scale;
  std::vector<int32_t> x_zero;
  std::vector<float> bias;

  LinearArgs args(float* y, int64_t ldy) const {
    LinearArgs a;
    a.m = m, a.ldx = ldx, a.y = y, a.ldy = ldy;
    if (problem.act == ActType::kFloat) {
      a.x = x.data();
      a.x_bf16 = x_bf16.data();
    } else {
      a.x_codes = x_codes.data();
      a.x_scale = x_scale.data();
      if (!x_zero.empty()) a.x_zero = x_zero.data();
    }
    if (!bias.empty()) a.bias = bias.data();
    return a;
  }
  void round_x() {
    x_bf16.clear();
    for (const float v : x) x_bf16.push_back(float_to_bf16(v));
  }
  // Packs in runs of `run` rows, as weights stream in.
  std::vector<uint8_t> pack(const LinearKernel& kernel, int64_t run = kRowUnit) const {
    // 64 bytes of alignment, which Buffer gives, and garbage before packing.
    std::vector<uint8_t> packed(kernel.packed_bytes(problem) + 64, 0xa5);
    uint8_t* to = aligned(packed);
    for (int64_t row = 0; row < problem.n; row += run) {
      WeightRows rows;
      rows.row0 = row;
      rows.rows = std::min(run, problem.n - row);
      rows.codes = codes.data() + row * problem.k * static_cast<int64_t>(code_bytes(problem.code));
      if (problem.has_scale) rows.scales = scales.data() + row * problem.groups();
      if (problem.has_zero_point) rows.zero_points = zero_points.data() + row * problem.groups();
      kernel.pack(problem, rows, to);
    }
    return packed;
  }
  static uint8_t* aligned(std::vector<uint8_t>& bytes) {
    return bytes.data() + (64 - reinterpret_cast<uintptr_t>(bytes.data()) % 64) % 64;
  }
};

inline void put_float_code(CodeType type, uint8_t* codes, int64_t i, float value) {
  switch (type) {
    case CodeType::kInt:
      break;
    case CodeType::kE4M3:
      codes[i] = float_to_e4m3(value * value * value * 448);
      break;
    case CodeType::kBF16:
      reinterpret_cast<uint16_t*>(codes)[i] = float_to_bf16(value);
      break;
    case CodeType::kF16:
      reinterpret_cast<uint16_t*>(codes)[i] = float_to_f16(value);
      break;
    case CodeType::kF32:
      reinterpret_cast<float*>(codes)[i] = value;
      break;
  }
}

// Values within the type's habits: codes over their whole range, scales around 1/100, activations around 1.
inline LinearCase make_case(const LinearProblem& problem, int64_t m, bool x_zero, bool bias, uint64_t seed) {
  LinearCase c;
  c.problem = problem;
  c.m = m;
  c.ldx = round_up(problem.k, kColumnUnit);
  uint64_t at = 0;
  const auto random = [&] { return random_unit(seed, at++); };
  const auto signed_unit = [&] { return static_cast<float>(2 * random() - 1); };
  const int64_t n = problem.n, k = problem.k;
  c.codes.resize(static_cast<size_t>(n * k) * code_bytes(problem.code));
  const int span = 1 << (problem.code == CodeType::kInt ? problem.bits : 8);
  for (int64_t i = 0; i < n * k; ++i) {
    const float value = signed_unit();
    if (problem.code == CodeType::kInt) {
      c.codes[i] = static_cast<uint8_t>(static_cast<int>(random() * span) - span / 2);
    } else {
      put_float_code(problem.code, c.codes.data(), i, value);
    }
  }
  const auto round_scale = [&](float s) {
    return problem.scale_type == ScaleType::kBF16  ? round_bf16(s)
           : problem.scale_type == ScaleType::kF16 ? round_f16(s)
                                                   : s;
  };
  if (problem.has_scale) {
    for (int64_t i = 0; i < n * problem.groups(); ++i) {
      c.scales.push_back(round_scale(0.002f + 0.02f * static_cast<float>(random())));
    }
  }
  if (problem.has_zero_point) {
    for (int64_t i = 0; i < n * problem.groups(); ++i) {
      c.zero_points.push_back(static_cast<int8_t>(static_cast<int>(random() * span) - span / 2));
    }
  }
  if (problem.act == ActType::kFloat) {
    c.x.assign(static_cast<size_t>(m * c.ldx), 0.0f);
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < k; ++j) c.x[i * c.ldx + j] = signed_unit();
    c.round_x();
  } else {
    c.x_codes.assign(static_cast<size_t>(m * c.ldx), 77);  // any value beyond K
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < k; ++j) c.x_codes[i * c.ldx + j] = static_cast<int8_t>(random() * 256 - 128);
      c.x_scale.push_back(0.01f + 0.01f * static_cast<float>(random()));
      if (x_zero) c.x_zero.push_back(static_cast<int32_t>(random() * 256) - 128);
    }
  }
  if (bias) {
    for (int64_t i = 0; i < n; ++i) c.bias.push_back(signed_unit());
  }
  return c;
}

// How far y[m][n] of a fast kernel may be from the reference, of which `magnitude` is sum |x| |w|, w dequantized.
//  - The reference rounds each weight (q - zp) * scale to the scale's type: a relative error of half a unit in the last
//    place, 2^-8 (BF16) or 2^-11 (F16); F32: 2^-24. Fast kernels do not round, so this is their distance. With int8
//    activations, or without scales, nothing is rounded.
//  - A kernel that rounds activations to BF16 is wrong by half a unit in the last place of each: 2^-8.
//  - Sums in float: at most 512 additions within a segment, then one for each segment, each wrong by 2^-24 of a partial
//    sum that magnitude bounds; scaling, bias and the final rounding take four more.
inline double error_budget(const LinearKernel& kernel, const LinearProblem& p, double magnitude) {
  const double unit = std::ldexp(1.0, -24);
  const double rounds = !p.has_scale || p.act == ActType::kInt8 ? 0
                        : p.scale_type == ScaleType::kBF16      ? std::ldexp(1.0, -8)
                        : p.scale_type == ScaleType::kF16       ? std::ldexp(1.0, -11)
                                                                : unit;
  const double rounds_x = kernel.round_x ? std::ldexp(1.0, -8) : 0;
  const double segments = static_cast<double>(p.groups()) + static_cast<double>(p.k) / 256 + 1;
  const double within = p.act == ActType::kInt8 ? 0 : 512;  // integers are summed exactly
  return magnitude * (rounds + rounds_x * (1 + rounds) + (within + segments + 4) * unit);
}

// max |x| * sum |w| for one output with float activations: what an error of x by a share of max |x| is multiplied by.
inline double x_magnitude(const LinearCase& c, int64_t m, const float* row) {
  if (c.problem.act != ActType::kFloat) return 0;
  double most = 0, sum = 0;
  for (int64_t k = 0; k < c.problem.k; ++k) {
    most = std::max(most, static_cast<double>(std::fabs(c.x[m * c.ldx + k])));
    sum += static_cast<double>(std::fabs(row[k]));
  }
  return most * sum;
}

// sum |x| |w| (+ |bias|) for one output, from a row that unpack_row gave. For int8 activations with a zero point
// |x| + |x_zero|: both products are formed and subtracted.
inline double magnitude_of(const LinearCase& c, int64_t m, int64_t n, const float* row) {
  double sum = 0;
  for (int64_t k = 0; k < c.problem.k; ++k) {
    double x = 0;
    if (c.problem.act == ActType::kFloat) {
      x = std::fabs(c.x[m * c.ldx + k]);
    } else {
      x = std::abs(c.x_codes[m * c.ldx + k]) + (c.x_zero.empty() ? 0 : std::abs(c.x_zero[m]));
      x *= static_cast<double>(c.x_scale[m]);
    }
    sum += x * std::fabs(row[k]);
  }
  return sum + (c.bias.empty() ? 0 : std::fabs(c.bias[n]));
}

inline std::string describe(const LinearProblem& p, int64_t m) {
  static const char* const kCodes[] = {"int", "e4m3", "bf16", "f16", "f32"};
  static const char* const kScales[] = {"bf16", "f16", "f32"};
  std::string text = kCodes[static_cast<int>(p.code)];
  if (p.code == CodeType::kInt) text += std::to_string(p.bits);
  text += p.has_zero_point ? " asym" : "";
  if (p.has_scale) {
    text += " group " + std::to_string(p.group) + " scale " + kScales[static_cast<int>(p.scale_type)];
  }
  text += p.act == ActType::kInt8 ? " x int8" : " x float";
  return text + " M " + std::to_string(m) + " N " + std::to_string(p.n) + " K " + std::to_string(p.k);
}

}  // namespace roundel
