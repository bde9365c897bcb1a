// --int8-activations: weight-only integer modules run as those of W4A8 and W8A8 do, whether quantized on load or stored.
#include <gtest/gtest.h>

#include "base/error.h"
#include "model/loaded_model.h"
#include "model/plan_report.h"
#include "scheme/scheme_text.h"

namespace roundel {
namespace {

const std::filesystem::path kGolden = ROUNDEL_TEST_DATA "/golden";

LoadOptions options(const char* scheme, bool int8_activations) {
  LoadOptions o{.threads = 2, .quantize = std::nullopt, .int8_activations = int8_activations};
  if (!scheme) return o;
  o.quantize = PlanRequest{};
  o.quantize->groups.push_back({"", {"Linear"}, parse_scheme_text(scheme, "test").scheme});
  o.quantize->default_ignore = {"lm_head"};
  return o;
}

std::vector<float> logits(const LoadedModel& m) {
  const std::vector<int32_t> ids = {1, 17, 400, 23, 5, 99, 310, 2, 44};
  KvCache cache = m.model->make_cache(1);
  const SequenceStep step{0, ids};
  std::vector<float> out(static_cast<size_t>(m.model->config().vocab_size));
  m.model->next_logits({&step, 1}, cache, out.data(), static_cast<int64_t>(out.size()), *m.pool);
  return out;
}

TEST(Int8Activations, GiveTheLogitsOfTheSchemeThatHasThem) {
  const std::filesystem::path dense = kGolden / "dense/tiny_llama";
  const std::pair<const char*, const char*> pairs[] = {
      {"W4A16:g32", "W4A8:g32"}, {"W4A16:g32:asym", "W4A8:g32:asym"}, {"W8A16:channel", "W8A8"}};
  for (const auto& [floats, int8] : pairs) {
    const std::vector<float> got = logits(load_model(dense, options(floats, true)));
    EXPECT_EQ(got, logits(load_model(dense, options(int8, false)))) << floats;
    EXPECT_NE(got, logits(load_model(dense, options(floats, false)))) << floats;
  }
}

TEST(Int8Activations, StoredWeightsStayWhatTheyAre) {
  const std::filesystem::path stored = kGolden / "w4a16_asym_g32";
  const LoadedModel floats = load_model(stored, options(nullptr, false));
  const LoadedModel int8 = load_model(stored, options(nullptr, true));
  const std::vector<float> want = logits(floats), got = logits(int8);
  double error = 0, size = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    error += (got[i] - want[i]) * (got[i] - want[i]);
    size += want[i] * want[i];
  }
  EXPECT_GT(error, 0);
  EXPECT_LT(error, 1e-2 * size);  // activations of 8 bits: half a percent of the largest each
  const PlanEntry* e = int8.plan.find("model.layers.0.mlp.up_proj");
  ASSERT_NE(e, nullptr);
  EXPECT_EQ(e->scheme.weights, floats.plan.find(e->module.name)->scheme.weights);
  EXPECT_EQ(e->note, "activations in int8, as asked");
  const PlanReport report = report_plan(int8.plan);
  EXPECT_EQ(report.rows[static_cast<size_t>(e - int8.plan.entries.data())].scheme, "W4A8 g32 asym/token");
}

TEST(Int8Activations, OnlyWhereThereAreWeightOnlyIntegers) {
  const std::filesystem::path dense = kGolden / "dense/tiny_llama";
  const char* const none[] = {nullptr, "W8A8", "FP8_DYNAMIC"};
  for (const char* scheme : none) {
    try {
      load_model(dense, options(scheme, true));
      ADD_FAILURE() << (scheme ? scheme : "dense");
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::kUsage);
      EXPECT_NE(std::string(e.what()).find("--int8-activations: no linear module of"), std::string::npos);
    }
  }
  const LoadedModel mixed = load_model(dense, [] {
    LoadOptions o = options("W8A8", true);
    o.quantize->groups.push_back({"", {"re:.*down_proj"}, parse_scheme_text("W8A16:channel", "test").scheme});
    return o;
  }());
  EXPECT_EQ(mixed.plan.find("model.layers.0.mlp.up_proj")->note, "");
  EXPECT_EQ(mixed.plan.find("model.layers.0.mlp.down_proj")->note, "activations in int8, as asked");
  EXPECT_FALSE(mixed.plan.find("lm_head")->scheme.weights);
}

}  // namespace
}  // namespace roundel
