// The files beside the weights of a quantized checkpoint: config.json with its quantization_config, recipe.yaml, and
// copies of tokenizer, generation config, chat template and licence.
#pragma once
#include <filesystem>

#include "model/model_files.h"

namespace roundel {

struct Calibration;

// `calibration`: what the recipe says beside the plan; may be null.
void write_side_files(const ModelFiles& files, const Plan& plan, const std::filesystem::path& folder,
                      const Calibration* calibration = nullptr);
// Whether a file of the source folder belongs to the copy: not weights, not an index, not another quantizer's config.
bool is_side_file(const std::string& name);

}  // namespace roundel
