// What a calibrated job does beside its Plan, as plain data: the steps of a recipe in order, the calibration samples, and
// what is reported of every module. Which Scheme each module gets is the Plan's business; the observers of static
// activations are named in its QuantArgs.
//
//   Calibration c;
//   c.steps = {SmoothQuantStep{.strength = 0.8}, GptqStep{}};
//   c.samples = {{1, 2, 3}, {4, 5, 6}};                             // token ids, one sequence each
//   QuantizeReport report = quantize_to_disk(files, plan, destination, {.calibration = &c}, pool);
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "scheme/quant_args.h"

namespace roundel {

// A layer whose output channels are divided by s, and the linears that read them and are multiplied by s. Each is a module
// name or "re:" + pattern; a mapping with patterns stands for one mapping in each decoder layer.
struct SmoothMapping {
  std::string smooth;                // "re:.*input_layernorm"
  std::vector<std::string> balance;  // {"re:.*q_proj", "re:.*k_proj", "re:.*v_proj"}
  std::string where = {};            // "recipe.yaml: line 4: ", for messages
};

enum class SmoothAlgorithm { kSmoothQuant, kLogEqualization };
struct SmoothQuantStep {
  std::optional<double> strength = 0.5;  // 0 to 1; none: searched for each mapping
  SmoothAlgorithm algorithm = SmoothAlgorithm::kSmoothQuant;
  std::vector<SmoothMapping> mappings;  // empty: those of the architecture
  std::vector<std::string> ignore;  // a mapping whose `smooth`, or all of whose `balance` match, is left out
};

enum class DuoScaling { kOff, kOn, kBoth };
struct AwqStep {
  int n_grid = 20;
  DuoScaling duo_scaling = DuoScaling::kOn;
  std::vector<SmoothMapping> mappings;
  std::vector<std::string> ignore;
};

// Steps that quantize. A module takes the last of them that matches it; empty targets match every module of the Plan.
// Modules of the Plan that none matches are rounded to nearest.
struct RtnStep {
  std::vector<std::string> targets, ignore;
};
struct GptqStep {
  int64_t block_size = 128;
  double dampening_frac = 0.01;
  // The order of columns; none: that of the module's weight arguments. kGroup is refused.
  std::optional<ActOrder> actorder = ActOrder::kStatic;
  std::vector<std::string> targets, ignore;
};
// The default of roundel for weights of few bits: docs/calibration.md says what it does.
struct BestStep {
  std::vector<std::string> targets, ignore;
};

using CalibrationStep = std::variant<SmoothQuantStep, AwqStep, RtnStep, GptqStep, BestStep>;

struct Calibration {
  std::vector<CalibrationStep>
      steps;  // may be empty: only static activations or key/value scales are measured
  std::vector<std::vector<int32_t>> samples;  // at least one token each, below vocab_size
  std::string
      samples_text;  // where the samples are from and how they were cut: for recipe.yaml and the job's key
  bool propagate_error =
      true;  // a layer reads the outputs of the quantized layers before it; false: of the dense ones
  uint64_t max_memory = 0;  // bytes; 0: no limit
};

// What happened to one module.
struct CalibratedModule {
  std::string module, algorithm;  // "gptq", "rtn", "best"; with "smoothquant+", "awq+" before it
  double relative_error = -1;     // sqrt(sum (w - q)^2 / sum w^2)
  // Mean squared error of the module's outputs over the calibration tokens, relative to their mean square: rounded to
  // nearest, and as written. -1: not measured.
  double loss_before = -1, loss_after = -1;
  double seconds = 0;
  std::string note;  // "Cholesky failed with dampening 0.01, done with 0.1", "3 dead columns", ...
};

}  // namespace roundel
