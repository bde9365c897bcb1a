// The table of a plan, one row a module, for `plan` and `quantize --dry-run`.
#pragma once
#include <string>

#include "base/json.h"
#include "scheme/plan.h"

namespace roundel {
class Device;
}

namespace roundel::cli {

// explain: also why better kernels refused. device: the GPU whose kernels are named; null: the CPU's.
std::string plan_text(const Plan& plan, bool explain, const Device* device = nullptr);
Json plan_json(const PlanResult& result, const Device* device = nullptr);

}  // namespace roundel::cli
