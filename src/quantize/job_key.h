// Identifies a quantization job: the same source files, plan and program version give the same key.
#pragma once
#include <cstdint>
#include <string>

#include "model/model_files.h"
#include "quantize/calibration_steps.h"

namespace roundel {

// calibration: null when there is none.
std::string job_key(const ModelFiles& files, const Plan& plan, uint64_t max_shard_bytes,
                    const Calibration* calibration);

}  // namespace roundel
