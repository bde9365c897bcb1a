// The rotary embedding's part of config.json.
//
//   RopeConfig rope = parse_rope_config(config, model, "config.json");
#pragma once
#include <string>

#include "base/json.h"
#include "checkpoint/model_config.h"

namespace roundel {

// `model` has head_dim, max_position and model_type already. Throws Error(kInvalid, kUnsupported): unknown type (listing
// the supported ones), unknown keys (they would change the numbers), values per layer type, wrong lengths.
RopeConfig parse_rope_config(const Json& config, const ModelConfig& model, const std::string& where);

// How many of `head_dim` dimensions are rotated, rounded down as transformers does. Throws unless even and at least 2.
int64_t rotated_dims(int64_t head_dim, double partial_rotary_factor, const std::string& where);

}  // namespace roundel
