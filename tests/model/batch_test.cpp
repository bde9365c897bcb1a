#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "model/loaded_model.h"
#include "scheme/scheme_text.h"

namespace roundel {
namespace {

const std::filesystem::path kDense = ROUNDEL_TEST_DATA "/golden/dense/tiny_llama";

LoadedModel load(const char* scheme, const std::filesystem::path& folder = kDense) {
  LoadOptions options{.threads = 2, .quantize = {}};
  if (*scheme) {
    PlanRequest request;
    request.groups.push_back({"", {"Linear"}, parse_scheme_text(scheme, "test").scheme});
    request.default_ignore = {"lm_head"};
    options.quantize = request;
  }
  return load_model(folder, options);
}

// Hidden states of `tokens` in slot `slot`, fed in pieces of `piece` tokens.
std::vector<float> states(const LoadedModel& m, const std::vector<int32_t>& tokens, size_t piece) {
  KvCache cache = m.model->make_cache(1);
  const size_t ld = static_cast<size_t>(m.model->hidden_ld());
  std::vector<float> hidden(tokens.size() * ld);
  for (size_t at = 0; at < tokens.size(); at += piece) {
    const SequenceStep step{0, std::span(tokens).subspan(at, std::min(piece, tokens.size() - at)),
                            static_cast<int64_t>(tokens.size())};
    m.model->forward({&step, 1}, cache, hidden.data() + at * ld, *m.pool);
  }
  return hidden;
}

class Batch : public testing::TestWithParam<const char*> {};

TEST_P(Batch, SequencesTogetherGiveTheBitsOfEachAlone) {
  const LoadedModel m = load(GetParam());
  const size_t ld = static_cast<size_t>(m.model->hidden_ld());
  const std::vector<std::vector<int32_t>> sequences = {
      {1, 2, 3, 4, 5, 6, 7}, {400, 3, 99}, {7, 7, 7, 7, 12}, {511}};
  KvCache cache = m.model->make_cache(static_cast<int64_t>(sequences.size()));
  std::vector<std::vector<float>> together(sequences.size());
  size_t longest = 0;
  for (const auto& s : sequences) longest = std::max(longest, s.size());
  for (size_t t = 0; t < longest; ++t) {  // one token of every sequence that has one left
    std::vector<SequenceStep> steps;
    std::vector<size_t> who;
    for (size_t s = 0; s < sequences.size(); ++s) {
      if (t >= sequences[s].size()) continue;
      steps.push_back({static_cast<int64_t>(s), std::span(sequences[s]).subspan(t, 1)});
      who.push_back(s);
    }
    std::vector<float> hidden(steps.size() * ld);
    m.model->forward(steps, cache, hidden.data(), *m.pool);
    for (size_t i = 0; i < who.size(); ++i)
      together[who[i]].insert(together[who[i]].end(), hidden.begin() + static_cast<std::ptrdiff_t>(i * ld),
                              hidden.begin() + static_cast<std::ptrdiff_t>((i + 1) * ld));
  }
  for (size_t s = 0; s < sequences.size(); ++s) EXPECT_EQ(together[s], states(m, sequences[s], 1)) << s;
}

TEST_P(Batch, TokensInOneStepGiveTheBitsOfOneAfterAnother) {
  const LoadedModel m = load(GetParam());
  std::vector<int32_t> tokens;
  for (int32_t i = 0; i < 37; ++i) tokens.push_back(i * 31 % 512);
  const std::vector<float> one = states(m, tokens, 1);
  for (const size_t piece : {2, 5, 16, 37}) EXPECT_EQ(states(m, tokens, piece), one) << piece;
}

// Where the rotation depends on the length, a prompt in pieces still equals the prompt in one.
TEST(Model, PiecesOfALongPromptAreRotatedAsTheWhole) {
  const Json scalings[] = {{{"rope_type", "dynamic"}, {"factor", 2.0}, {"rope_theta", 10000.0}},
                           {{"rope_type", "longrope"},
                            {"rope_theta", 10000.0},
                            {"original_max_position_embeddings", 16},
                            {"short_factor", std::vector<double>(16, 1.0)},
                            {"long_factor", std::vector<double>(16, 3.0)}}};
  const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / "roundel_long_prompt";
  std::vector<int32_t> tokens;
  for (int32_t i = 0; i < 60; ++i) tokens.push_back(i * 31 % 512);
  for (const Json& scaling : scalings) {
    std::filesystem::remove_all(folder);
    std::filesystem::copy(kDense, folder);
    Json config = read_json_file(folder / "config.json");
    config["max_position_embeddings"] = scaling["rope_type"] == "dynamic" ? 16 : 64;
    config["rope_parameters"] = scaling;
    std::ofstream(folder / "config.json") << config.dump();
    const LoadedModel m = load("", folder);
    EXPECT_EQ(states(m, tokens, 10), states(m, tokens, 60)) << scaling;
    EXPECT_FALSE(m.model->same_rotation(16, 60));
  }
  std::filesystem::remove_all(folder);
}

INSTANTIATE_TEST_SUITE_P(Model, Batch,
                         testing::Values("", "W8A8", "W4A16:g32", "FP8_DYNAMIC", "W8A16:channel"));

}  // namespace
}  // namespace roundel
