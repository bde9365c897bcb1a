// Requests as people write them, on the command line (docs/cli.md) or through the library.
#include "scheme/plan_text.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "tests/checkpoint/support.h"

namespace roundel {
namespace {

PlanText text(const std::string& scheme, int64_t group_size = 0, std::vector<std::string> rules = {}) {
  PlanText t;
  t.scheme = scheme, t.group_size = group_size, t.rules = std::move(rules);
  return t;
}

TEST(PlanText, SchemeIsOfAllLinearLayers) {
  const PlanRequest r = parse_plan_text(text("W4A16"));
  ASSERT_EQ(r.groups.size(), 1u);
  EXPECT_EQ(r.groups[0].targets, std::vector<std::string>{"Linear"});
  EXPECT_EQ(r.groups[0].scheme.weights->group_size, 128);
  EXPECT_EQ(r.default_ignore, std::vector<std::string>{"lm_head"});
  EXPECT_TRUE(r.ignore.empty());
  EXPECT_EQ(r.origin, PlanOrigin::kCommandLine);
}

TEST(PlanText, GroupSizeIsOfSchemesThatNameNone) {
  const PlanRequest r = parse_plan_text(text("W4A16", 64, {"re:.*q_proj=W8A16:g32", "re:.*k_proj=W8A8"}));
  EXPECT_EQ(r.groups[0].scheme.weights->group_size, 64);
  EXPECT_EQ(r.groups[1].scheme.weights->group_size, 32);
  EXPECT_EQ(r.groups[2].scheme.weights->strategy, Strategy::kChannel);
  const PlanRequest rows = parse_plan_text(text("W4A16", -1));
  EXPECT_EQ(rows.groups[0].scheme.weights->strategy, Strategy::kChannel);
  EXPECT_EQ(rows.groups[0].scheme.weights->group_size, 0);
}

TEST(PlanText, RulesAreCutAtTheLastEqualsSign) {
  const PlanRequest r = parse_plan_text(text("", 0, {"re:a(?=b)=W8A16:channel", "lm_head=none"}));
  ASSERT_EQ(r.groups.size(), 2u);
  EXPECT_EQ(r.groups[0].targets, std::vector<std::string>{"re:a(?=b)"});
  EXPECT_EQ(r.groups[0].scheme.weights->num_bits, 8);
  EXPECT_FALSE(r.groups[1].scheme.weights);
}

TEST(PlanText, IgnoredModulesAndWhatDoesNotDivide) {
  PlanText t = text("W8A8");
  t.ignore = {"a", "b"}, t.no_default_ignore = true;
  const std::pair<const char*, OnIndivisible> words[] = {{"error", OnIndivisible::kError},
                                                         {"skip", OnIndivisible::kSkip},
                                                         {"pad", OnIndivisible::kPad},
                                                         {"channel", OnIndivisible::kChannel}};
  for (const auto& [word, meaning] : words) {
    t.on_indivisible = word;
    EXPECT_EQ(parse_plan_text(t).on_indivisible, meaning) << word;
  }
  EXPECT_EQ(parse_plan_text(t).ignore, (std::vector<std::string>{"a", "b"}));
  EXPECT_TRUE(parse_plan_text(t).default_ignore.empty());
}

TEST(PlanText, MessagesUseTheCallersNames) {
  const PlanTextNames flags{"--quantize", "--rule", "--group-size", "--recipe"};
  expect_error([&] { parse_plan_text({}, flags); }, {"--quantize NAME", "--rule TARGET=SCHEME"});
  expect_error([&] { parse_plan_text(text("W4A61"), flags); }, {"--quantize", "W4A61", "W4A16"});
  for (const char* rule : {"down_proj", "=W8A8", "down_proj="})
    expect_error([&] { parse_plan_text(text("", 0, {rule}), flags); }, {"--rule", rule, "TARGET=SCHEME"});
  expect_error([&] { parse_plan_text(text("", 0, {"a=W99"}), flags); }, {"--rule a", "W99"});
  expect_error([&] { parse_plan_text(text("W8A8", 32), flags); }, {"--group-size 32", "W8A8"});
  expect_error([] { parse_plan_text(text("W8A8", 32)); }, {"group_size 32", "W8A8"});
  expect_error([] { parse_plan_text(text("W4A16", (1 << 20) + 1)); }, {"group_size is 1048577"});
}

}  // namespace
}  // namespace roundel
