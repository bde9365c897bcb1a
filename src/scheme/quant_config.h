// The quantization_config section of config.json: to and from a PlanRequest / Plan (docs/format.md, 1, 8, 13).
//
//   if (std::optional<QuantConfig> stored = read_quant_config(config, "config.json"))
//     PlanResult result = make_plan(modules, stored->request("config.json"));
//   config["quantization_config"] = write_quant_config(plan);
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "scheme/plan.h"

namespace roundel {

// The version of compressed-tensors whose layout write_quant_config() and the codecs follow. Readers take the
// packing of 3, 5, 6 and 7 bits from it.
inline constexpr char kCompatibleVersion[] = "0.20.1";

struct QuantConfig {
  std::vector<SchemeGroup>
      groups;  // schemes with their format filled in; by name, as JSON objects have no order
  std::vector<std::string> ignore;
  std::optional<QuantArgs> kv_cache;
  std::string format;   // model-wide; "" when not given
  std::string version;  // of the writer; decides the packing of 3, 5, 6, 7 bits where shapes do not tell
  PlanRequest request(const std::string& where) const;
};

// Nothing when config.json has no such section. Accepts `quantization_config` (also inside `text_config`) and
// the older `compression_config`, nested or flat, preset-name groups, block_structure "128x128". Refuses by
// name: other quant_methods, sparse and marlin formats, transforms with online locations,
// NVFP4/MXFP4/MXFP6/MXFP8. Unknown keys are ignored in the section itself, as the original does, and errors
// in its groups.
std::optional<QuantConfig> read_quant_config(const Json& config, const std::string& where);

// "config_groups" of a section or of a recipe: {name: scheme with targets} or {PRESET_NAME: targets}. Formats
// as given.
std::vector<SchemeGroup> parse_config_groups(const Json& groups, const std::string& where);

// The section for a plan that is being written, as compressed-tensors 0.20.1 writes it; null when nothing is
// quantized. A class whose quantized modules share one scheme is a target itself. Otherwise targets are
// patterns that cover exactly the modules and the fused names of vLLM (qkv_proj where q, k and v agree), no
// catch-all, so no order matters. ignore: all unquantized modules of classes that are quantized somewhere,
// and lm_head where the model lists none (tied embeddings), because other readers see a Linear there.
Json write_quant_config(const Plan& plan);

}  // namespace roundel
