// reference_linear: y[M,N] = x[M,K] . w[N,K]^T by plain loops, for every problem. The oracle of all other
// kernels.
//
// Float activations: a weight is what compressed-tensors dequantizes to, (q - zp) * scale rounded to the type
// of the scales; products are summed in double. Integer activations: the sum of (x - x_zero) * (q - zp) over
// a group is an exact integer, which is then multiplied by the scales; no rounding in between.
//
// Packed: codes (N,K) as they came | scales (N,groups) float | zero points (N,groups) int8; sections on 64
// bytes.
#include <cstring>
#include <vector>

#include "base/checked.h"
#include "base/numeric.h"
#include "base/thread_pool.h"
#include "kernels/api/linear.h"

namespace roundel {
namespace {

constexpr int64_t kAlign = 64;

size_t code_size(CodeType type) {
  switch (type) {
    case CodeType::kInt:
    case CodeType::kE4M3:
      return 1;
    case CodeType::kBF16:
    case CodeType::kF16:
      return 2;
    case CodeType::kF32:
      return 4;
  }
  return 4;
}

float code_value(CodeType type, const uint8_t* codes, int64_t i) {
  uint16_t half = 0;
  switch (type) {
    case CodeType::kInt:
      return static_cast<float>(static_cast<int8_t>(codes[i]));
    case CodeType::kE4M3:
      return e4m3_to_float(codes[i]);
    case CodeType::kBF16:
      std::memcpy(&half, codes + 2 * i, 2);
      return bf16_to_float(half);
    case CodeType::kF16:
      std::memcpy(&half, codes + 2 * i, 2);
      return f16_to_float(half);
    case CodeType::kF32: {
      float value = 0;
      std::memcpy(&value, codes + 4 * i, 4);
      return value;
    }
  }
  return 0;
}

float round_to(ScaleType type, float x) {
  switch (type) {
    case ScaleType::kBF16:
      return round_bf16(x);
    case ScaleType::kF16:
      return round_f16(x);
    case ScaleType::kF32:
      return x;
  }
  return x;
}

// Where the sections of the packed weight begin.
struct Sections {
  explicit Sections(const LinearProblem& p) {
    row_bytes = p.k * static_cast<int64_t>(code_size(p.code));
    scales = round_up(p.n * row_bytes, kAlign);
    zeros = scales + (p.has_scale ? round_up(p.n * p.groups() * 4, kAlign) : 0);
    end = zeros + (p.has_zero_point ? round_up(p.n * p.groups(), kAlign) : 0);
  }
  int64_t row_bytes = 0, scales = 0, zeros = 0, end = 0;
};

Support supports(const LinearProblem&, const CpuFeatures&) {
  return {};
}

size_t packed_bytes(const LinearProblem& p) {
  return static_cast<size_t>(Sections(p).end);
}

void pack(const LinearProblem& p, const WeightRows& rows, uint8_t* packed) {
  const Sections at(p);
  const int64_t groups = p.groups();
  std::memcpy(packed + rows.row0 * at.row_bytes, rows.codes, rows.rows * at.row_bytes);
  if (p.has_scale) {
    std::memcpy(packed + at.scales + rows.row0 * groups * 4, rows.scales, rows.rows * groups * 4);
  }
  if (p.has_zero_point) {
    std::memcpy(packed + at.zeros + rows.row0 * groups, rows.zero_points, rows.rows * groups);
  }
}

struct Row {
  Row(const LinearProblem& p, const uint8_t* packed, int64_t row) : problem(p) {
    const Sections at(p);
    codes = packed + row * at.row_bytes;
    if (p.has_scale) scales = reinterpret_cast<const float*>(packed + at.scales) + row * p.groups();
    if (p.has_zero_point) zeros = reinterpret_cast<const int8_t*>(packed + at.zeros) + row * p.groups();
  }
  // q - zp, exact.
  float value(int64_t k) const {
    const float q = code_value(problem.code, codes, k);
    return zeros ? q - static_cast<float>(zeros[k / problem.group]) : q;
  }
  float scale(int64_t k) const { return scales ? scales[k / problem.group] : 1.0f; }

  const LinearProblem& problem;
  const uint8_t* codes = nullptr;
  const float* scales = nullptr;
  const int8_t* zeros = nullptr;
};

void unpack_row(const LinearProblem& p, const uint8_t* packed, int64_t row, float* out) {
  const Row w(p, packed, row);
  for (int64_t k = 0; k < p.k; ++k) {
    out[k] = p.has_scale ? round_to(p.scale_type, w.value(k) * w.scale(k)) : w.value(k);
  }
}

double dot_int8(const Row& w, const int8_t* x, int32_t x_zero) {
  const LinearProblem& p = w.problem;
  double sum = 0;
  for (int64_t g = 0; g < p.groups(); ++g) {
    const int64_t begin = g * p.group;
    const int64_t end = p.group > 0 && begin + p.group < p.k ? begin + p.group : p.k;
    double group_sum = 0;  // of integers below 2^53: exact
    for (int64_t k = begin; k < end; ++k) {
      group_sum += static_cast<double>(static_cast<int32_t>(x[k]) - x_zero) * static_cast<double>(w.value(k));
    }
    sum += group_sum * static_cast<double>(w.scale(begin));
  }
  return sum;
}

void run(const LinearProblem& p, const uint8_t* packed, const LinearArgs& a, ThreadPool& pool) {
  pool.parallel_for(p.n, 1, [&](int64_t begin, int64_t end) {
    std::vector<float> w(static_cast<size_t>(p.k));
    for (int64_t n = begin; n < end; ++n) {
      if (p.act == ActType::kFloat) unpack_row(p, packed, n, w.data());
      for (int64_t m = 0; m < a.m; ++m) {
        double sum = 0;
        if (p.act == ActType::kFloat) {
          const float* x = a.x + m * a.ldx;
          for (int64_t k = 0; k < p.k; ++k) sum += static_cast<double>(x[k]) * static_cast<double>(w[k]);
        } else {
          sum = dot_int8(Row(p, packed, n), a.x_codes + m * a.ldx, a.x_zero ? a.x_zero[m] : 0) *
                static_cast<double>(a.x_scale[m]);
        }
        if (a.bias) sum += static_cast<double>(a.bias[n]);
        a.y[m * a.ldy + n] = static_cast<float>(sum);
      }
    }
  });
}

}  // namespace

extern const LinearKernel kReferenceLinear = {"reference_linear", supports, packed_bytes, pack, run,
                                              unpack_row};

}  // namespace roundel
