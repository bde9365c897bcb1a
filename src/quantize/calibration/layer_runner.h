// The calibration samples on their way through the decoder, one layer at a time, stopping before every group of linears
// that share an input (a stage).
//
//   LayerRunner runner(files, samples, pool);
//   for (SampleState& s : runner.samples()) runner.begin(layer, s);
//   for (const Stage stage : kStages) {
//     ... look at s.input of every sample, quantize the stage's linears ...
//     for (SampleState& s : runner.samples()) runner.advance(stage, layer, s);
//   }
#pragma once
#include <array>
#include <map>
#include <memory>
#include <vector>

#include "base/function_ref.h"
#include "model/layer_ops.h"

namespace roundel {

enum class Stage { kQkv, kO, kGateUp, kDown };
inline constexpr std::array kStages = {Stage::kQkv, Stage::kO, Stage::kGateUp, Stage::kDown};

struct SampleState {
  Activations x;      // (T,hidden): the residual stream
  Activations input;  // of the stage that comes next
  SampleState copy() const;
};

Activations copy_activations(const Activations& from);

// Keys after the rotation and values of one sample: heads of (T, head_dim), `stride` floats apart.
struct KeysValues {
  const float *keys = nullptr, *values = nullptr;
  int64_t heads = 0, tokens = 0, head_dim = 0, stride = 0;
};

class LayerRunner {
 public:
  // x of every sample are the rows of the embedding. Throws Error(kInvalid) for no or empty samples and ids out of range.
  LayerRunner(const ModelFiles& files, const std::vector<std::vector<int32_t>>& samples, ThreadPool& pool);
  std::vector<SampleState>& samples() { return samples_; }

  void begin(const DecoderLayer& layer, SampleState& s);
  // Runs the stage's linears of the layer on s.input; s.input becomes that of the next stage. After kDown it is empty and x
  // is the layer's output.
  void advance(Stage stage, const DecoderLayer& layer, SampleState& s);
  // What kQkv's linears make of s.input; s stays as it is.
  void keys_values(const DecoderLayer& layer, const SampleState& s, FunctionRef<void(const KeysValues&)> f);
  // A whole layer.
  void run(const DecoderLayer& layer, SampleState& s);

 private:
  void attention(const DecoderLayer& layer, const Activations& input, Activations* attended);
  void add_linear(const Linear& linear, SampleState& s);
  const RopeAngles& angles(int64_t tokens);

  const ModelFiles& files_;
  ThreadPool& pool_;
  LayerOps ops_;
  std::unique_ptr<Rope> rope_;
  std::map<int64_t, RopeAngles> angles_;
  KvCache cache_;  // of one layer and sample
  std::vector<SampleState> samples_;
};

}  // namespace roundel
