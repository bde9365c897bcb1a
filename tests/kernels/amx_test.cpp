// The AMX kernels: that the forced one is the one that runs, and what is said where there is no AMX.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "base/cpu_features.h"
#include "base/thread_pool.h"
#include "kernels/list.h"
#include "tests/kernels/linear_cases.h"

namespace roundel {
namespace {

LinearProblem problem_of(CodeType code, int bits, int64_t group, ActType act) {
  LinearProblem p;
  p.n = 48, p.k = 256, p.code = code, p.bits = bits, p.act = act;
  p.has_scale = code != CodeType::kBF16;
  p.group = group > 0 ? group : p.k;
  return p;
}

std::vector<LinearProblem> float_problems() {
  return {problem_of(CodeType::kInt, 4, 128, ActType::kFloat),
          problem_of(CodeType::kInt, 8, 0, ActType::kFloat),
          problem_of(CodeType::kE4M3, 8, 0, ActType::kFloat),
          problem_of(CodeType::kBF16, 16, 0, ActType::kFloat)};
}
std::vector<LinearProblem> int8_problems() {
  return {problem_of(CodeType::kInt, 8, 0, ActType::kInt8),
          problem_of(CodeType::kInt, 4, 128, ActType::kInt8)};
}
// Floats that are multiplied as 16-bit integers; columns and groups are no whole tiles and panels too.
std::vector<LinearProblem> int16_problems() {
  std::vector<LinearProblem> problems;
  for (const int64_t k : {200, 1088, 2080, 2500}) {
    for (const int64_t group : {0, 128, 160, 1056}) {
      for (const bool zero : {false, true}) {
        LinearProblem p = problem_of(CodeType::kInt, 4, group, ActType::kFloat);
        p.n = 40, p.k = k, p.group = group > 0 ? std::min(group, k) : k, p.has_zero_point = zero;
        problems.push_back(p);
      }
    }
  }
  return problems;
}

struct Forced {
  explicit Forced(const char* name) { setenv("ROUNDEL_FORCE_KERNEL", name, 1); }
  ~Forced() { unsetenv("ROUNDEL_FORCE_KERNEL"); }
};

std::vector<float> run(const LinearKernel& kernel, const LinearCase& c, LinearArgs args) {
  std::vector<uint8_t> memory = c.pack(kernel);
  std::vector<float> y(static_cast<size_t>(c.m * c.problem.n));
  args.y = y.data(), args.ldy = c.problem.n;
  ThreadPool pool(2);
  kernel.run(c.problem, LinearCase::aligned(memory), args, pool);
  return y;
}

// Only a kernel that multiplies BF16 activations reads x_bf16: it gets others than x.
TEST(Amx, ForcedBF16KernelRuns) {
  if (!cpu_features().amx_bf16) GTEST_SKIP() << "a CPU without AMX for BF16";
  const Forced forced("amxbf16");
  for (const LinearProblem& p : float_problems()) {
    for (const int64_t m : {1, 7, 40}) {
      const LinearKernel& kernel = choose_linear(p);
      ASSERT_EQ(std::string(kernel.name).substr(0, 8), "amxbf16_");
      ASSERT_NE(kernel.round_x, nullptr);
      LinearCase c = make_case(p, m, false, false, 5);
      const std::vector<float> y = run(kernel, c, c.args(nullptr, 0));
      std::fill(c.x.begin(), c.x.end(), std::nanf(""));
      EXPECT_EQ(run(kernel, c, c.args(nullptr, 0)), y) << describe(p, m);
    }
  }
}

// Integers are summed in the order of the AVX-512 kernel: the same bits, whichever of them has the problem.
TEST(Amx, ForcedInt8KernelGivesTheBitsOfVnni) {
  if (!cpu_features().amx_int8) GTEST_SKIP() << "a CPU without AMX for int8";
  std::vector<LinearProblem> problems = int8_problems();
  for (const LinearProblem& p : int16_problems()) problems.push_back(p);
  for (const LinearProblem& p : problems) {
    for (const int64_t m : {1, 7, 8, 9, 23, 40}) {
      const LinearCase c = make_case(p, m, true, true, 6);
      std::vector<float> y[2];
      for (int i = 0; i < 2; ++i) {
        const Forced forced(i == 0 ? "amxint8" : "avx512vnni");
        const LinearKernel& kernel = choose_linear(p);
        ASSERT_EQ(std::string(kernel.name).find(i == 0 ? "amxint8_" : "avx512vnni_"), 0u) << kernel.name;
        y[i] = run(kernel, c, c.args(nullptr, 0));
      }
      EXPECT_EQ(y[0], y[1]) << describe(p, m);
    }
  }
}

TEST(Amx, RoundsActivationsToTheNearestEven) {
  if (!cpu_features().amx_bf16) GTEST_SKIP() << "a CPU without AMX for BF16";
  const Forced forced("amxbf16");
  const LinearKernel& kernel = choose_linear(float_problems().front());
  std::vector<float> x;
  for (int i = 0; i < 37; ++i)
    x.push_back(std::ldexp(static_cast<float>(256 + i), i - 18) * (i % 2 ? -1.0f : 1.0f));
  x.push_back(0), x.push_back(-0.0f), x.push_back(INFINITY), x.push_back(1 + 1.0f / 256),
      x.push_back(1 + 3.0f / 256);
  std::vector<uint16_t> y(x.size() + 1, 0x1234);
  kernel.round_x(x.data(), static_cast<int64_t>(x.size()), y.data());
  for (size_t i = 0; i < x.size(); ++i) EXPECT_EQ(y[i], float_to_bf16(x[i])) << x[i];
  EXPECT_EQ(y.back(), 0x1234);
}

TEST(Amx, RefusalNamesTheReason) {
  CpuFeatures denied;
  denied.avx2 = denied.avx512 = denied.avx512_vnni = denied.amx_denied = true;
  std::vector<LinearProblem> problems = float_problems();
  for (const LinearProblem& p : int8_problems()) problems.push_back(p);
  for (const LinearProblem& p : problems) {
    int64_t asked = 0;
    for (const LinearKernel* kernel : linear_kernels()) {
      if (std::string(kernel->name).find("amx") != 0) continue;
      CpuFeatures all;
      all.amx_int8 = all.amx_bf16 = true;
      if (!kernel->supports(p, all).ok) continue;  // made for other weights
      ++asked;
      EXPECT_STREQ(kernel->supports(p, denied).reason, "the operating system does not allow AMX");
      EXPECT_NE(std::string(kernel->supports(p, {}).reason).find("the CPU has no AMX"), std::string::npos);
      LinearProblem odd = p;
      odd.k = 240, odd.group = 24, odd.has_scale = true;
      if (p.has_scale) {
        EXPECT_STREQ(kernel->supports(odd, all).reason, "the group size is not a multiple of 32");
      }
    }
    EXPECT_GE(asked, 1) << describe(p, 1);
  }
}

}  // namespace
}  // namespace roundel
