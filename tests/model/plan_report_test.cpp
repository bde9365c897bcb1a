#include "model/plan_report.h"

#include <gtest/gtest.h>

namespace roundel {
namespace {

TEST(PlanReport, SaysHowKeysAndValuesAreKept) {
  Plan plan;
  EXPECT_EQ(report_plan(plan).kv_cache, "floats");
  QuantArgs fp8;
  fp8.type = NumberType::kFloat;
  fp8.num_bits = 8;
  fp8.strategy = Strategy::kTensor;
  plan.kv_cache = fp8;
  EXPECT_EQ(report_plan(plan).kv_cache,
            "floats, rounded to " + describe(fp8) + " by the checkpoint's scales");
}

}  // namespace
}  // namespace roundel
