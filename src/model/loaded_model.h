// A model folder ready to run: opened, planned, loaded, with its threads and its tokenizer.
//
//   LoadedModel m = load_model(folder, {.threads = 2});                       // as stored
//   LoadedModel m = load_model(folder, {.quantize = request});                // quantized while loading
#pragma once
#include <filesystem>
#include <memory>
#include <optional>

#include "base/thread_pool.h"
#include "model/model.h"
#include "text/tokenizer.h"

namespace roundel {

struct LoadOptions {
  int threads = 0;                      // 0: one for each usable core
  std::optional<PlanRequest> quantize;  // on load; none: as stored
  Rotation rotation = {};               // of the weights, before they are quantized
  std::optional<int> gpu;               // index of the CUDA device; none: on the CPU
  KvType kv_type = KvType::kBF16;       // of the key/value cache: kBF16 or kF32
  bool int8_activations = false;  // of weight-only integer modules (scheme/plan.h: use_int8_activations)
  // Folder of packed weights (model/packed_cache.h); empty: none. On a GPU of measured tiles (model/tile_file.h); empty:
  // the user's.
  std::filesystem::path cache;
};

struct LoadedModel {
  std::unique_ptr<ThreadPool> pool;
  std::unique_ptr<ModelFiles> files;
  Plan plan;
  std::unique_ptr<Model> model;
  double load_seconds = 0;
};

// Warnings go to the log. Throws Error with all problems of the folder or the plan.
LoadedModel load_model(const std::filesystem::path& folder, const LoadOptions& options);

// use_int8_activations() as --int8-activations asks for it: Error(kUsage) when no module of the plan can.
void require_int8_activations(Plan& plan, const std::filesystem::path& folder);

// The folder's tokenizer, checked against the model: every id of its vocabulary has an embedding row.
Tokenizer load_tokenizer(const ModelFiles& files);

}  // namespace roundel
