// Errors between two checkpoints: known arrays, and the golden ones, whose numbers torch computed (see the table below).
#include "eval/compare.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/thread_pool.h"
#include "tests/checkpoint/support.h"
#include "tests/model/tiny_folder.h"

namespace roundel {
namespace {

const std::string kQ = "model.layers.0.self_attn.q_proj", kUp = "model.layers.0.mlp.up_proj";

class Compare : public testing::Test {
 protected:
  // A folder whose q_proj and up_proj hold these values, everything else 0 or the same.
  ModelFiles folder(const std::string& name, const std::vector<float>& q, const std::vector<float>& up,
                    int64_t vocab = 2) {
    std::vector<std::vector<double>> table(static_cast<size_t>(vocab),
                                           std::vector<double>(static_cast<size_t>(vocab), 1));
    std::vector<TinyTensor> tensors = bigram_tensors(table);
    for (TinyTensor& t : tensors) {
      if (t.name == kQ + ".weight") t.values = q;
      if (t.name == kUp + ".weight") t.values = up;
    }
    write_tiny_folder(temp_ / name, tiny_config(8, vocab), tensors);
    return open_model(temp_ / name);
  }
  static TensorComparison of(const std::vector<TensorComparison>& rows, const std::string& module) {
    for (const TensorComparison& r : rows)
      if (r.module == module) return r;
    ADD_FAILURE() << "no row for " << module;
    return {};
  }
  TempFolder temp_;
  ThreadPool pool_{2};
};

TEST_F(Compare, KnownArrays) {
  // q: 64 ones against 64 times 0.75: 10 log10(64 / (64 * 0.0625)) = 10 log10(16). up: 3 and 4 against 3 and 3.5, the
  // rest zeros: 10 log10(25 / 0.25) = 20 dB, relative error 0.1.
  std::vector<float> up(64, 0.0f), other(64, 0.0f);
  up[5] = 3, up[60] = 4;
  other[5] = 3, other[60] = 3.5f;
  const ModelFiles a = folder("a", std::vector<float>(64, 1.0f), up),
                   b = folder("b", std::vector<float>(64, 0.75f), other);
  const auto rows = compare_weights(a, b, pool_);
  EXPECT_EQ(rows.size(), a.stored_plan.entries.size());
  const TensorComparison q = of(rows, kQ), u = of(rows, kUp), same = of(rows, "lm_head");
  EXPECT_NEAR(q.sqnr_db, 12.041199826559248, 1e-12);
  EXPECT_DOUBLE_EQ(q.relative_error, 0.25);
  EXPECT_DOUBLE_EQ(q.max_error, 0.25);
  EXPECT_EQ(q.share_at_limits, -1);
  EXPECT_EQ(q.rows, 8);
  EXPECT_EQ(q.cols, 8);
  EXPECT_EQ(q.scheme_a, "F32");
  EXPECT_NEAR(u.sqnr_db, 20, 1e-12);
  EXPECT_DOUBLE_EQ(u.relative_error, 0.1);
  EXPECT_DOUBLE_EQ(u.max_error, 0.5);
  EXPECT_TRUE(std::isinf(same.sqnr_db));
  EXPECT_EQ(same.max_error, 0);
  // The first is the reference: 64 * 0.5625 of signal.
  EXPECT_NEAR(of(compare_weights(b, a, pool_), kQ).sqnr_db, 10 * std::log10(9.0), 1e-12);
}

// 10 log10, max, sqrt of double sums over a.weight and (codes.float() * scale.float()).bfloat16(), and the share of codes
// that are -128 or 127 (FP8: +-448), with torch 2.14.
TEST_F(Compare, GoldenCheckpoints) {
  struct Row {
    const char *folder, *module;
    double sqnr, max_error, relative_error, at_limits;
  };
  const Row table[] = {
      {"w8a8", "model.layers.0.self_attn.q_proj", 41.4675673, 0.0048828125, 0.0084454274, 0.005859375},
      {"w8a8", "model.layers.1.mlp.down_proj", 39.5029804, 0.00390625, 0.0105889032, 0.00219726562},
      {"fp8_dynamic", "model.layers.0.self_attn.q_proj", 31.9077434, 0.01953125, 0.0253870845, 0.0103759766},
      {"fp8_dynamic", "model.layers.1.mlp.down_proj", 31.70592, 0.015625, 0.0259838798, 0.00327555339}};
  const std::filesystem::path golden = ROUNDEL_TEST_DATA "/golden";
  for (const Row& want : table) {
    SCOPED_TRACE(std::string(want.folder) + " " + want.module);
    const auto rows =
        compare_weights(open_model(golden / "dense/tiny_llama"), open_model(golden / want.folder), pool_);
    const TensorComparison got = of(rows, want.module);
    EXPECT_NEAR(got.sqnr_db, want.sqnr, 1e-6);
    EXPECT_DOUBLE_EQ(got.max_error, want.max_error);
    EXPECT_NEAR(got.relative_error, want.relative_error, 1e-9);
    EXPECT_NEAR(got.share_at_limits, want.at_limits, 1e-9);
    EXPECT_TRUE(std::isinf(of(rows, "lm_head").sqnr_db));
  }
}

TEST_F(Compare, RefusesCheckpointsOfTwoModels) {
  const std::vector<float> zeros(64, 0.0f);
  const ModelFiles a = folder("a", zeros, zeros), b = folder("b", zeros, zeros, 3);
  expect_error(
      [&] { compare_weights(a, b, pool_); },
      {"not of one model", "lm_head: is [2, 8] in the first and [3, 8] in the second", "model.embed_tokens"});
  const ModelFiles other = open_model(ROUNDEL_TEST_DATA "/golden/dense/tiny_llama");
  expect_error([&] { compare_weights(a, other, pool_); }, {"model.layers.1.mlp.up_proj: is only in"});
}

}  // namespace
}  // namespace roundel
