// The options that several commands share: quantization options and load options (docs: `roundel quantize --help`).
#pragma once
#include <string>

#include "cli/command.h"
#include "model/loaded_model.h"
#include "quantize/recipe.h"

namespace roundel::cli {

struct QuantFlags {
  PlanText text;

  // `scheme_flag`: "--scheme" or "--quantize".
  void declare(CLI::App& command, const char* scheme_flag);
  bool any() const { return text.any(); }
  // What plan_request() makes of it, or throws.
  PlanRequest request(const char* scheme_flag, const std::string& recipe = "") const;
};

struct LoadFlags {
  std::string device = "cpu";
  int threads = 0;
  QuantFlags quantize;

  void declare(CLI::App& command);
  LoadOptions options() const;
};

// Every command's PATH argument.
void declare_path(CLI::App& command, std::string& path, const char* name = "PATH",
                  const char* help = "Checkpoint folder: config.json and safetensors");

}  // namespace roundel::cli
