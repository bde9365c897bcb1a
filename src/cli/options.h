// The options that several commands share: quantization options and load options (docs: `roundel quantize --help`).
#pragma once
#include <string>

#include "cli/command.h"
#include "engine/generate_params.h"
#include "model/loaded_model.h"
#include "quantize/recipe.h"

namespace roundel::cli {

struct QuantFlags {
  PlanText text;
  std::string rotate;  // "R1", "R2", "R1,R2"; empty: none

  // `scheme_flag`: "--scheme" or "--quantize".
  void declare(CLI::App& command, const char* scheme_flag);
  bool any() const { return text.any(); }
  // What parse_plan_text() makes of it, or throws. Static activations only where there is calibration, not on load.
  PlanRequest request(const char* scheme_flag, bool can_calibrate = false) const;
  Rotation rotation() const { return rotate.empty() ? Rotation{} : parse_rotation(rotate, "--rotate"); }
  OnIndivisible indivisible() const { return parse_on_indivisible(text.on_indivisible); }
};

struct LoadFlags {
  std::string device = "cpu";
  int threads = 0;
  std::string cache, kv_cache_dtype = "auto";
  bool int8_activations = false;
  QuantFlags quantize;

  void declare(CLI::App& command);
  LoadOptions options() const;
};

// --int8-activations, of commands that load a model and of plan.
void declare_int8_activations(CLI::App& command, bool& wanted);

// --temperature, --top-p, --top-k, --min-p, --seed.
void declare_sampling(CLI::App& command, SamplingChoice& choice);

// The GPU that --device asks for; none: the CPU. Error(kUsage) for another text.
std::optional<int> device_index(const std::string& device);

// Every command's PATH argument.
void declare_path(CLI::App& command, std::string& path, const char* name = "PATH",
                  const char* help = "Checkpoint folder: config.json and safetensors");

}  // namespace roundel::cli
