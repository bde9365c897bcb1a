// Runs a calibrated job through the decoder layers: each is fed with the samples, transformed, quantized and written before
// the next is read. One layer's weights, its moments and the samples' activations are in memory at a time.
//
//   Calibrator calibrator(files, plan, calibration, pool);
//   calibrator.run(0, {.write = sink, .layer_done = [&](int64_t done) {...}});
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "codec/format.h"
#include "quantize/calibration/layer_weights.h"
#include "quantize/calibration_steps.h"

namespace roundel {

struct CalibrationOutput {
  TensorSink write;
  std::function<void(int64_t layers_done)> layer_done;
};

// The tensors of the source that a calibrated job writes itself: those of the decoder layers, and a quantized lm_head.
bool is_calibrated_tensor(const ModelFiles& files, const Plan& plan, const std::string& tensor);
// input_scale, input_zero_point of a module; k_scale, v_scale of a layer.
std::vector<TensorSpec> activation_tensors(const PlanEntry& entry);
std::vector<TensorSpec> key_value_tensors(const ModelFiles& files, const Plan& plan, int64_t layer);

class Calibrator {
 public:
  // Throws Error(kUnsupported, kInvalid) for steps and samples that cannot be run.
  Calibrator(const ModelFiles& files, const Plan& plan, const Calibration& calibration, ThreadPool& pool);
  ~Calibrator();
  // Layers below `first` are finished: `finished` holds them as they were written, their outputs are computed anew.
  void run(int64_t first, const ModelFiles* finished, const CalibrationOutput& out);
  std::vector<CalibratedModule> take_report();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace roundel
