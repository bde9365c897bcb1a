// llm-compressor recipes (YAML, JSON, or Markdown with YAML front matter): read into a request for a plan.
//
//   Recipe recipe = read_recipe("recipe.yaml");
//   PlanResult plan = plan_model(files, recipe.request);
#pragma once
#include <filesystem>
#include <string>
#include <string_view>

#include "scheme/plan_text.h"

namespace roundel {

struct Recipe {
  PlanRequest request;  // groups, ignore; origin kRecipe
  std::string text;     // as read
};

// Understands QuantizationModifier (docs/format.md, 9): scheme, config_groups, targets, ignore, observers that RTN does not
// need. Other modifiers are refused by name; unknown keys with the nearest known one and the line. Size, depth, aliases and
// duplicate keys are limited (reliability C7). `name` is the file for messages.
Recipe read_recipe(const std::filesystem::path& path);
Recipe parse_recipe(std::string_view text, const std::string& name);

// What flags or options say: the recipe when there is one (a path), else the text. Error(kUsage) when both say what to do.
PlanRequest plan_request(const PlanText& text, const std::filesystem::path& recipe,
                         const PlanTextNames& names = {});

// A recipe that says what was done, written beside the weights: every group with its numbers spelled out.
std::string write_recipe(const Plan& plan);

}  // namespace roundel
