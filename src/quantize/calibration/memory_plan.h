// How much memory a calibrated job will need, before it starts, and whether the activations go to a file.
//
//   MemoryPlan memory = plan_memory(files, calibration, {.second = true});
//   if (memory.on_disk) ...
#pragma once
#include <cstdint>

#include "model/model_files.h"
#include "quantize/calibration_steps.h"

namespace roundel {

struct MemoryNeeds {
  uint64_t activations = 0;  // of all samples
  uint64_t layer = 0;        // one layer's weights, dense and quantized
  uint64_t statistics = 0;   // moments, their factor, copies of a weight
  uint64_t scratch = 0;      // one sample on its way through a layer
};

struct MemoryPlan {
  MemoryNeeds needs;
  uint64_t peak = 0;  // predicted, with what the process holds already
  bool on_disk = false;
};

// What the job asks for.
struct CalibrationUse {
  bool second = false;   // some module needs the second moments
  bool aims = false;     // a second stream of activations, of the dense model
  bool smooths = false;  // the dense layer runs first
  bool inputs = false;   // and some of its inputs are kept
};

// Throws
// Error(kLimit) when calibration.max_memory is too small even with the activations in a file.
MemoryPlan plan_memory(const ModelFiles& files, const Calibration& calibration, const CalibrationUse& use);

}  // namespace roundel
