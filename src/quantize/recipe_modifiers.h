// The modifiers of llm-compressor that roundel knows, each read from its map of options into plain data.
//
//   Modifier m = read_modifier("recipe.yaml", key, value);
#pragma once
#include <optional>
#include <string>

#include "model/rotation.h"
#include "quantize/calibration_steps.h"
#include "quantize/recipe_node.h"
#include "scheme/plan.h"

namespace roundel {

struct Modifier {
  std::string kind;                         // "GPTQModifier"
  std::string where;                        // "recipe.yaml: line 4: GPTQModifier"
  std::optional<Rotation> rotate;           // of the whole model, before everything else
  std::optional<CalibrationStep> smooth;    // changes weights before they are quantized
  std::optional<CalibrationStep> quantize;  // quantizes
  std::optional<PlanRequest> request;       // the schemes; none: those of the quantizing modifier before it
};

// Error(kInvalid) for an unknown name or key with the nearest known one, and for values out of range; Error(kUnsupported)
// for what is known and not there.
Modifier read_modifier(const std::string& name, const YamlNode& key, const YamlNode& value);

}  // namespace roundel
