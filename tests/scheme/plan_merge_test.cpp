// Plans of several requests as one.
#include <gtest/gtest.h>

#include "scheme/plan.h"
#include "scheme/presets.h"
#include "scheme/scheme_text.h"

namespace roundel {
namespace {

const std::vector<ModuleInfo> kModules = {
    {"layers.0.q_proj", "Linear", 64, 128, DType::kBF16, "layers.0.qkv_proj"},
    {"layers.0.k_proj", "Linear", 64, 128, DType::kBF16, "layers.0.qkv_proj"},
    {"layers.0.down_proj", "Linear", 64, 128, DType::kBF16, ""},
};

PlanRequest request(const std::string& target, const std::string& preset) {
  return {.groups = {{"", {target}, find_preset(preset, "test").scheme}},
          .origin = PlanOrigin::kRecipe,
          .partial = true};
}

TEST(PlanMerge, TakesEachModuleFromTheRequestThatHasIt) {
  const PlanResult merged = merge_plans({make_plan(kModules, request("re:.*[qk]_proj", "W8A8")),
                                         make_plan(kModules, request("re:.*down_proj", "W4A16"))},
                                        {"a", "b"});
  EXPECT_TRUE(merged.problems.empty());
  EXPECT_TRUE(merged.warnings.empty());
  EXPECT_EQ(merged.plan.find("layers.0.k_proj")->scheme.weights->num_bits, 8);
  EXPECT_EQ(merged.plan.find("layers.0.down_proj")->scheme.weights->num_bits, 4);
}

TEST(PlanMerge, NamesBothWhereTwoQuantizeOneModule) {
  const PlanResult merged = merge_plans(
      {make_plan(kModules, request("Linear", "W8A8")), make_plan(kModules, request("re:.*q_proj", "W4A16"))},
      {"first", "second"});
  ASSERT_EQ(merged.problems.list().size(), 1u);
  EXPECT_EQ(merged.problems.list()[0].where, "layers.0.q_proj");
  EXPECT_EQ(merged.problems.list()[0].message, "first and second both quantize it; ignore it in one of them");
}

TEST(PlanMerge, ChecksFusedModulesOfTheWhole) {
  const PlanResult merged = merge_plans({make_plan(kModules, request("re:.*q_proj", "W8A8")),
                                         make_plan(kModules, request("re:.*k_proj", "W4A16"))},
                                        {"a", "b"});
  ASSERT_EQ(merged.warnings.size(), 1u);
  EXPECT_NE(merged.warnings[0].find("layers.0.qkv_proj"), std::string::npos);
}

TEST(SchemeText, SearchedScales) {
  const SchemeText text = parse_scheme_text("FP8_DYNAMIC:mse", "test");
  EXPECT_EQ(text.scheme.weights->observer, "memoryless_mse");
  EXPECT_EQ(text.scheme.input->observer, parse_scheme_text("FP8_DYNAMIC", "test").scheme.input->observer);
  EXPECT_FALSE(text.needs_calibration);
}

TEST(SchemeText, StaticActivations) {
  const SchemeText text = parse_scheme_text("W8A8:tensor:act-static", "test");
  EXPECT_TRUE(text.needs_calibration);
  EXPECT_EQ(text.scheme.weights->strategy, Strategy::kTensor);
  EXPECT_EQ(text.scheme.input->strategy, Strategy::kTensor);
  EXPECT_EQ(text.scheme.input->dynamic, DynamicMode::kStatic);
  EXPECT_FALSE(parse_scheme_text("W8A8:act-static:weights-only", "test").needs_calibration);
  EXPECT_FALSE(parse_scheme_text("W8A8:act-static:act-asym", "test").scheme.input->symmetric);
  EXPECT_THROW(parse_scheme_text("W4A16:act-static", "test"), Error);
  EXPECT_THROW(parse_scheme_text("W4A4:act-static", "test"), Error);
}

}  // namespace
}  // namespace roundel
