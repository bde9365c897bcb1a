// A plan in numbers: what each module will weigh and which kernel will run it.
//
//   PlanReport report = report_plan(result.plan);
#pragma once
#include <string>
#include <vector>

#include "kernels/list.h"
#include "scheme/plan.h"

namespace roundel {

class Device;

struct PlanRow {
  std::string scheme;            // describe(scheme), or the dtype of a module that stays dense
  std::string format;            // "dense" when it does
  double bytes = 0;              // stored: codes, scales, zero points
  std::string kernel;            // on this machine
  std::vector<Refusal> refused;  // better kernels, and why not
};

struct PlanReport {
  std::vector<PlanRow> rows;  // one for each entry of the plan, in its order
  double total_bytes = 0;
  double bits_per_weight = 0;  // of the quantized modules; 0 when there are none
  std::string kv_cache;        // how keys and values are kept there
};

// device: the GPU whose kernels are named; null: the CPU's.
PlanReport report_plan(const Plan& plan, const Device* device = nullptr);

}  // namespace roundel
