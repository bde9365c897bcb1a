// SmoothQuant (Xiao et al. 2023) and AWQ (Lin et al. 2023): the channels of an activation are divided by s, the columns of
// all linears that read it are multiplied by s. The model stays the same but for rounding; what it quantizes to does not.
//
//   Smoother smoother(files, plan, calibration.steps);
//   if (smoother.any()) smoother.apply(&weights, moments, pool);     // moments: of every stage, from the dense layer
#pragma once
#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "quantize/calibration/input_moments.h"
#include "quantize/calibration/layer_weights.h"
#include "quantize/calibration_steps.h"

namespace roundel {

// What smoothing did to one layer.
struct Smoothed {
  std::map<std::string, std::string> steps;  // module -> the steps that touched it: "smoothquant+", "awq+"
  std::array<std::vector<float>, kStages.size()> divided_by;  // of the inputs of each stage; empty: 1
};

using StageMoments = std::array<std::unique_ptr<InputMoments>, kStages.size()>;

// Some tokens of a stage's inputs, spread over all samples: every n-th.
class TokenSample {
 public:
  static constexpr int64_t kMost = 1024;
  // `tokens` will be added. The odd step does not fall on the same position of every sample.
  void spread_over(int64_t tokens) { step_ = std::max<int64_t>(1, tokens / kMost) | 1; }
  void add(const Activations& x);
  Activations take();

 private:
  int64_t step_ = 1, seen_ = 0, taken_ = 0;
  Activations rows_;
};
using StageInputs = std::array<Activations, kStages.size()>;  // empty where they are not needed

class Smoother {
 public:
  // Resolves the mappings of all steps. Throws Error(kInvalid) for mappings that match nothing, that leave out a reader of
  // the smoothed activation, or name something that is not linear; and for settings out of range.
  Smoother(const ModelFiles& files, const std::vector<CalibrationStep>& steps);
  bool any() const { return !steps_.empty(); }
  bool needs_second() const;
  bool needs_inputs() const;  // a strength is searched
  // Runs the steps in order on one layer: weights and vectors change, moments and inputs follow.
  Smoothed apply(LayerWeights* weights, StageMoments& moments, StageInputs& inputs, ThreadPool& pool) const;

 private:
  struct Step {
    const SmoothQuantStep* smoothquant = nullptr;
    const AwqStep* awq = nullptr;
    std::map<int64_t, std::vector<SmoothPair>> pairs;  // by layer
  };
  static std::vector<float> scales_of(const Step& step, const InputMoments& moments, const Activations& x,
                                      const std::vector<const LayerModule*>& balance, ThreadPool& pool);
  void resolve(const std::vector<SmoothMapping>& mappings, const std::vector<std::string>& ignore,
               Step* step);

  const ModelFiles& files_;
  std::vector<Step> steps_;
};

// s of SmoothQuant (cols). w: largest absolute weight of each column over the balance linears.
std::vector<float> smoothquant_scales(const SmoothQuantStep& step, const InputMoments& moments,
                                      const std::vector<float>& largest);
// The s of SmoothQuant of the strength, or 1, with which the balance linears' outputs for x (T,cols) are nearest to the dense.
std::vector<float> searched_scales(const InputMoments& moments, const Activations& x,
                                   const std::vector<const LayerModule*>& balance,
                                   const std::vector<float>& largest, ThreadPool& pool);
// s of AWQ by grid search: the squared error of the balance linears' outputs, from the second moment of their inputs.
std::vector<float> awq_scales(const AwqStep& step, const InputMoments& moments,
                              const std::vector<const LayerModule*>& balance, ThreadPool& pool);

}  // namespace roundel
