// llm-compressor recipes (YAML, JSON, or Markdown with YAML front matter): read into modifiers in the order in which they
// work, and written beside the weights.
//
//   Recipe recipe = read_recipe("recipe.yaml");
//   RecipePlan plan = plan_recipe(files, recipe);       // quantize/recipe_plan.h
#pragma once
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "quantize/recipe_modifiers.h"
#include "scheme/plan_text.h"

namespace roundel {

struct Recipe {
  std::string name;                 // of the file, or of the flags, for messages
  std::vector<Modifier> modifiers;  // at least one that quantizes; those that smooth come before it
};

// Stages (`<name>_stage`) and groups (`<name>_modifiers`) are read in the order of the file. Unknown modifiers and keys are
// refused with the line and the nearest known name, and so are modifiers that contradict each other. Size, depth, aliases
// and duplicate keys are limited. The two kinds of Python tags that llm-compressor writes into its own recipes (tuples and
// the names of enumerations) are read as the values they hold. `name` is the file for messages. docs/format.md, 9.
Recipe read_recipe(const std::filesystem::path& path);
Recipe parse_recipe(std::string_view text, const std::string& name);
// The order of modifiers: smoothing before quantizing, AWQ and SmoothQuant not alone, schemes for everything that
// quantizes. Throws Error(kInvalid). parse_recipe() calls it.
void check_modifiers(const Recipe& recipe);
// With which the source is to be opened: open_model(folder, rotation_of(recipe)).
Rotation rotation_of(const Recipe& recipe);

// What options say where nothing is calibrated: the recipe when there is one (a path), else the text. Error(kUsage) when
// both say what to do; Error(kUnsupported) for a recipe that needs calibration data.
PlanRequest plan_request(const PlanText& text, const std::filesystem::path& recipe,
                         const PlanTextNames& names = {});

// A recipe that says what was done: every group with its numbers spelled out, the steps with their parameters, and the
// calibration data under `args`. Reading it again gives the same plan and steps. `calibration` may be null.
std::string write_recipe(const Plan& plan, const Calibration* calibration = nullptr,
                         const Rotation& rotation = {});

}  // namespace roundel
