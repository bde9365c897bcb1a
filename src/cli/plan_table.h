// The table of a plan, one row a module, for `plan` and `quantize --dry-run`.
#pragma once
#include <string>
#include <vector>

#include "base/json.h"
#include "scheme/plan.h"

namespace roundel {
class Device;
struct TileTask;
}  // namespace roundel

namespace roundel::cli {

// explain: also why better kernels refused. device: the GPU whose kernels are named; null: the CPU's.
std::string plan_text(const Plan& plan, bool explain, const Device* device = nullptr);
Json plan_json(const PlanResult& result, const Device* device = nullptr);

// The tiles of a GPU's products of few tokens, and where they come from: tuned, shipped, heuristic.
std::string tile_table(const std::vector<TileTask>& tasks);
Json tile_task_json(const TileTask& task);

}  // namespace roundel::cli
