// The checks of make_plan(), each over the whole plan. Not for other modules.
#pragma once
#include <string>
#include <vector>

#include "scheme/plan.h"
#include "scheme/target.h"

namespace roundel {

// The scheme itself: supported, held by its format, allowed for this origin. Returns the problem, "" when
// there is none.
std::string check_scheme(const Scheme& scheme, PlanOrigin origin);
// Group sizes that do not divide: problems, or what `on_indivisible` says. Activation groups: notes and one
// warning.
void check_divisibility(const PlanRequest& request, PlanResult* result);
// Embeddings with quantized activations; weights that are not floats.
void check_modules(const PlanRequest& request, PlanResult* result);
// Modules that engines fuse and that got different schemes.
void check_fused(PlanResult* result);
// "; did you mean ...": the module, pattern or class that a target which matched nothing may have meant.
std::string suggest_target(const Target& target, const std::vector<ModuleInfo>& modules);

}  // namespace roundel
