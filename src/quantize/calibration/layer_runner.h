// The calibration samples on their way through the decoder, one layer at a time, stopping before every group of linears
// that share an input (a stage).
//
//   LayerRunner runner(files, samples, false, pool);
//   runner.begin(layer);
//   for (const Stage stage : kStages) {
//     ... look at the input of every sample in runner.store(), quantize the stage's linears ...
//     runner.advance(stage, layer);
//   }
#pragma once
#include <array>
#include <map>
#include <memory>
#include <vector>

#include "base/function_ref.h"
#include "quantize/calibration/sample_store.h"

namespace roundel {

enum class Stage { kQkv, kO, kGateUp, kDown };
inline constexpr std::array kStages = {Stage::kQkv, Stage::kO, Stage::kGateUp, Stage::kDown};

// Keys after the rotation and values of one sample: heads of (T, head_dim), `stride` floats apart.
struct KeysValues {
  const float *keys = nullptr, *values = nullptr;
  int64_t heads = 0, tokens = 0, head_dim = 0, stride = 0;
};

std::vector<int64_t> sample_tokens(const std::vector<std::vector<int32_t>>& samples);
int64_t widest_input(const ModelConfig& config);  // columns of the widest input of a stage

class LayerRunner {
 public:
  // x of every sample are the rows of the embedding. Throws Error(kInvalid) for no or empty samples and ids out of range.
  LayerRunner(const ModelFiles& files, const std::vector<std::vector<int32_t>>& samples, bool on_disk,
              ThreadPool& pool);
  SampleStore& store() { return store_; }

  // All samples.
  void begin(const DecoderLayer& layer);
  void advance(Stage stage, const DecoderLayer& layer);
  void run(const DecoderLayer& layer);  // a whole layer

  // One sample.
  void begin(const DecoderLayer& layer, SampleState& s);
  // Runs the stage's linears of the layer on s.input; s.input becomes that of the next stage. After kDown x is the layer's
  // output.
  void advance(Stage stage, const DecoderLayer& layer, SampleState& s);
  // What kQkv's linears make of s.input; s stays as it is.
  void keys_values(const DecoderLayer& layer, const SampleState& s, FunctionRef<void(const KeysValues&)> f);
  void run(const DecoderLayer& layer, SampleState& s);

 private:
  // Keys and values of the sample go into the cache, queries stay in qkv_.
  TokenSpan fill_cache(const DecoderLayer& layer, const Activations& input);
  void add_linear(const Linear& linear, SampleState& s);
  const RopeAngles& angles(int64_t tokens);

  const ModelFiles& files_;
  ThreadPool& pool_;
  LayerOps ops_;
  std::unique_ptr<Rope> rope_;
  std::map<int64_t, RopeAngles> angles_;
  KvCache cache_;                      // of one layer and sample
  Activations qkv_, gate_up_, delta_;  // of one sample
  SampleStore store_;
};

}  // namespace roundel
