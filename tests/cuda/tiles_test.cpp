// Which tiles the listed kernels take: the user's, else those compiled in, else estimated. Only the last needs a GPU.
#include <set>

#include "kernels/tile_bench.h"
#include "tests/cuda/gpu.h"

namespace roundel {
namespace {

DeviceInfo h200() {
  DeviceInfo info;
  info.name = "NVIDIA H200", info.major = 9, info.multiprocessors = 132, info.shared_memory = 232448;
  return info;
}

LinearProblem problem(CodeType code, int bits, int64_t n, int64_t k, int64_t group) {
  LinearProblem p;
  p.n = n, p.k = k, p.code = code, p.bits = bits, p.has_scale = true, p.group = group > 0 ? group : k;
  return p;
}

const DeviceLinearKernel* kernel_with_tiles() {
  for (const DeviceLinearKernel* kernel : device_linear_kernels())
    if (kernel->tile_choice) return kernel;
  return nullptr;
}
#define NEEDS_KERNELS() \
  if (!kernel_with_tiles()) GTEST_SKIP() << "built without CUDA"

struct Case {
  const char* kernel;
  LinearProblem p;
  TileUse use;
};
std::vector<Case> cases() {
  const auto i = CodeType::kInt, f8 = CodeType::kE4M3;
  const auto bf16 = TileUse::Input::kBF16, x16 = TileUse::Input::kX16, bytes = TileUse::Input::kBytes;
  return {{"sm90_small", problem(i, 4, 6144, 4096, 128), {1, bf16, false, true}},
          {"sm90_small", problem(i, 4, 6144, 4096, 128), {8, x16, false, false}},
          {"sm90_small", problem(i, 4, 28672, 4096, 128), {1, bf16, true, true}},
          {"sm90_small", problem(i, 8, 6144, 4096, 0), {1, bf16, false, true}},
          {"sm90_wide", problem(i, 4, 4096, 14336, 128), {16, bf16, false, false}},
          {"sm90_bytes", problem(f8, 8, 4096, 14336, 0), {32, bytes, false, false}},
          {"sm90_bytes", problem(i, 8, 28672, 4096, 0), {64, bytes, true, true}}};
}

// And of prompts, for which no row is compiled in.
std::vector<Case> all_cases() {
  std::vector<Case> all = cases();
  for (const LinearProblem& p :
       {problem(CodeType::kInt, 4, 6144, 4096, 128), problem(CodeType::kInt, 4, 4096, 4096, 64),
        problem(CodeType::kInt, 8, 6144, 4096, 0), problem(CodeType::kE4M3, 8, 4096, 14336, 0)})
    all.push_back({"sm90_many", p, {1024, TileUse::Input::kBF16, false, true}});
  return all;
}

// How tiles divide the tokens decides: a row for many more of them says nothing.
TEST(DeviceTiles, RowsOfPromptsServeNearlyAsManyTokens) {
  NEEDS_KERNELS();
  const LinearProblem p = problem(CodeType::kInt, 4, 6144, 4096, 128);
  TileUse use{2048, TileUse::Input::kBF16, false, true};
  auto table = std::make_shared<TileTable>();
  DeviceInfo info = h200();
  info.tuned = table;
  table->put({kernel_with_tiles()->tile_choice(p, use, info).key, {1, 128, 3, 0, 0}});
  for (const auto& [m, source] : {std::pair<int64_t, TileSource>{2048, TileSource::kTuned},
                                  {1800, TileSource::kTuned},
                                  {1500, TileSource::kHeuristic},
                                  {2049, TileSource::kHeuristic}}) {
    use.m = m;
    EXPECT_EQ(kernel_with_tiles()->tile_choice(p, use, info).source, source) << m;
  }
}

TEST(DeviceTiles, CompiledInRowsServeLlama) {
  NEEDS_KERNELS();
  for (const Case& c : cases()) {
    const TileChoice choice = kernel_with_tiles()->tile_choice(c.p, c.use, h200());
    EXPECT_EQ(choice.key.kernel, c.kernel);
    EXPECT_EQ(choice.key.whole, c.use.whole || c.use.gated);
    EXPECT_EQ(choice.source, TileSource::kShipped) << c.kernel << ' ' << c.p.n << 'x' << c.p.k;
  }
  const TileChoice one = kernel_with_tiles()->tile_choice(cases()[0].p, cases()[0].use, h200());
  EXPECT_EQ(one.tiles, (Tiles{2, 1, 8, 6, 1}));
}

TEST(DeviceTiles, AnEstimateServesOtherShapes) {
  NEEDS_KERNELS();
  for (Case c : cases()) {
    c.p.n += 256;
    EXPECT_EQ(kernel_with_tiles()->tile_choice(c.p, c.use, h200()).source, TileSource::kHeuristic);
  }
}

TEST(DeviceTiles, WhatTheUserMeasuredComesFirst) {
  NEEDS_KERNELS();
  const DeviceLinearKernel& kernel = *kernel_with_tiles();
  for (const Case& c : all_cases()) {
    const TileChoice before = kernel.tile_choice(c.p, c.use, h200());
    auto table = std::make_shared<TileTable>();
    DeviceInfo info = h200();
    info.tuned = table;
    for (const Tiles& tiles : kernel.tile_choices(c.p, c.use, h200())) {
      table->put({before.key, tiles});
      const TileChoice now = kernel.tile_choice(c.p, c.use, info);
      ASSERT_EQ(now.source, TileSource::kTuned);
      ASSERT_EQ(now.tiles, tiles);
      ASSERT_EQ(now.key, before.key);
    }
    for (const Tiles& wrong :
         {Tiles{}, Tiles{9999, 9999, 9999, 9999, 9999}, Tiles{1, 1, 1, 1, 1}, Tiles{2, 1, 3, 3, 3},
          Tiles{128, 8, 16, 0, 0}}) {  // from a file: nothing that runs
      table->put({before.key, wrong});
      const TileChoice now = kernel.tile_choice(c.p, c.use, info);
      EXPECT_EQ(now.source, before.source);
      EXPECT_EQ(now.tiles, before.tiles);
    }
  }
}

TEST(DeviceTiles, ThereIsAChoiceForEveryShape) {
  NEEDS_KERNELS();
  const DeviceLinearKernel& kernel = *kernel_with_tiles();
  for (const auto& [n, k] : {std::pair<int64_t, int64_t>{6144, 4096}, {128256, 4096}, {64, 128}, {576, 1536}})
    for (const int64_t group : {128, 64, 0})
      for (const int64_t m : {1, 8, 9, 32, 64})
        for (const bool whole : {false, true}) {
          const LinearProblem p = problem(CodeType::kInt, 4, n, k, group);
          const TileUse use{m, m > 1 && m < 9 ? TileUse::Input::kX16 : TileUse::Input::kBF16, false, whole};
          const TileChoice choice = kernel.tile_choice(p, use, h200());
          if (choice.key.kernel.empty()) continue;  // goes to cuBLASLt
          const std::vector<Tiles> all = kernel.tile_choices(p, use, h200());
          EXPECT_FALSE(all.empty()) << n << 'x' << k << " m " << m;
          EXPECT_EQ(std::set<Tiles>(all.begin(), all.end()).size(), all.size());
        }
}

TEST(DeviceTiles, MeasuringFindsChoicesThatAgree) {
  NEEDS_GPU();
  if (gpu()->info().major != 9) GTEST_SKIP() << "nothing to choose on this GPU";
  for (Case c : all_cases()) {
    c.p.n = c.p.n == 28672 ? 1024 : 512, c.p.k = 1024;
    if (c.p.group > 1024) c.p.group = 1024;
    TileBench bench(*gpu(), c.p);
    TileCase one;
    one.use = c.use;
    if (c.use.input == TileUse::Input::kBytes)
      one.form.kind = c.p.code == CodeType::kE4M3 ? DeviceForm::Kind::kE4M3 : DeviceForm::Kind::kInt8;
    bench.prepare(one);
    ASSERT_EQ(bench.chosen().key.kernel, c.kernel);
    const std::vector<Tiles> all = bench.choices();
    for (size_t i = 0; i < all.size(); i += short_run() ? 5 : 1)
      EXPECT_TRUE(bench.agrees(all[i])) << c.kernel << ' ' << testing::PrintToString(all[i]);
    if (!short_run()) {
      EXPECT_GT(bench.time(bench.chosen().tiles, 3), 0);
    }
    if (c.use.gated || without_blas()) continue;
    for (const DeviceLinearKernel* general : device_linear_kernels()) {
      if (std::string(general->name) != "sm80_units_unpack_cublaslt") continue;
      EXPECT_LT(relative_difference(bench.result(bench.chosen().tiles), bench.plain_result(*general)), 4e-3);
    }
  }
}

}  // namespace
}  // namespace roundel
