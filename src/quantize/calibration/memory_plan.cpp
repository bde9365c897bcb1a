#include "quantize/calibration/memory_plan.h"

#include <algorithm>

#include "base/log.h"
#include "base/process.h"
#include "quantize/calibration/layer_runner.h"
#include "quantize/calibration/smoothing.h"

namespace roundel {
namespace {

// Weights of the largest layer and of the largest module in it.
struct Sizes {
  uint64_t layer = 0, widest = 0, rows = 0;
};

Sizes sizes_of(const ModelFiles& files) {
  Sizes s;
  for (const ModuleInfo& m : files.layout.modules) {
    if (!m.name.starts_with("model.layers.0.")) continue;
    s.layer += static_cast<uint64_t>(m.rows * m.cols);
    s.widest = std::max(s.widest, static_cast<uint64_t>(m.rows * m.cols));
    s.rows = std::max(s.rows, static_cast<uint64_t>(m.rows));
  }
  return s;
}

}  // namespace

MemoryPlan plan_memory(const ModelFiles& files, const Calibration& calibration, const CalibrationUse& use) {
  const Sizes sizes = sizes_of(files);
  const std::vector<int64_t> tokens = sample_tokens(calibration.samples);
  const int64_t widest = widest_input(files.config);
  const auto k = static_cast<uint64_t>(widest);
  const uint64_t longest =
      tokens.empty() ? 0 : static_cast<uint64_t>(*std::max_element(tokens.begin(), tokens.end()));

  MemoryPlan plan;
  MemoryNeeds& n = plan.needs;
  n.activations = SampleStore::bytes(tokens, files.config.hidden_size, widest) * (use.aims ? 2 : 1);
  // Floats, the quantized linears, and a dense layer in the source's type.
  n.layer = sizes.layer * (4 + 1 + (use.aims || use.smooths || !calibration.propagate_error ? 2 : 0));
  n.statistics = sizes.widest * 9;
  // H and U in floats, the factor in double; freed buffers that the allocator keeps.
  if (use.second) n.statistics += k * k * 16 + sizes.widest * 4 + (uint64_t{16} << 20);
  if (use.aims) n.statistics += k * k * 16 + sizes.widest * 12;
  if (use.inputs) n.statistics += 4 * TokenSample::kMost * (4 * k + 6 * sizes.rows) + sizes.widest * 9;
  const auto inter = static_cast<uint64_t>(files.config.intermediate_size);
  n.scratch = longest * 4 * (3 * inter + 4 * static_cast<uint64_t>(files.config.hidden_size));

  const uint64_t fixed = peak_rss_bytes() + n.layer + n.statistics + n.scratch;
  plan.peak = fixed + n.activations;
  const uint64_t limit = calibration.max_memory > 0 ? calibration.max_memory : calibration.spill_above;
  if (limit == 0 || plan.peak <= limit) return plan;
  plan.on_disk = true;
  plan.peak = fixed;
  if (calibration.max_memory > 0 && plan.peak > limit)
    fail(ErrorCode::kLimit,
         "calibration needs about {} of memory even with the activations in a file, the limit is {}: {} for "
         "one layer's weights, {} for its statistics; raise --max-memory",
         format_bytes(plan.peak), format_bytes(limit), format_bytes(n.layer), format_bytes(n.statistics));
  return plan;
}

}  // namespace roundel
