// A model folder, opened and checked as a whole: config, architecture, what tensors it must hold, how they are stored.
// Everything that can be wrong with it is found here, before any weight is read.
//
//   ModelFiles files = open_model(folder);
//   PlanResult plan = plan_model(files, std::nullopt);             // as stored (or dense)
//   PlanResult plan = plan_model(files, request);                  // quantize it so
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "codec/format.h"
#include "model/architecture.h"
#include "model/rotation.h"
#include "scheme/quant_config.h"

namespace roundel {

struct ModelFiles {
  Checkpoint checkpoint;
  ModelConfig config;
  const Architecture* architecture = nullptr;
  DecoderTraits traits;
  ModelLayout layout;
  std::optional<QuantConfig> stored;         // quantization_config, when the checkpoint is quantized
  std::vector<StoredWeight> stored_weights;  // opened; of the modules that are stored quantized
  Plan stored_plan;  // what the checkpoint itself says: all dense without quantization_config
  std::vector<std::string> warnings;
  Rotation rotation;  // of the weights that `checkpoint` reads against those in its files
  const StoredWeight* find_stored(const std::string& module) const;
};

// Validates names, shapes and dtypes of all tensors against the config, both ways, quantized or not (reliability B6, C2 to
// C5). Throws one Error that lists every problem. With a rotation the model is the rotated one, computed as it is read;
// Error(kInvalid) when it is quantized already.
ModelFiles open_model(const std::filesystem::path& folder, const Rotation& rotation = {});

// The plan for quantizing a dense model by `request`. Error when the model is quantized already.
PlanResult plan_model(const ModelFiles& files, const PlanRequest& request);

// Tensor name of a module's dense weight.
inline std::string weight_name(const std::string& module) {
  return module + ".weight";
}

}  // namespace roundel
