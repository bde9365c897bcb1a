#include "engine/generate.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace roundel {
namespace {

const std::filesystem::path kDense = ROUNDEL_TEST_DATA "/golden/dense/tiny_llama";

class GeneratorTest : public testing::Test {
 protected:
  GeneratorTest()
      : loaded_(load_model(kDense, {.threads = 2, .quantize = {}})),
        tokenizer_(load_tokenizer(*loaded_.files)) {}
  GenerateResult fresh(const std::vector<int32_t>& prompt, const GenerateParams& params) {
    return Generator(loaded_, tokenizer_).run(prompt, params, {});
  }
  LoadedModel loaded_;
  Tokenizer tokenizer_;
};

TEST_F(GeneratorTest, RunAfterACommonBeginningEqualsAFreshRun) {
  const GenerateParams params{.max_tokens = 12, .sampling = {}, .stop_ids = {}};
  Generator generator(loaded_, tokenizer_);
  std::vector<int32_t> prompt = {5, 17, 301, 44, 200};
  for (int turn = 0; turn < 3; ++turn) {
    const GenerateResult got = generator.run(prompt, params, {}), want = fresh(prompt, params);
    EXPECT_EQ(got.ids, want.ids) << turn;
    EXPECT_EQ(got.text, want.text);
    prompt.insert(prompt.end(), got.ids.begin(), got.ids.end());
    prompt.push_back(33 + turn);
  }
  const std::vector<int32_t> other = {5, 17, 9};  // leaves the common part early
  EXPECT_EQ(generator.run(other, params, {}).ids, fresh(other, params).ids);
  EXPECT_EQ(generator.run(other, params, {}).ids, fresh(other, params).ids);  // the same prompt once more
}

TEST_F(GeneratorTest, PiecesAreTheText) {
  std::string pieces;
  const GenerateResult r =
      Generator(loaded_, tokenizer_)
          .run({5, 17}, {.max_tokens = 20, .sampling = {.temperature = 1, .seed = 5}, .stop_ids = {}},
               [&](const std::string& p) { pieces += p; });
  EXPECT_EQ(pieces, r.text);
  EXPECT_EQ(r.text, tokenizer_.decode(r.ids));
  EXPECT_EQ(r.ids.size(), 20u);
  EXPECT_EQ(r.finish, "length");
}

TEST_F(GeneratorTest, StopsAtAStopToken) {
  const GenerateResult all = fresh({5, 17}, {.max_tokens = 8, .sampling = {}, .stop_ids = {}});
  ASSERT_EQ(all.ids.size(), 8u);
  const GenerateResult cut = fresh({5, 17}, {.max_tokens = 8, .sampling = {}, .stop_ids = {all.ids[3]}});
  EXPECT_EQ(cut.finish, "stop");
  EXPECT_LE(cut.ids.size(), 3u);
  EXPECT_TRUE(std::equal(cut.ids.begin(), cut.ids.end(), all.ids.begin()));
}

TEST_F(GeneratorTest, SameSeedSameTokens) {
  const auto run = [&](uint64_t seed) {
    return fresh({9, 8, 7},
                 {.max_tokens = 16, .sampling = {.temperature = 1.5, .seed = seed}, .stop_ids = {}})
        .ids;
  };
  EXPECT_EQ(run(1), run(1));
  EXPECT_NE(run(1), run(2));
}

TEST_F(GeneratorTest, ContextEndsAtTheModelsPositions) {
  const size_t positions = static_cast<size_t>(loaded_.model->config().max_position);
  std::vector<int32_t> prompt(positions - 2);
  for (size_t i = 0; i < prompt.size(); ++i) prompt[i] = static_cast<int32_t>(i * 7 % 500);
  const GenerateResult r = fresh(prompt, {.max_tokens = 50, .sampling = {}, .stop_ids = {}});
  EXPECT_EQ(r.finish, "context");
  EXPECT_EQ(r.ids.size(), 3u);  // two more positions, and a token after the last one
  prompt.resize(positions + 1, 1);
  EXPECT_THROW(fresh(prompt, {}), Error);
  EXPECT_THROW(fresh({}, {}), Error);
}

}  // namespace
}  // namespace roundel
