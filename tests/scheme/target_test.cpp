#include "scheme/target.h"

#include <gtest/gtest.h>

#include <map>

#include "base/error.h"

namespace roundel {
namespace {

constexpr char kDown[] = "model.layers.0.mlp.down_proj";

std::optional<TargetKind> match(const char* target, const char* module, const char* class_name = "Linear") {
  return Target(target, "test").match(module, class_name);
}

TEST(Target, MatchesAWholeName) {
  EXPECT_EQ(match(kDown, kDown), TargetKind::kName);
  EXPECT_EQ(match("down_proj", kDown), std::nullopt);
  EXPECT_EQ(match("model.layers.0.mlp", kDown), std::nullopt);
}

TEST(Target, AnchorsPatternsAtTheStartOnly) {
  EXPECT_EQ(match("re:.*down_proj", kDown), TargetKind::kPattern);
  EXPECT_EQ(match("re:.*down", kDown), TargetKind::kPattern);
  EXPECT_EQ(match("re:down_proj", kDown), std::nullopt);
  EXPECT_EQ(match("re:lm_head", "model.lm_head"), std::nullopt);
  EXPECT_EQ(match("re:.*lm_head", "model.lm_head"), TargetKind::kPattern);
  EXPECT_EQ(match("re:.*down$", kDown), std::nullopt);
  EXPECT_EQ(match("re:", kDown), TargetKind::kPattern);  // as re.match("", name)
  EXPECT_EQ(match("re:Linear", kDown), std::nullopt);    // a pattern never meets a class
}

TEST(Target, MatchesClassesOfTheInheritanceChain) {
  EXPECT_EQ(match("Linear", kDown), TargetKind::kClass);
  EXPECT_EQ(match("Module", kDown), TargetKind::kClass);
  EXPECT_EQ(match("Embedding", kDown), std::nullopt);
  EXPECT_EQ(match("Embedding", "model.embed_tokens", "Embedding"), TargetKind::kClass);
  EXPECT_EQ(match("Module", "model.embed_tokens", "Embedding"), TargetKind::kClass);
  EXPECT_EQ(match("linear", kDown), std::nullopt);
  EXPECT_EQ(match("torch.nn.modules.linear.Linear", kDown), std::nullopt);
  EXPECT_EQ(match("", kDown), std::nullopt);
}

TEST(Target, NamesTheBadPattern) {
  try {
    Target target("re:mlp.(gate", "--ignore");
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::kInvalid);
    EXPECT_NE(std::string(e.what()).find("--ignore"), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find("mlp.(gate"), std::string::npos) << e.what();
  }
}

TEST(Target, StopsAPathologicalPattern) {
  const Target target("re:((a|aa)+)+[!?]", "--rule");
  try {
    target.match(std::string(10000, 'a'), "Linear");
    FAIL() << "no error";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::kLimit);
    EXPECT_NE(std::string(e.what()).find("--rule"), std::string::npos) << e.what();
  }
}

TEST(TargetSet, FindsAllMatchesAndRemembersThem) {
  TargetSet set;
  for (const char* text : {"Linear", kDown, "re:.*mlp", "re:.*attn", "Module"}) set.add(text, "test");
  std::map<size_t, TargetKind> found;
  for (const TargetSet::Match& match : set.match(kDown, "Linear")) found[match.index] = match.kind;
  const std::map<size_t, TargetKind> expected = {
      {0, TargetKind::kClass}, {1, TargetKind::kName}, {2, TargetKind::kPattern}, {4, TargetKind::kClass}};
  EXPECT_EQ(found, expected);
  for (size_t i = 0; i < set.size(); ++i) EXPECT_EQ(set.ever_matched(i), i != 3) << i;
}

TEST(TargetSet, LimitsTheNumberOfPatterns) {
  TargetSet set;
  EXPECT_THROW(for (int i = 0; i < 20000; ++i) set.add("re:x" + std::to_string(i), "test"), Error);
}

}  // namespace
}  // namespace roundel
