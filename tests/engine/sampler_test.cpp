#include "engine/sampler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <vector>

namespace roundel {
namespace {

int32_t pick(std::vector<float> logits, const SamplingParams& params, uint64_t step = 0,
             std::vector<int32_t> history = {}) {
  return sample(logits, params, history, step);
}

std::map<int32_t, int> counts(const std::vector<float>& logits, const SamplingParams& params, int draws) {
  std::map<int32_t, int> seen;
  for (int i = 0; i < draws; ++i) ++seen[pick(logits, params, static_cast<uint64_t>(i))];
  return seen;
}

TEST(Sampler, GreedyTakesTheLargestAndTheLowerIdOfEquals) {
  EXPECT_EQ(pick({0, 3, 1, 2}, {}), 1);
  EXPECT_EQ(pick({0, 3, 1, 3}, {}), 1);
  EXPECT_EQ(pick({-5, -1, -1}, {}), 1);
}

TEST(Sampler, TopKKeepsTheKLikeliest) {
  const auto seen = counts({1, 2, 3, 4, 5}, {.temperature = 2, .top_k = 2, .seed = 1}, 500);
  EXPECT_EQ(seen.size(), 2u);
  EXPECT_TRUE(seen.contains(3) && seen.contains(4));
  EXPECT_EQ(counts({1, 2, 3, 4, 5}, {.temperature = 2, .top_k = 1, .seed = 1}, 50).size(), 1u);
  EXPECT_EQ(counts({1, 2, 3, 4, 5}, {.temperature = 2, .top_k = 99, .seed = 1}, 2000).size(), 5u);
}

TEST(Sampler, TopPKeepsTheSmallestSetThatReachesIt) {
  // Probabilities 0.5, 0.3, 0.15, 0.05.
  const std::vector<float> logits = {std::log(0.15f), std::log(0.5f), std::log(0.05f), std::log(0.3f)};
  EXPECT_EQ(counts(logits, {.temperature = 1, .top_p = 0.4, .seed = 2}, 300).size(), 1u);
  EXPECT_EQ(counts(logits, {.temperature = 1, .top_p = 0.7, .seed = 2}, 300).size(), 2u);
  EXPECT_EQ(counts(logits, {.temperature = 1, .top_p = 0.9, .seed = 2}, 300).size(), 3u);
  EXPECT_EQ(counts(logits, {.temperature = 1, .top_p = 1.0, .seed = 2}, 3000).size(), 4u);
}

TEST(Sampler, MinPKeepsTokensNearTheLikeliest) {
  // Probabilities 0.15, 0.5, 0.05, 0.3: of the likeliest 0.3, 1, 0.1, 0.6.
  const std::vector<float> logits = {std::log(0.15f), std::log(0.5f), std::log(0.05f), std::log(0.3f)};
  EXPECT_EQ(counts(logits, {.temperature = 1, .min_p = 0.05, .seed = 2}, 3000).size(), 4u);
  EXPECT_EQ(counts(logits, {.temperature = 1, .min_p = 0.2, .seed = 2}, 300).size(), 3u);
  EXPECT_EQ(counts(logits, {.temperature = 1, .min_p = 0.5, .seed = 2}, 300).size(), 2u);
  EXPECT_EQ(counts(logits, {.temperature = 1, .min_p = 1, .seed = 2}, 300).size(), 1u);
  // The temperature comes first: 0.3^(1/2) is above a half.
  EXPECT_EQ(counts(logits, {.temperature = 2, .min_p = 0.5, .seed = 2}, 300).size(), 3u);
}

TEST(Sampler, FrequenciesFollowTheProbabilities) {
  const std::vector<double> p = {0.5, 0.3, 0.15, 0.05};
  std::vector<float> logits;
  for (const double x : p) logits.push_back(static_cast<float>(std::log(x)));
  constexpr int kDraws = 20000;
  auto seen = counts(logits, {.temperature = 1, .seed = 3}, kDraws);
  for (size_t i = 0; i < p.size(); ++i) {  // five standard deviations
    const double slack = 5 * std::sqrt(p[i] * (1 - p[i]) / kDraws);
    EXPECT_NEAR(static_cast<double>(seen[static_cast<int32_t>(i)]) / kDraws, p[i], slack) << i;
  }
}

TEST(Sampler, TemperatureDividesTheLogits) {
  // Temperature 0.5 squares the odds: 0.8 and 0.2 become 16/17 and 1/17.
  auto seen = counts({std::log(0.8f), std::log(0.2f)}, {.temperature = 0.5, .seed = 4}, 20000);
  EXPECT_NEAR(seen[0] / 20000.0, 16.0 / 17, 5 * std::sqrt(16.0 / 289 / 20000));
}

TEST(Sampler, SeedAndStepDecide) {
  const std::vector<float> logits(50, 0.0f);
  const SamplingParams a{.temperature = 1, .seed = 7}, b{.temperature = 1, .seed = 8};
  int differ_seed = 0, differ_step = 0;
  for (uint64_t step = 0; step < 100; ++step) {
    EXPECT_EQ(pick(logits, a, step), pick(logits, a, step));
    differ_seed += pick(logits, a, step) != pick(logits, b, step);
    differ_step += pick(logits, a, step) != pick(logits, a, step + 1);
  }
  EXPECT_GT(differ_seed, 50);
  EXPECT_GT(differ_step, 50);
}

TEST(Sampler, RepetitionPenaltyActsOnTokensOfTheHistory) {
  EXPECT_EQ(pick({4, 3, -1}, {.repetition_penalty = 2}, 0, {0}), 1);       // 4 / 2 < 3
  EXPECT_EQ(pick({-1, -1.5f}, {.repetition_penalty = 2}, 0, {0}), 1);      // -1 * 2 < -1.5
  EXPECT_EQ(pick({4, 3, -1}, {.repetition_penalty = 1.2}, 0, {0, 0}), 0);  // once, however often it occurs
}

}  // namespace
}  // namespace roundel
