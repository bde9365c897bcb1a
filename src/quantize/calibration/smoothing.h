// SmoothQuant (Xiao et al. 2023) and AWQ (Lin et al. 2023): the channels of an activation are divided by s, the columns of
// all linears that read it are multiplied by s. The model stays the same but for rounding; what it quantizes to does not.
//
//   Smoother smoother(files, plan, calibration.steps);
//   if (smoother.any()) smoother.apply(&weights, moments, pool);     // moments: of every stage, from the dense layer
#pragma once
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

class Smoother {
 public:
  // Resolves the mappings of all steps. Throws Error(kInvalid) for mappings that match nothing, that leave out a reader of
  // the smoothed activation, or name something that is not linear; and for settings out of range.
  Smoother(const ModelFiles& files, const std::vector<CalibrationStep>& steps);
  bool any() const { return !steps_.empty(); }
  bool needs_second() const;
  // Runs the steps in order on one layer: weights and vectors change, moments follow.
  Smoothed apply(LayerWeights* weights, StageMoments& moments, ThreadPool& pool) const;

 private:
  struct Step {
    const SmoothQuantStep* smoothquant = nullptr;
    const AwqStep* awq = nullptr;
    std::map<int64_t, std::vector<SmoothPair>> pairs;  // by layer
  };
  void resolve(const std::vector<SmoothMapping>& mappings, const std::vector<std::string>& ignore,
               Step* step);

  const ModelFiles& files_;
  std::vector<Step> steps_;
};

// s of SmoothQuant (cols). w: largest absolute weight of each column over the balance linears.
std::vector<float> smoothquant_scales(const SmoothQuantStep& step, const InputMoments& moments,
                                      const std::vector<float>& largest);
// s of AWQ by grid search: the squared error of the balance linears' outputs, from the second moment of their inputs.
std::vector<float> awq_scales(const AwqStep& step, const InputMoments& moments,
                              const std::vector<const LayerModule*>& balance, ThreadPool& pool);

}  // namespace roundel
