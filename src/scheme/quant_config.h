// The quantization_config section of config.json: to and from a PlanRequest / Plan (spec sections 1, 8.2, 13, 15).
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "scheme/plan.h"

namespace roundel {

struct QuantConfig {
  std::vector<SchemeGroup> groups;   // schemes with their format filled in
  std::vector<std::string> ignore;
  std::optional<QuantArgs> kv_cache;
  std::string format;                // model-wide
  std::string version;               // of the writer; decides the packing of 3, 5, 6, 7 bits where shapes do not tell
  PlanRequest request(const std::string& where) const;
};

// Nothing when config.json has no such section. Accepts `quantization_config` and the older `compression_config`, nested or
// flat, preset-name groups, block_structure "128x128". Refuses by name: other quant_methods, sparse and marlin formats,
// transforms with online locations, NVFP4/MXFP4/MXFP6/MXFP8.
std::optional<QuantConfig> read_quant_config(const Json& config, const std::string& where);

// The section for a plan that is being written. Several schemes: targets are patterns that cover exactly the modules and
// also the fused names of vLLM, no "Linear" catch-all, independent of any order.
Json write_quant_config(const Plan& plan);

}  // namespace roundel
