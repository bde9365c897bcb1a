#include <set>

#include "scheme/plan.h"
#include "scheme/plan_checks.h"

namespace roundel {
namespace {

void merge_kv_cache(const PlanResult& plan, const std::string& name, PlanResult* result) {
  if (!plan.plan.kv_cache) return;
  auto& kv = result->plan.kv_cache;
  if (kv && *kv != *plan.plan.kv_cache)
    result->problems.add(name, "its kv_cache_scheme contradicts that of another modifier");
  kv = plan.plan.kv_cache;
}

}  // namespace

PlanResult merge_plans(const std::vector<PlanResult>& plans, const std::vector<std::string>& names) {
  PlanResult result;
  std::vector<size_t> owner;
  std::set<std::pair<size_t, size_t>> reported;
  for (size_t p = 0; p < plans.size(); ++p) {
    for (const Problem& problem : plans[p].problems.list())
      result.problems.add(problem.where, problem.message);
    result.warnings.insert(result.warnings.end(), plans[p].warnings.begin(), plans[p].warnings.end());
    merge_kv_cache(plans[p], names[p], &result);
    const std::vector<PlanEntry>& entries = plans[p].plan.entries;
    if (p == 0) {
      result.plan.entries = entries;
      result.plan.index = plans[p].plan.index;
      owner.assign(entries.size(), 0);
      continue;
    }
    for (size_t i = 0; i < entries.size(); ++i) {
      PlanEntry& entry = result.plan.entries[i];
      if (!entries[i].scheme.weights) continue;
      if (entry.scheme.weights && reported.insert({owner[i], p}).second)
        result.problems.add(entry.module.name, names[owner[i]] + " and " + names[p] +
                                                   " both quantize it; ignore it in one of them");
      entry = entries[i];
      owner[i] = p;
    }
  }
  check_fused(&result);
  return result;
}

}  // namespace roundel
