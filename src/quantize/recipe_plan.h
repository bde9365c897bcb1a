// From the modifiers of a recipe (or of flags) to what the job runs: one plan for the model and the steps, each naming its
// modules.
//
//   RecipePlan p = plan_recipe(files, recipe);
//   p.result.problems.throw_if_any("...");
#pragma once
#include <string>
#include <vector>

#include "model/model_files.h"
#include "quantize/recipe.h"

namespace roundel {

struct RecipePlan {
  PlanResult result;
  std::vector<CalibrationStep> steps;  // a step without targets is for all modules of the plan
  std::string
      needs_calibration;  // what does, for messages: "recipe.yaml: line 4: GPTQModifier"; empty: nothing
};

// Problems, beside those of make_plan(): two modifiers that quantize one module; two different kv_cache_scheme; AWQ's duo
// scaling with one scale per tensor; a modifier that quantizes nothing.
RecipePlan plan_recipe(const ModelFiles& files, const Recipe& recipe);

}  // namespace roundel
