// The products of few tokens that a model asks a GPU for, which tiles its kernels take for them, and measuring better ones.
//
//   for (const TileTask& t : tile_tasks(files, plan, gpu->info(), tokens)) ...   // t.choice: tiles, and where they are from
//   std::vector<TunedTask> tuned = tune_tiles(*gpu, tile_tasks(...));
//   save_tuned(tile_file(folder, gpu->info()), gpu->info(), tuned);
#pragma once
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "kernels/tile_bench.h"
#include "model/model_files.h"

namespace roundel {

// One for each distinct shape, scheme and number of tokens of a model.
struct TileTask {
  std::string modules;  // of the first such matrix: "model.layers.0.self_attn.q_proj, k_proj, v_proj"
  std::string scheme;
  LinearProblem problem;
  TileCase use;
  TileChoice choice;
};
struct TunedTask {
  TileTask task;
  TileResult result;
};

constexpr int64_t kMostTuneTokens = 8192;
constexpr int64_t kTuneTokens[] = {1, 8, 16, 32, 64, 256, 1024, 2048};

// Products whose kernel has nothing to choose are left out.
std::vector<TileTask> tile_tasks(const ModelFiles& files, const Plan& plan, const DeviceInfo& info,
                                 std::span<const int64_t> tokens);
// Shows progress; a choice whose result is another one is a warning and never taken.
std::vector<TunedTask> tune_tiles(Device& device, const std::vector<TileTask>& tasks);
// Beside the rows that the file holds already. Returns how many there are then.
size_t save_tuned(const std::filesystem::path& file, const DeviceInfo& info,
                  const std::vector<TunedTask>& tuned);

const char* tile_source_name(TileSource source);  // "tuned", "shipped", "heuristic"

}  // namespace roundel
