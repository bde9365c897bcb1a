#include "cli/plan_table.h"

#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "base/log.h"
#include "cli/table.h"
#include "kernels/device_list.h"
#include "model/plan_report.h"
#include "model/tile_tuning.h"
#include "tensor/tensor.h"

namespace roundel::cli {

std::string plan_text(const Plan& plan, bool explain, const Device* device) {
  const PlanReport report = report_plan(plan, device);
  Table table({"module", "shape", "scheme", "format", "bytes", "kernel", "note"});
  std::string reasons, last;
  for (size_t i = 0; i < plan.entries.size(); ++i) {
    const PlanEntry& e = plan.entries[i];
    const PlanRow& row = report.rows[i];
    table.add({e.module.name, shape_text({e.module.rows, e.module.cols}), row.scheme, row.format,
               fmt::format("{:.0f}", row.bytes), row.kernel, e.note});
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
                      format_bytes(static_cast<uint64_t>(report.total_bytes)), report.bits_per_weight);
  text += fmt::format("key/value cache: {}\n", report.kv_cache);
  return text + reasons;
}

std::string tile_table(const std::vector<TileTask>& tasks) {
  if (tasks.empty()) return "";
  Table table({"modules", "shape", "tokens", "kernel", "tiles", "from"});
  for (const TileTask& t : tasks) {
    const TileKey& key = t.choice.key;
    table.add({t.modules, shape_text({key.n, key.k}), std::to_string(t.use.use.m), key.kernel,
               fmt::format("{}", fmt::join(t.choice.tiles, " ")), tile_source_name(t.choice.source)});
  }
  return "how the GPU divides products of few tokens (roundel tune measures it):\n" + table.text();
}

Json tile_task_json(const TileTask& task) {
  const TileKey& key = task.choice.key;
  return {{"modules", task.modules},
          {"shape", {key.n, key.k}},
          {"scheme", task.scheme},
          {"tokens", task.use.use.m},
          {"kernel", key.kernel},
          {"weights", key.weights},
          {"whole", key.whole},
          {"tiles", task.choice.tiles},
          {"from", tile_source_name(task.choice.source)}};
}

Json plan_json(const PlanResult& result, const Device* device) {
  const PlanReport report = report_plan(result.plan, device);
  Json modules = Json::array(), problems = Json::array();
  for (size_t i = 0; i < report.rows.size(); ++i) {
    const PlanEntry& e = result.plan.entries[i];
    const PlanRow& row = report.rows[i];
    Json refused = Json::array();
    for (const Refusal& r : row.refused) refused.push_back({{"kernel", r.kernel}, {"reason", r.reason}});
    modules.push_back({{"name", e.module.name},
                       {"shape", {e.module.rows, e.module.cols}},
                       {"scheme", row.scheme},
                       {"format", row.format},
                       {"bytes", static_cast<uint64_t>(row.bytes)},
                       {"kernel", row.kernel},
                       {"refused", refused},
                       {"note", e.note}});
  }
  for (const Problem& p : result.problems.list())
    problems.push_back({{"module", p.where}, {"message", p.message}});
  return {{"modules", modules},
          {"total_bytes", static_cast<uint64_t>(report.total_bytes)},
          {"bits_per_weight", report.bits_per_weight},
          {"kv_cache", report.kv_cache},
          {"problems", problems},
          {"warnings", result.warnings}};
}

}  // namespace roundel::cli
