// Perplexity, KL divergence and top-1 agreement of models whose probabilities are written down by hand.
#include "eval/perplexity.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "tests/checkpoint/support.h"
#include "tests/model/tiny_folder.h"

namespace roundel {
namespace {

using Table = std::vector<std::vector<double>>;  // table[token][next]: probabilities

// P(next | token); each row adds up to 1.
const Table kModel = {{0.50, 0.25, 0.125, 0.125},
                      {0.125, 0.50, 0.25, 0.125},
                      {0.25, 0.25, 0.25, 0.25},
                      {0.10, 0.20, 0.30, 0.40}};
const Table kBase = {{0.25, 0.50, 0.125, 0.125},
                     {0.125, 0.50, 0.25, 0.125},
                     {0.70, 0.10, 0.10, 0.10},
                     {0.40, 0.30, 0.20, 0.10}};

class Perplexity : public testing::Test {
 protected:
  // A shift of all logits of a row changes no probability.
  LoadedModel load(const std::string& name, const Table& table, double shift = 0) {
    Table logits = table;
    for (auto& row : logits)
      for (double& p : row) p = std::log(p) + shift;
    write_tiny_folder(temp_ / name, tiny_config(8, static_cast<int64_t>(table.size())),
                      bigram_tensors(logits));
    return load_model(temp_ / name, {.threads = 2, .quantize = {}});
  }
  TempFolder temp_;
};

TEST_F(Perplexity, CountsTokensTwoToNOfEachWindow) {
  const LoadedModel m = load("m", kModel, 3);
  // Windows 0 1 2 | 3 3 0 | the rest, 1 1, is left out. Transitions 0>1, 1>2 and 3>3, 3>0, not 2>3:
  // -ln(1/4) - ln(1/4) - ln(0.4) - ln(0.1)
  const std::vector<int32_t> ids = {0, 1, 2, 3, 3, 0, 1, 1};
  const EvalResult r = evaluate(m, ids, {.window = 3});
  EXPECT_EQ(r.windows, 2);
  EXPECT_EQ(r.tokens, 4);
  const double nll = -std::log(0.25 * 0.25 * 0.4 * 0.1) / 4;
  EXPECT_NEAR(r.mean_nll, nll, 1e-6);
  EXPECT_NEAR(r.perplexity, std::pow(0.25 * 0.25 * 0.4 * 0.1, -0.25), 1e-5);  // 4.472136
  EXPECT_FALSE(r.has_baseline);
}

TEST_F(Perplexity, TakesEveryKthWindowUpToTheLimit) {
  const LoadedModel m = load("m", kModel);
  // Windows of 2, one transition each: 0>0 (1/2), 0>1 (1/4), 0>2 (1/8), 3>0 (0.1), 3>1 (0.2), 3>2 (0.3), 3>3 (0.4)
  const std::vector<int32_t> ids = {0, 0, 0, 1, 0, 2, 3, 0, 3, 1, 3, 2, 3, 3};
  const auto nll = [&](const EvalParams& p) { return evaluate(m, ids, p).mean_nll; };
  const auto mean = [](std::vector<double> p) {
    double sum = 0;
    for (const double x : p) sum -= std::log(x);
    return sum / static_cast<double>(p.size());
  };
  EXPECT_NEAR(nll({.window = 2}), mean({0.5, 0.25, 0.125, 0.1, 0.2, 0.3, 0.4}), 1e-6);
  EXPECT_NEAR(nll({.window = 2, .every = 3}), mean({0.5, 0.1, 0.4}), 1e-6);  // windows 0, 3, 6
  EXPECT_NEAR(nll({.window = 2, .every = 4}), mean({0.5, 0.2}), 1e-6);       // 0, 4
  EXPECT_NEAR(nll({.window = 2, .every = 3, .limit_windows = 2}), mean({0.5, 0.1}), 1e-6);
  EXPECT_NEAR(nll({.window = 2, .every = 100}), mean({0.5}), 1e-6);
  EXPECT_EQ(evaluate(m, ids, {.window = 2, .every = 3}).windows, 3);
  EXPECT_EQ(evaluate(m, ids, {.window = 2, .every = 3, .limit_windows = 50}).windows, 3);
}

TEST_F(Perplexity, LongWindowsAreCutIntoPiecesWithoutEffect) {
  const LoadedModel m = load("m", kModel);
  std::vector<int32_t> ids(64);  // the model's positions; more rows than logits are made at a time
  double want = 0;
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>(i * i % 4);  // 0 1 0 1 ...
  for (size_t i = 1; i < ids.size(); ++i)
    want -= std::log(kModel[static_cast<size_t>(ids[i - 1])][static_cast<size_t>(ids[i])]) / 63;
  const EvalResult r = evaluate(m, ids, {.window = 64});
  EXPECT_EQ(r.tokens, 63);
  EXPECT_NEAR(r.mean_nll, want, 1e-6);
}

TEST_F(Perplexity, SaysThatATextIsTooShort) {
  const LoadedModel m = load("m", kModel);
  const std::vector<int32_t> ids = {0, 1, 2};
  expect_error([&] { evaluate(m, ids, {.window = 4}); }, {"3 tokens", "window of 4", "smaller"});
  EXPECT_EQ(evaluate(m, ids, {.window = 3}).tokens, 2);
  expect_error([&] { evaluate(m, ids, {.window = 1}); }, {"window of 1", "2 to 64"});
  expect_error([&] { evaluate(m, ids, {.window = 65}); }, {"window of 65", "2 to 64"});
}

// KL(baseline || model) at a position depends on the current token only:
//   token 0: 1/4 ln(1/2) + 1/2 ln 2 = 1/4 ln 2             the likeliest next token: 1 against 0
//   token 1: the same distribution: 0                      the same: 1
//   token 2: 0.7 ln 2.8 + 3 * 0.1 ln 0.4                   0 against a tie of all, which is 0: the same
//   token 3: 0.4 ln 4 + 0.3 ln 1.5 + 0.2 ln(2/3) + 0.1 ln(1/4)   0 against 3
const double kKl[] = {
    0.25 * std::log(2.0), 0, 0.7 * std::log(2.8) + 0.3 * std::log(0.4),
    0.4 * std::log(4.0) + 0.3 * std::log(1.5) + 0.2 * std::log(2.0 / 3) + 0.1 * std::log(0.25)};

TEST_F(Perplexity, DivergenceFromABaselineByHand) {
  const LoadedModel m = load("m", kModel, -2), base = load("b", kBase, 5);
  const std::vector<int32_t> ids = {0, 1, 2, 3, 3, 1};  // one window: positions of tokens 0 1 2 3 3
  const EvalResult r = evaluate(m, ids, {.window = 6}, &base);
  ASSERT_TRUE(r.has_baseline);
  EXPECT_NEAR(r.kl_mean, (kKl[0] + kKl[1] + kKl[2] + 2 * kKl[3]) / 5, 1e-6);
  EXPECT_NEAR(r.top1_agreement, 2.0 / 5, 1e-12);
  // 0>1 1/2, 1>2 1/4, 2>3 0.1, 3>3 0.1, 3>1 0.3
  EXPECT_NEAR(r.baseline_perplexity, std::pow(0.5 * 0.25 * 0.1 * 0.1 * 0.3, -0.2), 1e-5);
  EXPECT_NEAR(r.perplexity, std::pow(0.25 * 0.25 * 0.25 * 0.4 * 0.2, -0.2), 1e-5);
}

TEST_F(Perplexity, NinetyNinthPercentileIsByRank) {
  const LoadedModel m = load("m", kModel), base = load("b", kBase);
  // 2 * 51 positions: 2 of them at token 2 (the largest divergence but one kind), the others at token 1 (none).
  // Rank floor(0.99 * 101) = 99 of the sorted 0..101: with two large ones, 100 and 101, it is 0; with three it is not.
  std::vector<int32_t> few(104, 1), more(104, 1);
  few[10] = few[70] = 2;
  more[10] = more[70] = more[90] = 2;
  const EvalResult a = evaluate(m, few, {.window = 52}, &base), b = evaluate(m, more, {.window = 52}, &base);
  EXPECT_EQ(a.tokens, 102);
  EXPECT_NEAR(a.kl_p99, 0, 1e-6);
  EXPECT_NEAR(b.kl_p99, kKl[2], 1e-6);
  EXPECT_NEAR(a.kl_mean, 2 * kKl[2] / 102, 1e-7);
}

TEST_F(Perplexity, AModelAgreesWithItself) {
  const LoadedModel m = load("m", kModel);
  const std::vector<int32_t> ids = {3, 2, 1, 0, 0, 3, 1, 2};
  const EvalResult r = evaluate(m, ids, {.window = 4}, &m);
  EXPECT_EQ(r.kl_mean, 0);
  EXPECT_EQ(r.kl_p99, 0);
  EXPECT_EQ(r.top1_agreement, 1);
  EXPECT_EQ(r.baseline_perplexity, r.perplexity);
}

TEST_F(Perplexity, RefusesAnotherVocabulary) {
  const LoadedModel m = load("m", kModel), other = load("o", {{0.5, 0.5}, {0.5, 0.5}});
  const std::vector<int32_t> ids = {0, 1, 1, 0};
  expect_error([&] { evaluate(m, ids, {.window = 2}, &other); }, {"vocabulary of 2", "4"});
}

}  // namespace
}  // namespace roundel
