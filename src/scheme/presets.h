// The preset schemes of compressed-tensors by name. Adding a scheme is one row in presets.cpp.
//
//   const Preset& preset = find_preset("w4a16", "--scheme");
//   if (preset.needs_calibration) ...
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "scheme/quant_args.h"

namespace roundel {

struct Preset {
  std::string name;
  Scheme scheme;                   // format empty: inferred
  bool needs_calibration = false;  // static activations
  std::string refusal;             // not empty: known, but not supported yet, and why
};

const std::vector<Preset>& presets();
// Case-insensitive. Throws Error(kInvalid) with the nearest name, or Error(kUnsupported) with the preset's
// refusal.
const Preset& find_preset(std::string_view name, const std::string& where);
bool is_preset(std::string_view name);  // supported or not

}  // namespace roundel
