// Which method quantizes a module, and one weight through its method.
//
//   MethodTable table(calibration.steps);
//   Method method = table.of("model.layers.0.mlp.up_proj");
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "quantize/calibration/best.h"
#include "quantize/calibration/gptq.h"
#include "quantize/calibration/input_moments.h"
#include "quantize/calibration/layer_weights.h"
#include "quantize/calibration_steps.h"
#include "scheme/target.h"

namespace roundel {

struct Method {
  enum class Kind { kRtn, kGptq, kBest };
  Kind kind = Kind::kRtn;
  GptqStep gptq;  // of kGptq
  bool needs_second() const { return kind != Kind::kRtn; }
  std::string name() const;
};

// Whether the method compares with the dense model, for weights of these arguments.
bool aims_at_dense(const Method& method, const QuantArgs& weights);

class MethodTable {
 public:
  // Throws Error(kInvalid, kUnsupported) for targets that are no patterns and settings out of range.
  explicit MethodTable(const std::vector<CalibrationStep>& steps);
  // The last step whose targets match; rounding to nearest when none does.
  Method of(const ModuleInfo& module) const;
  // Steps whose targets match no module that the plan quantizes.
  std::vector<std::string> unmatched(const Plan& plan) const;

 private:
  struct Row {
    Method method;
    std::vector<Target> targets, ignore;
  };
  static bool matches(const std::vector<Target>& targets, const ModuleInfo& module);
  std::vector<Row> rows_;
};

// Quantizes the modules of one stage, which share their input.
class StageQuantizer {
 public:
  // drift, residual: see BestInputs; may be null.
  StageQuantizer(const InputMoments& moments, const Matrix* drift, const Matrix* residual, ThreadPool& pool)
      : moments_(moments), drift_(drift), residual_(residual), pool_(pool) {}
  // loss, relative error and note go into `report`.
  QuantizedRows quantize(const LayerModule& module, const Method& method, CalibratedModule* report);

 private:
  const HessianFactor& factor(double dampening, bool descending);
  BestInputs best_inputs(bool aims);
  QuantizedRows run_gptq(const LayerModule& module, const GptqStep& step, QuantizedRows grid,
                         CalibratedModule* report);
  void measure(const LayerModule& module, const QuantizedRows& before, const QuantizedRows& after,
               CalibratedModule* report);

  const InputMoments& moments_;
  const Matrix* drift_;
  const Matrix* residual_;
  ThreadPool& pool_;
  std::map<std::pair<double, bool>, HessianFactor> factors_;
  std::unique_ptr<QuadraticForm> form_;
};

}  // namespace roundel
