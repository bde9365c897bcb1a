// The choice of kernels, and ROUNDEL_FORCE_KERNEL.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "base/cpu_features.h"
#include "base/error.h"
#include "kernels/list.h"

namespace roundel {
namespace {

struct Forced {
  explicit Forced(const char* name) { setenv("ROUNDEL_FORCE_KERNEL", name, 1); }
  ~Forced() { unsetenv("ROUNDEL_FORCE_KERNEL"); }
};

LinearProblem w4a16(int64_t group) {
  LinearProblem p;
  p.n = 64, p.k = 256, p.code = CodeType::kInt, p.bits = 4, p.has_scale = true, p.group = group;
  return p;
}

TEST(Choose, ReferenceIsLastInEveryList) {
  EXPECT_STREQ(linear_kernels().back()->name, "reference_linear");
  EXPECT_STREQ(vector_ops_list().back()->name, "reference_ops");
  EXPECT_STREQ(attention_kernels().back()->name, "reference_attention");
}

TEST(Choose, ForcedPrefixIsTakenInAllLists) {
  const Forced forced("reference");
  EXPECT_STREQ(choose_linear(w4a16(128)).name, "reference_linear");
  EXPECT_STREQ(vector_ops().name, "reference_ops");
  EXPECT_STREQ(attention_kernel().name, "reference_attention");
  EXPECT_STREQ(encode_ops().name, "reference_encode");
}

TEST(Choose, EveryKernelCanBeForcedByName) {
  for (const LinearKernel* kernel : linear_kernels()) {
    if (!kernel->supports(w4a16(128), cpu_features()).ok) continue;
    const Forced forced(kernel->name);
    EXPECT_EQ(&choose_linear(w4a16(128)), kernel) << kernel->name;
    EXPECT_NO_THROW(vector_ops());  // a list without that name ignores it
  }
}

TEST(Choose, ForcedKernelThatCannotIsAnError) {
  for (const LinearKernel* kernel : linear_kernels()) {
    const Support support = kernel->supports(w4a16(3), cpu_features());
    if (support.ok) continue;
    const Forced forced(kernel->name);
    try {
      choose_linear(w4a16(3));
      ADD_FAILURE() << kernel->name << " should have been refused";
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::kUsage);
      EXPECT_NE(std::string(e.what()).find(support.reason), std::string::npos) << e.what();
    }
  }
}

TEST(Choose, Int8PeakIsOfTheBestInstructionSet) {
  const Int8Peak* peak = int8_peak();
  const CpuFeatures& cpu = cpu_features();
  ASSERT_EQ(peak != nullptr, cpu.avx2);
  if (!peak) GTEST_SKIP() << "a CPU without AVX2";
  const char* const wanted = cpu.amx_int8      ? "amx"
                             : cpu.avx512_vnni ? "avx512vnni"
                             : cpu.avx_vnni    ? "avxvnni"
                                               : "avx2";
  EXPECT_EQ(std::string(peak->name).find(wanted), 0u) << peak->name;
  EXPECT_GT(peak->operations, 1e8);
  peak->run();  // only instructions that this CPU has
}

TEST(Choose, RefusalsCarryReasons) {
  std::vector<Refusal> refused;
  const LinearKernel& kernel = choose_linear(w4a16(3), &refused);
  EXPECT_STREQ(kernel.name, "reference_linear");  // a group of 3 suits no packed layout
  EXPECT_EQ(refused.size(), linear_kernels().size() - 1);
  for (const Refusal& r : refused) EXPECT_FALSE(r.reason.empty()) << r.kernel;
}

}  // namespace
}  // namespace roundel
