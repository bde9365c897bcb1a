#include "model/plan_report.h"

#include <fmt/format.h>

#include "kernels/device_list.h"
#include "linear/linear.h"

namespace roundel {
namespace {

PlanRow row_of(const PlanEntry& e, const Device* device) {
  PlanRow row;
  const bool quantized = e.scheme.weights.has_value();
  row.scheme = describe(e);
  row.format = quantized ? e.scheme.format : "dense";
  const double weights = static_cast<double>(e.module.rows) * static_cast<double>(e.module.cols);
  row.bytes = quantized ? stored_bits(e.scheme, e.module.rows, e.module.cols, e.module.dtype).total() / 8
                        : weights * static_cast<double>(dtype_size(e.module.dtype));
  const LinearSpec spec{e.module.name, e.module.rows, e.module.cols, e.scheme, e.module.dtype};
  const LinearProblem problem = linear_problem(spec);
  row.kernel = device ? choose_device_linear(problem, device->info(), &row.refused).name
                      : choose_linear(problem, &row.refused).name;
  return row;
}

std::string kv_text(const Plan& plan, const Device* device) {
  const std::string pages = device ? fmt::format(" in pages of {} positions", kPageTokens) : "";
  if (!plan.kv_cache) return (device ? "BF16" : "floats") + pages;
  const std::string type = describe(*plan.kv_cache);
  return device ? fmt::format("codes of a byte ({}) with the checkpoint's scales,{}", type, pages)
                : fmt::format("floats, rounded to {} by the checkpoint's scales", type);
}

}  // namespace

PlanReport report_plan(const Plan& plan, const Device* device) {
  PlanReport report;
  report.kv_cache = kv_text(plan, device);
  double quantized_bytes = 0, quantized_weights = 0;
  for (const PlanEntry& e : plan.entries) {
    report.rows.push_back(row_of(e, device));
    const double bytes = report.rows.back().bytes;
    report.total_bytes += bytes;
    if (!e.scheme.weights) continue;
    quantized_bytes += bytes;
    quantized_weights += static_cast<double>(e.module.rows) * static_cast<double>(e.module.cols);
  }
  if (quantized_weights > 0) report.bits_per_weight = 8 * quantized_bytes / quantized_weights;
  return report;
}

}  // namespace roundel
