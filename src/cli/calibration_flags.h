// The options of `quantize` that say how codes are found: algorithm, smoothing, calibration data. Flags and recipes lead to
// the same Recipe.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "cli/options.h"
#include "quantize/calibration_data.h"
#include "quantize/recipe.h"

namespace roundel::cli {

struct CalibrationFlags {
  std::string algorithm = "rtn", calib, kv_cache, sequential = "on";
  std::string smooth;  // a number or "auto"; empty: none
  int64_t samples = 512, seq_len = 512;
  std::optional<int64_t> seed;
  double max_memory_gb = 0;

  void declare(CLI::App& command);
  // Error(kUsage) for options of the calibration data without --calib.
  void check(const CLI::App& command) const;
  bool names_algorithm() const { return algorithm != "rtn" || !smooth.empty() || !kv_cache.empty(); }
  // What the flags ask for, as a recipe.
  Recipe recipe(const QuantFlags& quant) const;
  CalibrationSource source() const;
};

// The recipe of a file. Error(kUsage) for flags that say the same thing another way; --on-indivisible holds for it when it
// was given (`command` knows).
Recipe recipe_file(const std::string& path, const QuantFlags& quant, const CLI::App& command);

}  // namespace roundel::cli
