#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "scheme/quant_config.h"
#include "scheme/target_patterns.h"

namespace roundel {
namespace {

struct WrittenGroup {
  Scheme scheme;
  std::vector<std::string> targets;
};

// The distinct schemes in order of first appearance, and which one each entry has (-1: dense).
struct Numbered {
  std::vector<WrittenGroup> groups;
  std::vector<int> of_entry;
};

Numbered number_schemes(const Plan& plan) {
  Numbered out;
  for (const PlanEntry& entry : plan.entries) {
    out.of_entry.push_back(-1);
    if (!entry.scheme.weights) continue;
    auto it = std::find_if(out.groups.begin(), out.groups.end(),
                           [&](const WrittenGroup& group) { return group.scheme == entry.scheme; });
    out.of_entry.back() = static_cast<int>(it - out.groups.begin());
    if (it == out.groups.end()) out.groups.push_back({entry.scheme, {}});
  }
  return out;
}

// The schemes that the modules of each class have.
std::map<std::string, std::set<int>> schemes_of_classes(const Plan& plan, const Numbered& numbered) {
  std::map<std::string, std::set<int>> classes;
  for (size_t i = 0; i < plan.entries.size(); ++i)
    if (numbered.of_entry[i] >= 0) classes[plan.entries[i].module.class_name].insert(numbered.of_entry[i]);
  return classes;
}

// All names that patterns must tell apart: the modules of mixed classes, and the fused names whose parts all
// agree.
std::map<std::string, int> names_to_cover(const Plan& plan, const Numbered& numbered,
                                          const std::map<std::string, std::set<int>>& classes) {
  constexpr int kUnset = -2;
  std::map<std::string, int> names, fused;
  for (size_t i = 0; i < plan.entries.size(); ++i) {
    const ModuleInfo& module = plan.entries[i].module;
    auto it = classes.find(module.class_name);
    const bool mixed = it != classes.end() && it->second.size() > 1;
    const int scheme = mixed ? numbered.of_entry[i] : -1;
    names[module.name] = scheme;
    if (module.fused_name.empty()) continue;
    int& shared = fused.try_emplace(module.fused_name, kUnset).first->second;
    shared = shared == kUnset || shared == scheme ? scheme : -1;
  }
  names.merge(fused);
  return names;
}

std::vector<std::string> ignored_modules(const Plan& plan,
                                         const std::map<std::string, std::set<int>>& classes) {
  std::vector<std::string> ignore;
  bool has_head = false;
  for (const PlanEntry& entry : plan.entries) {
    const std::string& name = entry.module.name;
    has_head = has_head || name == "lm_head" || name.ends_with(".lm_head");
    if (!entry.scheme.weights && classes.contains(entry.module.class_name)) ignore.push_back(name);
  }
  if (!has_head && classes.contains("Linear")) ignore.push_back("lm_head");
  return ignore;
}

Json args_or_null(const std::optional<QuantArgs>& args) {
  return args ? to_json(*args) : Json();
}

}  // namespace

Json write_quant_config(const Plan& plan) {
  Numbered numbered = number_schemes(plan);
  if (numbered.groups.empty() && !plan.kv_cache) return nullptr;
  const auto classes = schemes_of_classes(plan, numbered);
  for (const auto& [name, schemes] : classes)
    if (schemes.size() == 1) numbered.groups[static_cast<size_t>(*schemes.begin())].targets.push_back(name);
  for (auto& [scheme, patterns] : cover_names(names_to_cover(plan, numbered, classes)))
    for (std::string& pattern : patterns)
      numbered.groups[static_cast<size_t>(scheme)].targets.push_back(std::move(pattern));

  Json groups = Json::object();
  std::set<std::string> formats;
  for (size_t g = 0; g < numbered.groups.size(); ++g) {
    const WrittenGroup& group = numbered.groups[g];
    formats.insert(group.scheme.format);
    groups["group_" + std::to_string(g)] = {{"targets", group.targets},
                                            {"weights", to_json(*group.scheme.weights)},
                                            {"input_activations", args_or_null(group.scheme.input)},
                                            {"output_activations", args_or_null(group.scheme.output)},
                                            {"format", group.scheme.format}};
  }
  return {{"version", kCompatibleVersion},
          {"quant_method", "compressed-tensors"},
          {"quantization_status", "compressed"},
          {"format", formats.empty()       ? "dense"
                     : formats.size() == 1 ? *formats.begin()
                                           : "mixed-precision"},
          {"config_groups", groups},
          {"ignore", ignored_modules(plan, classes)},
          {"kv_cache_scheme", args_or_null(plan.kv_cache)},
          {"global_compression_ratio", nullptr},
          {"moe_sparsity_config", nullptr},
          {"sparsity_config", Json::object()},
          {"transform_config", Json::object()}};
}

}  // namespace roundel
