// Quantizing a checkpoint to disk: one pass over the source's tensors, chunk by chunk, each written where it belongs.
// Memory does not depend on the model's size.
//
//   ModelFiles files = open_model(source);
//   QuantizeReport report = quantize_to_disk(files, plan, destination, {.resume = true}, pool);
#pragma once
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "model/model_files.h"
#include "quantize/calibration_steps.h"

namespace roundel {

class ThreadPool;

struct QuantizeOptions {
  bool force = false;             // replace an existing checkpoint at the destination
  bool resume = false;            // take up an interrupted run of the same job
  bool allow_not_finite = false;  // NaN and infinities in weights are a warning instead of an error
  bool measure_error = false;     // relative error of every module
  uint64_t max_shard_bytes = 5ull << 30;
  const Calibration* calibration = nullptr;  // null: every module is rounded to nearest, nothing is measured
};

struct QuantizedModule {
  std::string name, scheme, format;
  int64_t rows = 0, cols = 0;
  double relative_error = -1;  // sqrt(sum (w - q)^2 / sum w^2); -1: not measured (or done before a resume)
};

struct QuantizeReport {
  std::vector<QuantizedModule> modules;
  std::vector<std::pair<std::string, std::string>> skipped;  // name, reason
  uint64_t input_bytes = 0, output_bytes = 0;
  double bits_per_weight = 0;        // of the quantized modules
  double model_bits_per_weight = 0;  // of everything
  double seconds = 0;
  bool resumed = false;
  std::vector<CalibratedModule> calibrated;  // in the order they were done; empty without calibration
};

// Throws Error(kInvalid) when the plan needs calibration and none is given.
// The destination is absent or complete at any time. Error(kInterrupted) leaves what --resume needs.
QuantizeReport quantize_to_disk(const ModelFiles& files, const Plan& plan,
                                const std::filesystem::path& destination, const QuantizeOptions& options,
                                ThreadPool& pool);

// Whether the plan itself needs calibration samples: static activations, key/value scales.
bool needs_calibration(const Plan& plan);

// The tensors that the quantized checkpoint will hold, in file order.
std::vector<TensorSpec> output_tensors(const ModelFiles& files, const Plan& plan);

}  // namespace roundel
