// The table of a plan, one row a module, for `plan` and `quantize --dry-run`.
#pragma once
#include <string>

#include "base/json.h"
#include "scheme/plan.h"

namespace roundel::cli {

// explain: also why better kernels refused.
std::string plan_text(const Plan& plan, bool explain);
Json plan_json(const PlanResult& result);

}  // namespace roundel::cli
