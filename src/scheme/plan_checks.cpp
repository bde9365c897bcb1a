#include "scheme/plan_checks.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/nearest.h"

namespace roundel {
namespace {

bool has_groups(const std::optional<QuantArgs>& args) {
  return args && args->strategy == Strategy::kGroup;
}

// "use --group-size 64 or --on-indivisible ..."
std::string indivisible_help(int64_t cols, int64_t group_size) {
  std::string sizes;
  for (int64_t size : {128, 64, 32, 16})
    if (size < group_size && cols % size == 0) {
      sizes = fmt::format("--group-size {} or ", size);
      break;
    }
  return "use " + sizes + "--on-indivisible skip, channel or pad";
}

void handle_indivisible(const PlanRequest& request, PlanEntry* entry, Problems* problems) {
  const int64_t size = entry->scheme.weights->group_size, cols = entry->module.cols;
  const std::string what = fmt::format("group size {} does not divide its {} columns", size, cols);
  switch (request.on_indivisible) {
    case OnIndivisible::kError:
      problems->add(entry->module.name, what + "; " + indivisible_help(cols, size));
      return;
    case OnIndivisible::kSkip:
      entry->scheme = {};
      entry->note = what + ": left as it is";
      return;
    case OnIndivisible::kPad:
      entry->note =
          fmt::format("{}: the last group has {} (compressed-tensors itself does not run such a layer)", what,
                      cols % size);
      return;
    case OnIndivisible::kChannel:
      entry->scheme.weights->strategy = Strategy::kChannel;
      entry->scheme.weights->group_size = 0;
      entry->note = what + ": one scale a row";
      return;
  }
}

bool same_numbers(const std::optional<QuantArgs>& a, const std::optional<QuantArgs>& b) {
  return a && b ? a->same_numbers(*b) : a.has_value() == b.has_value();
}

bool agree(const Scheme& a, const Scheme& b) {
  return same_numbers(a.weights, b.weights) && same_numbers(a.input, b.input) &&
         same_numbers(a.output, b.output) && a.format == b.format;
}

std::string last_part(const std::string& name) {
  return name.substr(name.rfind('.') + 1);
}

std::string escaped(const std::string& text) {
  std::string out;
  for (char c : text) {
    if (c == '.') out += '\\';
    out += c;
  }
  return out;
}

// "model.layers.7.mlp.up_proj" to "model.layers.#.mlp.up_proj": so that a typo is compared with each shape of
// name once.
std::string without_numbers(const std::string& name) {
  std::string out;
  for (char c : name) {
    if (c < '0' || c > '9') {
      out += c;
    } else if (out.empty() || out.back() != '#') {
      out += '#';
    }
  }
  return out;
}

std::string nearest_module(const std::string& text, const std::vector<ModuleInfo>& modules) {
  std::set<std::string> shapes = {"Linear", "Module", "Embedding"};
  for (const ModuleInfo& module : modules) shapes.insert(without_numbers(module.name));
  const std::string shape = nearest(without_numbers(text), {shapes.begin(), shapes.end()});
  std::vector<std::string> names;
  for (const ModuleInfo& module : modules)
    if (without_numbers(module.name) == shape) names.push_back(module.name);
  return names.empty() ? shape : nearest(text, names);
}

// A pattern that would match further right than at the start.
std::string unanchored_hint(const std::string& pattern, const std::vector<ModuleInfo>& modules) {
  const Regex anywhere(pattern, Regex::kNone, "target");
  for (const ModuleInfo& module : modules)
    if (anywhere.matches(module.name))
      return fmt::format("; patterns match from the start of a name, did you mean \"re:.*{}\"?", pattern);
  return "";
}

}  // namespace

std::string check_scheme(const Scheme& scheme, PlanOrigin origin) {
  try {
    require_supported(scheme, "");
  } catch (const Error& e) {
    return e.what();
  }
  if (!scheme.format.empty() && !format_holds(scheme.format, scheme))
    return fmt::format(": format \"{}\" cannot hold {}; leave format out to get \"{}\"", scheme.format,
                       describe(scheme), infer_format(scheme, "Linear"));
  if (origin == PlanOrigin::kStored || !scheme.weights) return "";
  if (scheme.weights->actorder == ActOrder::kGroup)
    return ".weights: actorder \"group\" was removed from compressed-tensors in 0.19; use \"static\"";
  for (const auto* args : {&scheme.weights, &scheme.input, &scheme.output})
    if (*args && !(*args)->scale_dtype.empty())
      return fmt::format(
          ": scale_dtype \"{}\" is not supported, scales have the type of the weights; leave it out",
          (*args)->scale_dtype);
  return "";
}

void check_divisibility(const PlanRequest& request, PlanResult* result) {
  if (request.origin == PlanOrigin::kStored) return;
  size_t ragged_inputs = 0;
  std::string example;
  for (PlanEntry& entry : result->plan.entries) {
    const std::optional<QuantArgs>& weights = entry.scheme.weights;
    if (has_groups(weights) && entry.module.cols % weights->group_size != 0)
      handle_indivisible(request, &entry, &result->problems);
    if (!has_groups(entry.scheme.input) || entry.module.cols % entry.scheme.input->group_size == 0) continue;
    if (!entry.note.empty()) entry.note += "; ";
    entry.note += fmt::format("activation groups of {} do not divide {}: the last one is shorter",
                              entry.scheme.input->group_size, entry.module.cols);
    if (ragged_inputs++ == 0) example = entry.module.name;
  }
  if (ragged_inputs > 0)
    result->warnings.push_back(
        fmt::format("{} modules ({}, ...) have columns that their activation groups do not divide: the last "
                    "group is shorter "
                    "here, compressed-tensors itself does not run such layers",
                    ragged_inputs, example));
}

void check_modules(const PlanRequest& request, PlanResult* result) {
  for (const PlanEntry& entry : result->plan.entries) {
    if (!entry.scheme.weights) continue;
    if (entry.module.class_name == "Embedding" && (entry.scheme.input || entry.scheme.output))
      result->problems.add(entry.module.name,
                           fmt::format("an embedding takes a weight-only scheme, not {}; ignore it or give "
                                       "it one of its own",
                                       describe(entry.scheme)));
    if (entry.module.name == "lm_head" && entry.scheme.output && request.origin != PlanOrigin::kStored)
      result->problems.add(
          entry.module.name,
          "its output activations are the logits, which are not quantized; ignore it or give "
          "it a scheme without output_activations");
    if (request.origin != PlanOrigin::kStored && !is_float_source(entry.module.dtype))
      result->problems.add(entry.module.name,
                           fmt::format("its weights are {}; only BF16, F16 and F32 can be quantized",
                                       dtype_name(entry.module.dtype)));
  }
}

void check_fused(PlanResult* result) {
  std::map<std::string, std::vector<const PlanEntry*>> families;
  std::vector<const std::string*> order;
  for (const PlanEntry& entry : result->plan.entries) {
    if (entry.module.fused_name.empty()) continue;
    auto& family = families[entry.module.fused_name];
    if (family.empty()) order.push_back(&entry.module.fused_name);
    family.push_back(&entry);
  }
  for (const std::string* name : order) {
    const auto& family = families[*name];
    const bool same = std::all_of(family.begin(), family.end(), [&](const PlanEntry* e) {
      return agree(e->scheme, family.front()->scheme);
    });
    if (same) continue;
    std::vector<std::string> parts;
    for (const PlanEntry* e : family)
      parts.push_back(fmt::format("{} [{}, {}] {}", last_part(e->module.name), e->module.rows, e->module.cols,
                                  describe(*e)));
    result->warnings.push_back(fmt::format(
        "{} is one matrix in vLLM and needs one scheme, but {}: vLLM cannot serve this checkpoint", *name,
        fmt::join(parts, ", ")));
  }
}

std::string suggest_target(const Target& target, const std::vector<ModuleInfo>& modules) {
  const std::string& text = target.text();
  if (target.is_pattern()) return unanchored_hint(text.substr(3), modules);
  const std::string suffix = "." + text;
  for (const ModuleInfo& module : modules)
    if (module.name.ends_with(suffix))
      return fmt::format("; a name is complete, did you mean \"re:.*\\.{}$\"?", escaped(text));
  const std::string near = nearest_module(text, modules);
  return near.empty() ? "" : fmt::format("; did you mean \"{}\"?", near);
}

}  // namespace roundel
