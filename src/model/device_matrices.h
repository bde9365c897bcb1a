// Which modules a GPU keeps as one matrix: q, k and v; gate and up, where they share a scheme.
//
//   for (DeviceMatrixParts& m : device_matrices(plan, config, "model.layers.0.mlp.", gate_up_modules(traits), true))
//     linears.push_back(DeviceLinear(device, staging, m.specs, m.rows));
#pragma once
#include <string>
#include <vector>

#include "linear/device_linear.h"
#include "model/model_files.h"

namespace roundel {

struct DeviceMatrixParts {
  std::vector<LinearSpec> specs;
  DeviceLinear::Rows rows = DeviceLinear::Rows::kStacked;
};

std::vector<std::string> qkv_modules(const DecoderTraits& traits);
std::vector<std::string> gate_up_modules(const DecoderTraits& traits);
// The modules prefix + names: one matrix of all, or one each. alternating: gate and up, whose rows are to
// alternate where they can.
std::vector<DeviceMatrixParts> device_matrices(const Plan& plan, const ModelConfig& config,
                                               const std::string& prefix,
                                               const std::vector<std::string>& names, bool alternating);

}  // namespace roundel
