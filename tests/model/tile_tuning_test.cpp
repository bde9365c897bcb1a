// What a GPU keeps as one matrix, and which products of a model there are to tune. Needs no GPU.
#include "model/tile_tuning.h"

#include <gtest/gtest.h>

#include <set>

#include "kernels/device_list.h"
#include "model/device_matrices.h"
#include "model/tile_file.h"
#include "scheme/scheme_text.h"

namespace roundel {
namespace {

ModelFiles open() {
  return open_model(ROUNDEL_TEST_DATA "/golden/dense/tiny_llama");
}
Plan plan_of(const ModelFiles& files, const char* scheme, const char* other = nullptr) {
  PlanRequest request;
  request.groups.push_back({"", {"Linear"}, parse_scheme_text(scheme, "test").scheme});
  if (other) request.groups.push_back({"", {"re:.*k_proj"}, parse_scheme_text(other, "test").scheme});
  request.default_ignore = {"lm_head"};
  PlanResult result = plan_model(files, request);
  result.problems.throw_if_any("test");
  return result.plan;
}
DeviceInfo h200() {
  DeviceInfo info;
  info.name = "NVIDIA H200", info.major = 9, info.multiprocessors = 132, info.shared_memory = 232448;
  return info;
}

TEST(DeviceMatrices, ModulesOfOneSchemeAreOneMatrix) {
  const ModelFiles files = open();
  const std::string p = "model.layers.0.self_attn.";
  const Plan same = plan_of(files, "W4A16:g32"), mixed = plan_of(files, "W4A16:g32", "W8A16:g32");
  const auto one = device_matrices(same, files.config, p, qkv_modules(files.traits), false);
  ASSERT_EQ(one.size(), 1u);
  ASSERT_EQ(one[0].specs.size(), 3u);
  EXPECT_EQ(merged_problem(one[0].specs).n, one[0].specs[0].n + one[0].specs[1].n + one[0].specs[2].n);
  const auto three = device_matrices(mixed, files.config, p, qkv_modules(files.traits), false);
  ASSERT_EQ(three.size(), 3u);
  EXPECT_EQ(three[1].specs[0].name, p + "k_proj");
  const auto mlp =
      device_matrices(same, files.config, "model.layers.0.mlp.", gate_up_modules(files.traits), true);
  ASSERT_EQ(mlp.size(), 1u);
  EXPECT_EQ(mlp[0].rows, DeviceLinear::Rows::kAlternating);
}

// Rows of an FP8 block stay together: gate and up follow one another, and only whole blocks before the last are joined.
TEST(DeviceMatrices, Fp8BlocksStayWhole) {
  const ModelFiles files = open();
  const std::string p = "model.layers.0.";
  const Plan plan = plan_of(files, "FP8_BLOCK");
  for (const auto& [prefix, names, pairs] : {std::tuple(p + "self_attn.", qkv_modules(files.traits), false),
                                             std::tuple(p + "mlp.", gate_up_modules(files.traits), true)}) {
    const auto parts = device_matrices(plan, files.config, prefix, names, pairs);
    bool whole = true;
    for (const std::string& name : names)
      whole = whole && (name == names.back() || plan.find(prefix + name)->module.rows % kFp8Block == 0);
    EXPECT_EQ(parts.size(), whole ? 1 : names.size());
    for (const DeviceMatrixParts& part : parts) {
      EXPECT_EQ(part.rows, DeviceLinear::Rows::kStacked);
      EXPECT_TRUE(merged_problem(part.specs).fp8_blocks);
    }
  }
  const Plan channel = plan_of(files, "FP8_DYNAMIC");
  LinearSpec spec{p + "mlp.up_proj", 256, 256, channel.find(p + "mlp.up_proj")->scheme, DType::kBF16};
  EXPECT_FALSE(linear_problem(spec).fp8_blocks);
}

#define NEEDS_KERNELS() \
  if (device_linear_kernels().empty()) GTEST_SKIP() << "built without CUDA"

TEST(TileTasks, EachShapeAndNumberOfTokensOnce) {
  NEEDS_KERNELS();
  const ModelFiles files = open();
  const auto tasks = tile_tasks(files, plan_of(files, "W4A16:g64"), h200(), kTuneTokens);
  std::set<std::string> shapes;
  for (const TileTask& t : tasks) {
    EXPECT_FALSE(t.choice.key.kernel.empty());
    EXPECT_TRUE(t.modules.starts_with("model.layers.0.")) << t.modules << ": the layers are all alike";
    shapes.insert(t.modules);
    const bool gate_up = t.modules.find("gate_proj") != std::string::npos;
    EXPECT_EQ(t.use.use.gated, gate_up);
    EXPECT_EQ(t.use.norm, t.use.use.m == 1 && (gate_up || t.modules.find("q_proj") != std::string::npos));
    EXPECT_EQ(t.use.add, t.use.use.m == 1 && !t.use.norm);
    EXPECT_EQ(t.choice.key.whole, t.use.use.m == 1 || t.use.use.m > 64 || gate_up);
  }
  EXPECT_EQ(shapes.size(), 4u);
  EXPECT_EQ(tasks.size(), 4 * std::size(kTuneTokens));
}

TEST(TileTasks, DenseModelsHaveNone) {
  NEEDS_KERNELS();
  const ModelFiles files = open();
  EXPECT_TRUE(tile_tasks(files, files.stored_plan, h200(), kTuneTokens).empty());
}

TEST(TileTasks, WhatIsSavedIsFoundByTheNextLoad) {
  NEEDS_KERNELS();
  const ModelFiles files = open();
  const Plan plan = plan_of(files, "W4A16:g64");
  const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / "roundel_tile_tasks";
  std::filesystem::remove_all(folder);
  DeviceInfo info = h200();
  std::vector<TunedTask> tuned;
  for (const TileTask& t : tile_tasks(files, plan, info, kTuneTokens)) {
    TunedTask done{t, {}};
    const DeviceLinearKernel& kernel = choose_device_linear(t.problem, info);
    done.result.best = kernel.tile_choices(t.problem, t.use.use, info).back();
    tuned.push_back(done);
  }
  EXPECT_EQ(save_tuned(tile_file(folder, info), info, tuned), tuned.size());
  EXPECT_EQ(save_tuned(tile_file(folder, info), info, {tuned[0]}), tuned.size()) << "other rows stay";
  info.tuned = std::make_shared<const TileTable>(read_tiles(tile_file(folder, info), info).value());
  const auto again = tile_tasks(files, plan, info, kTuneTokens);
  ASSERT_EQ(again.size(), tuned.size());
  for (size_t i = 0; i < again.size(); ++i) {
    EXPECT_EQ(again[i].choice.source, TileSource::kTuned);
    EXPECT_EQ(again[i].choice.tiles, tuned[i].result.best);
  }
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace roundel
