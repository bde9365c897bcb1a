#include "model/device_matrices.h"

#include "base/error.h"

namespace roundel {

std::vector<std::string> qkv_modules(const DecoderTraits& traits) {
  if (traits.merged_qkv) return {"qkv_proj"};
  return {"q_proj", "k_proj", "v_proj"};
}

std::vector<std::string> gate_up_modules(const DecoderTraits& traits) {
  if (traits.merged_gate_up) return {"gate_up_proj"};
  return {"gate_proj", "up_proj"};
}

std::vector<DeviceMatrixParts> device_matrices(const Plan& plan, const ModelConfig& config,
                                               const std::string& prefix,
                                               const std::vector<std::string>& names, bool alternating) {
  using Rows = DeviceLinear::Rows;
  std::vector<LinearSpec> specs;
  for (const std::string& name : names) {
    const PlanEntry* e = plan.find(prefix + name);
    CHECK(e != nullptr);
    specs.push_back({prefix + name, e->module.rows, e->module.cols, e->scheme, e->module.dtype});
  }
  // Scales of FP8 blocks belong to rows that follow one another.
  const bool blocks = linear_problem(specs.front()).fp8_blocks;
  const Rows rows = alternating && !blocks ? Rows::kAlternating : Rows::kStacked;
  const bool pairs = rows == Rows::kStacked || config.intermediate_size % kPairRows == 0;
  if (specs.size() > 1 && pairs && DeviceLinear::can_merge(specs)) return {{std::move(specs), rows}};
  std::vector<DeviceMatrixParts> parts;
  for (LinearSpec& spec : specs) {
    const bool whole = names.size() == 1 && DeviceLinear::can_merge({spec});
    parts.push_back({{std::move(spec)}, whole ? rows : Rows::kStacked});
  }
  return parts;
}

}  // namespace roundel
