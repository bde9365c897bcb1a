// Every listed linear kernel that this CPU supports, against the reference, over a table of problems.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "base/cpu_features.h"
#include "base/thread_pool.h"
#include "kernels/list.h"
#include "tests/kernels/linear_cases.h"

namespace roundel {
namespace {

const LinearKernel& reference() {
  return *linear_kernels().back();
}

struct Kind {
  CodeType code;
  int bits;
  bool has_scale, has_zero_point;
  ScaleType scale;
  ActType act;
  bool x_zero;
};

std::vector<Kind> kinds() {
  using enum CodeType;
  const ScaleType bf16 = ScaleType::kBF16, f16 = ScaleType::kF16, f32 = ScaleType::kF32;
  const ActType real = ActType::kFloat, int8 = ActType::kInt8;
  return {{kBF16, 16, false, false, bf16, real, false}, {kF16, 16, false, false, bf16, real, false},
          {kF32, 32, false, false, bf16, real, false},  {kE4M3, 8, true, false, f32, real, false},
          {kE4M3, 8, true, false, bf16, real, false},   {kE4M3, 8, false, false, bf16, real, false},
          {kInt, 2, true, false, f32, real, false},     {kInt, 3, true, true, f16, real, false},
          {kInt, 4, true, false, bf16, real, false},    {kInt, 4, true, true, f32, real, false},
          {kInt, 5, true, true, bf16, real, false},     {kInt, 6, true, false, f32, real, false},
          {kInt, 7, true, false, f16, real, false},     {kInt, 8, true, false, f32, real, false},
          {kInt, 8, true, true, bf16, real, false},     {kInt, 8, true, false, bf16, int8, false},
          {kInt, 8, true, true, f32, int8, true},       {kInt, 8, true, false, f16, int8, true},
          {kInt, 6, true, false, f32, int8, false},     {kInt, 4, true, false, bf16, int8, false},
          {kInt, 4, true, true, f32, int8, true},       {kInt, 3, true, true, f16, int8, false},
          {kInt, 2, true, false, f32, int8, true}};
}

struct Size {
  int64_t n, k, group, m;  // group 0: one for each row
};
// Ragged everywhere: rows that do not fill a block of 16 or a strip of 32, columns that do not fill a step of 8 or a
// segment, a last group that is cut short, one token, few (direct) and many (panel, more than one tile of tokens).
constexpr Size kSizes[] = {
    {16, 64, 0, 1},     {1, 8, 0, 1},       {33, 96, 32, 2},    {48, 128, 64, 3},  {100, 384, 128, 4},
    {31, 200, 32, 5},   {17, 31, 0, 6},     {65, 300, 128, 13}, {130, 520, 0, 17}, {40, 640, 304, 7},
    {96, 1100, 0, 33},  {24, 2176, 128, 9}, {24, 2120, 0, 2},   {19, 72, 24, 300}, {5, 7, 0, 29},
    {16, 1032, 0, 256},  // a tile of the most tokens
};

LinearProblem make_problem(const Kind& kind, const Size& size) {
  LinearProblem p;
  p.n = size.n, p.k = size.k;
  p.code = kind.code, p.bits = kind.bits;
  p.has_scale = kind.has_scale, p.has_zero_point = kind.has_zero_point;
  p.scale_type = kind.scale, p.act = kind.act;
  p.group = kind.has_scale && size.group > 0 ? size.group : size.k;
  return p;
}

std::vector<float> run(const LinearKernel& kernel, const LinearCase& c, const uint8_t* packed,
                       ThreadPool& pool) {
  const int64_t ldy = c.problem.n + 3;
  std::vector<float> y(static_cast<size_t>(c.m * ldy), -12345.0f);
  kernel.run(c.problem, packed, c.args(y.data(), ldy), pool);
  return y;
}

void check_kernel(const LinearKernel& kernel, const LinearCase& c) {
  SCOPED_TRACE(std::string(kernel.name) + ": " + describe(c.problem, c.m));
  ThreadPool one(1), two(2), four(4);
  const LinearProblem& p = c.problem;
  std::vector<uint8_t> wanted_memory = c.pack(reference(), p.n), memory = c.pack(kernel);
  const uint8_t* wanted_packed = LinearCase::aligned(wanted_memory);
  const uint8_t* packed = LinearCase::aligned(memory);
  for (size_t i = packed - memory.data() + kernel.packed_bytes(p); i < memory.size(); ++i) {
    ASSERT_EQ(memory[i], 0xa5) << "packing wrote beyond packed_bytes";
  }
  const std::vector<float> wanted = run(reference(), c, wanted_packed, one), y = run(kernel, c, packed, one);
  const int64_t ldy = p.n + 3;
  std::vector<float> row(p.k), wanted_row(p.k);
  for (int64_t n = 0; n < p.n; ++n) {
    kernel.unpack_row(p, packed, n, row.data());
    reference().unpack_row(p, wanted_packed, n, wanted_row.data());
    ASSERT_EQ(std::memcmp(row.data(), wanted_row.data(), row.size() * 4), 0) << "unpack_row " << n;
    for (int64_t m = 0; m < c.m; ++m) {
      const double budget =
          error_budget(p, magnitude_of(c, m, n, row.data())) + kernel.x_error * x_magnitude(c, m, row.data());
      ASSERT_NEAR(y[m * ldy + n], wanted[m * ldy + n], budget) << "y[" << m << "][" << n << "]";
    }
  }
  for (int64_t m = 0; m < c.m; ++m)
    for (int64_t n = p.n; n < ldy; ++n) ASSERT_EQ(y[m * ldy + n], -12345.0f) << "wrote beyond N";

  ASSERT_EQ(y, run(kernel, c, packed, two)) << "two threads differ from one";
  ASSERT_EQ(y, run(kernel, c, packed, four)) << "four threads differ from one";
  // A token alone gives the same numbers as in a batch.
  for (int64_t m = 0; m < c.m; m += 5) {
    LinearArgs a = c.args(nullptr, ldy);
    std::vector<float> alone(static_cast<size_t>(p.n));
    a.m = 1, a.y = alone.data(), a.ldy = p.n;
    if (a.x) a.x += m * c.ldx;
    if (a.x_codes) a.x_codes += m * c.ldx, a.x_scale += m;
    if (a.x_zero) a.x_zero += m;
    kernel.run(p, packed, a, one);
    for (int64_t n = 0; n < p.n; ++n)
      ASSERT_EQ(alone[n], y[m * ldy + n]) << "token " << m << " alone, row " << n;
  }
}

class LinearOfKind : public testing::TestWithParam<size_t> {};  // a test for each kind: they run side by side

TEST_P(LinearOfKind, KernelsAgreeWithReference) {
  const Kind kind = kinds()[GetParam()];
  int64_t checked = 0;
  uint64_t seed = 1 + GetParam() * std::size(kSizes);
  for (const Size& size : kSizes) {
    const LinearProblem problem = make_problem(kind, size);
    const LinearCase c = make_case(problem, size.m, kind.x_zero, seed % 2 == 0, seed);
    ++seed;
    for (const LinearKernel* kernel : linear_kernels()) {
      if (!kernel->supports(problem, cpu_features()).ok) continue;
      check_kernel(*kernel, c);
      if (HasFatalFailure()) return;
      ++checked;
    }
  }
  EXPECT_GE(checked, static_cast<int64_t>(std::size(kSizes)));  // the reference does all
}
INSTANTIATE_TEST_SUITE_P(Every, LinearOfKind, testing::Range<size_t>(0, kinds().size()));

// No kernel may take a problem and be beaten only by luck: for every kind of weight one besides the reference answers.
TEST(Linear, EveryKindHasAFastKernel) {
  if (!cpu_features().avx2) GTEST_SKIP() << "a CPU without AVX2";
  for (const Kind& kind : kinds()) {
    const LinearProblem problem = make_problem(kind, {64, 256, 128, 1});
    EXPECT_NE(&choose_linear(problem), &reference()) << describe(problem, 1);
  }
}

TEST(Linear, ExtremeCodesAreExact) {
  // -128 * -128 and -8 * -128 in every place: where saturating instructions go wrong.
  for (int bits : {4, 8}) {
    LinearProblem p;
    p.n = 32, p.k = 1024, p.code = CodeType::kInt, p.bits = bits, p.has_scale = true, p.group = 1024;
    p.act = ActType::kInt8;
    for (const int x : {-128, 127}) {
      for (const int w : {-(1 << (bits - 1)), (1 << (bits - 1)) - 1}) {
        LinearCase c = make_case(p, 6, false, false, 3);
        std::fill(c.codes.begin(), c.codes.end(), static_cast<uint8_t>(w));
        std::fill(c.scales.begin(), c.scales.end(), 1.0f);
        std::fill(c.x_codes.begin(), c.x_codes.end(), static_cast<int8_t>(x));
        std::fill(c.x_scale.begin(), c.x_scale.end(), 1.0f);
        ThreadPool pool(1);
        for (const LinearKernel* kernel : linear_kernels()) {
          if (!kernel->supports(p, cpu_features()).ok) continue;
          std::vector<uint8_t> packed = c.pack(*kernel);
          for (const float y : run(*kernel, c, LinearCase::aligned(packed), pool)) {
            if (y == -12345.0f) continue;
            ASSERT_EQ(y, static_cast<float>(w * x * 1024)) << kernel->name;
          }
        }
      }
    }
  }
}

TEST(Linear, ZeroRowsGiveZero) {
  for (const Kind& kind : kinds()) {
    const LinearProblem p = make_problem(kind, {33, 96, 32, 1});
    LinearCase c = make_case(p, 6, kind.x_zero, false, 5);
    std::fill(c.codes.begin(), c.codes.end(), 0);
    std::fill(c.zero_points.begin(), c.zero_points.end(), 0);
    ThreadPool pool(1);
    for (const LinearKernel* kernel : linear_kernels()) {
      if (!kernel->supports(p, cpu_features()).ok) continue;
      std::vector<uint8_t> packed = c.pack(*kernel);
      for (const float y : run(*kernel, c, LinearCase::aligned(packed), pool)) {
        if (y == -12345.0f) continue;
        ASSERT_EQ(y, 0.0f) << kernel->name << " " << describe(p, 6);
      }
    }
  }
}

// Every E4M3 code, one for each row: what a kernel multiplies x = 1 with. NaN stays NaN.
TEST(Linear, AllE4M3CodesDecodeExactly) {
  LinearProblem p;
  p.n = 256, p.k = 8, p.code = CodeType::kE4M3, p.bits = 8, p.has_scale = true, p.group = 8;
  LinearCase c = make_case(p, 5, false, false, 7);
  std::fill(c.codes.begin(), c.codes.end(), 0);
  for (int64_t n = 0; n < 256; ++n) c.codes[n * 8 + 3] = static_cast<uint8_t>(n);
  std::fill(c.scales.begin(), c.scales.end(), 1.0f);
  std::fill(c.x.begin(), c.x.end(), 1.0f);
  ThreadPool pool(1);
  for (const LinearKernel* kernel : linear_kernels()) {
    if (!kernel->supports(p, cpu_features()).ok) continue;
    std::vector<uint8_t> packed = c.pack(*kernel);
    const std::vector<float> y = run(*kernel, c, LinearCase::aligned(packed), pool);
    for (int64_t n = 0; n < 256; ++n) {
      const float wanted = e4m3_to_float(static_cast<uint8_t>(n));
      if (std::isnan(wanted)) {
        EXPECT_TRUE(std::isnan(y[n])) << kernel->name;
      } else {
        EXPECT_EQ(y[n], wanted) << kernel->name << " code " << n;
      }
    }
  }
}

// Nothing but padding to 16 rows and 8 columns on top of codes, scales and zero points.
TEST(Linear, PackedWeightsAreCompact) {
  for (const Kind& kind : kinds()) {
    const LinearProblem p = make_problem(kind, {1024, 4096, 128, 1});
    const double bits =
        p.code == CodeType::kInt && p.bits <= 4 ? 4 : 8.0 * static_cast<double>(code_bytes(p.code));
    const double scale_bits = !p.has_scale ? 0 : p.scale_type == ScaleType::kF32 ? 32 : 16;
    const double per_group = scale_bits + (p.has_zero_point ? 8 : 0);
    const double bytes = 1024.0 * 4096 * (bits + per_group / 128) / 8;
    for (const LinearKernel* kernel : linear_kernels()) {
      if (kernel == &reference() || !kernel->supports(p, cpu_features()).ok) continue;
      EXPECT_LT(static_cast<double>(kernel->packed_bytes(p)), bytes * 1.005) << kernel->name;
    }
  }
}

}  // namespace
}  // namespace roundel
