#include "cli/plan_table.h"

#include <nlohmann/json.hpp>

#include "base/log.h"
#include "cli/table.h"
#include "kernels/device_list.h"
#include "linear/linear.h"
#include "tensor/tensor.h"

namespace roundel::cli {
namespace {

struct Row {
  double bytes = 0;
  std::string kernel;
  std::vector<Refusal> refused;
};

Row row_of(const PlanEntry& e, const Device* device) {
  Row row;
  const double weights = static_cast<double>(e.module.rows) * static_cast<double>(e.module.cols);
  row.bytes = e.scheme.weights
                  ? stored_bits(e.scheme, e.module.rows, e.module.cols, e.module.dtype).total() / 8
                  : weights * static_cast<double>(dtype_size(e.module.dtype));
  const LinearSpec spec{e.module.name, e.module.rows, e.module.cols, e.scheme, e.module.dtype};
  const LinearProblem problem = linear_problem(spec);
  row.kernel = device ? choose_device_linear(problem, device->info(), &row.refused).name
                      : choose_linear(problem, &row.refused).name;
  return row;
}

std::string scheme_text(const PlanEntry& e) {
  return e.scheme.weights ? describe(e.scheme) : std::string(dtype_name(e.module.dtype));
}

struct Totals {
  double bytes = 0, quantized_bits = 0, quantized_weights = 0;
  void add(const PlanEntry& e, double row_bytes) {
    bytes += row_bytes;
    if (!e.scheme.weights) return;
    quantized_bits += 8 * row_bytes;
    quantized_weights += static_cast<double>(e.module.rows) * static_cast<double>(e.module.cols);
  }
  double bits_per_weight() const { return quantized_weights > 0 ? quantized_bits / quantized_weights : 0; }
};

}  // namespace

std::string plan_text(const Plan& plan, bool explain, const Device* device) {
  Table table({"module", "shape", "scheme", "format", "bytes", "kernel", "note"});
  Totals totals;
  std::string reasons, last;
  for (const PlanEntry& e : plan.entries) {
    const Row row = row_of(e, device);
    totals.add(e, row.bytes);
    table.add({e.module.name, shape_text({e.module.rows, e.module.cols}), scheme_text(e),
               e.scheme.weights ? e.scheme.format : "dense", fmt::format("{:.0f}", row.bytes), row.kernel,
               e.note});
    if (!explain) continue;
    std::string text;
    for (const Refusal& r : row.refused) text += fmt::format("  {}: {}\n", r.kernel, r.reason);
    if (text != last)
      reasons += fmt::format("{} -> {}; refused before it:\n{}", e.module.name, row.kernel,
                             text.empty() ? "  none\n" : text);
    last = text;
  }
  std::string text = table.text();
  text += fmt::format("weights: {}; quantized modules: {:.3f} bits per weight\n",
                      format_bytes(static_cast<uint64_t>(totals.bytes)), totals.bits_per_weight());
  return text + reasons;
}

Json plan_json(const PlanResult& result, const Device* device) {
  Json modules = Json::array(), problems = Json::array();
  Totals totals;
  for (const PlanEntry& e : result.plan.entries) {
    const Row row = row_of(e, device);
    totals.add(e, row.bytes);
    Json refused = Json::array();
    for (const Refusal& r : row.refused) refused.push_back({{"kernel", r.kernel}, {"reason", r.reason}});
    modules.push_back({{"name", e.module.name},
                       {"shape", {e.module.rows, e.module.cols}},
                       {"scheme", scheme_text(e)},
                       {"format", e.scheme.weights ? e.scheme.format : "dense"},
                       {"bytes", static_cast<uint64_t>(row.bytes)},
                       {"kernel", row.kernel},
                       {"refused", refused},
                       {"note", e.note}});
  }
  for (const Problem& p : result.problems.list())
    problems.push_back({{"module", p.where}, {"message", p.message}});
  return {{"modules", modules},
          {"total_bytes", static_cast<uint64_t>(totals.bytes)},
          {"bits_per_weight", totals.bits_per_weight()},
          {"problems", problems},
          {"warnings", result.warnings}};
}

}  // namespace roundel::cli
