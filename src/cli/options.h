// The options that several commands share: quantization options and load options (docs: `roundel quantize --help`).
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/command.h"
#include "model/loaded_model.h"
#include "scheme/plan.h"

namespace roundel::cli {

struct QuantFlags {
  std::string scheme;  // --scheme, or --quantize on load
  int64_t group_size = 0;
  std::vector<std::string> rules, ignore;
  bool no_default_ignore = false;
  std::string on_indivisible = "error";

  // `scheme_flag`: "--scheme" or "--quantize".
  void declare(CLI::App& command, const char* scheme_flag);
  bool any() const { return !scheme.empty() || !rules.empty(); }
  // Error(kUsage) when nothing says what to do, or a rule is not TARGET=SCHEME; Error(kUnsupported) for schemes that need
  // calibration data.
  PlanRequest request(const char* scheme_flag) const;
};

struct LoadFlags {
  std::string device = "cpu";
  int threads = 0;
  QuantFlags quantize;

  void declare(CLI::App& command);
  LoadOptions options() const;
};

// The GPU that --device asks for; none: the CPU. Error(kUsage) for another text.
std::optional<int> device_index(const std::string& device);

// Every command's PATH argument.
void declare_path(CLI::App& command, std::string& path, const char* name = "PATH",
                  const char* help = "Checkpoint folder: config.json and safetensors");

}  // namespace roundel::cli
