#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "scheme/quant_config.h"
#include "scheme/target.h"
#include "scheme/target_patterns.h"
#include "tests/scheme/scheme_test_util.h"

namespace roundel {
namespace {

std::optional<QuantConfig> read_back(const Json& section) {
  return read_quant_config(parse_json(dump_json(Json{{"quantization_config", section}}), "config.json"),
                           "config.json");
}

Plan plan_of(const std::vector<ModuleInfo>& modules, std::vector<SchemeGroup> groups,
             std::vector<std::string> ignore = {}) {
  PlanResult result = make_plan(modules, {.groups = std::move(groups),
                                          .ignore = std::move(ignore),
                                          .default_ignore = {"lm_head", "re:.*mlp.gate$"}});
  result.problems.throw_if_any("problems");
  return result.plan;
}

void expect_same_after_reading(const Plan& plan, const Json& section) {
  std::vector<ModuleInfo> modules;
  for (const PlanEntry& entry : plan.entries) modules.push_back(entry.module);
  const PlanResult again = make_plan(modules, read_back(section).value().request("config.json"));
  EXPECT_TRUE(again.problems.empty());
  for (const PlanEntry& entry : plan.entries)
    EXPECT_EQ(again.plan.find(entry.module.name)->scheme, entry.scheme)
        << entry.module.name << " in " << section;
}

// How vLLM finds the target of a layer: name or pattern, then class (plain targets as substrings in any case,
// patterns on the class name), then by the parts of a fused layer. In the order of the config.
std::string vllm_target(const std::string& layer, const std::string& class_name, const Json& section,
                        const std::vector<std::string>& parts) {
  auto lower = [](std::string text) {
    for (char& c : text) c = static_cast<char>(std::tolower(c));
    return text;
  };
  auto by_name = [&](const std::string& name, const std::string& target) {
    return Target(target, "test").match(name, "") == TargetKind::kName ||
           Target(target, "test").match(name, "") == TargetKind::kPattern;
  };
  std::vector<std::string> targets;
  for (const auto& group : section["config_groups"].items())
    for (const Json& target : group.value()["targets"]) targets.push_back(target);
  for (const std::string& target : targets)
    if (by_name(layer, target)) return target;
  for (const std::string& target : targets) {
    if (target.starts_with("re:") ? by_name(class_name, target) : contains(lower(class_name), lower(target)))
      return target;
  }
  for (const std::string& target : targets) {
    bool all = !parts.empty();
    for (const std::string& part : parts) all = all && by_name(part, target);
    if (all) return target;
  }
  return "";
}

// What vLLM runs a layer with: the group that holds its target; null when ignored or without a target.
Json vllm_group(const std::string& layer, const std::string& class_name, const Json& section,
                const std::vector<std::string>& parts) {
  size_t ignored = 0;
  const std::vector<std::string> names = parts.empty() ? std::vector<std::string>{layer} : parts;
  for (const std::string& name : names)
    for (const Json& ignore : section["ignore"])
      if (ignore == name) {
        ++ignored;
        break;
      }
  EXPECT_TRUE(ignored == 0 || ignored == names.size()) << layer;
  if (ignored > 0) return nullptr;
  const std::string target = vllm_target(layer, class_name, section, parts);
  for (const auto& group : section["config_groups"].items())
    for (const Json& one : group.value()["targets"])
      if (one == target) return group.value();
  return nullptr;
}

// All layers of vLLM's model (fused where their parts agree) get the scheme of the plan, under a renamed
// prefix too.
void expect_served(const Plan& plan, const Json& section, const std::string& prefix = "") {
  std::map<std::string, std::vector<const PlanEntry*>> layers;
  for (const PlanEntry& entry : plan.entries)
    layers[entry.module.fused_name.empty() ? entry.module.name : entry.module.fused_name].push_back(&entry);
  for (const auto& [layer, entries] : layers) {
    bool agree = true;
    std::vector<std::string> parts;
    for (const PlanEntry* e : entries) {
      agree = agree && e->scheme == entries[0]->scheme;
      parts.push_back(e->module.name);
    }
    if (!agree || (!prefix.empty() && !entries[0]->scheme.weights)) continue;
    const bool fused = parts.size() > 1;
    const char* class_name = fused                                          ? "MergedColumnParallelLinear"
                             : entries[0]->module.class_name == "Embedding" ? "VocabParallelEmbedding"
                                                                            : "RowParallelLinear";
    for (std::string& part : parts) part = prefix + part;
    const Json group =
        vllm_group(prefix + layer, class_name, section, fused ? parts : std::vector<std::string>{});
    const Scheme& scheme = entries[0]->scheme;
    EXPECT_EQ(group.is_null(), !scheme.weights.has_value()) << layer << " " << section;
    if (!group.is_null() && scheme.weights) {
      EXPECT_EQ(parse_scheme(group, "g"), scheme) << layer << " " << section;
    }
  }
}

TEST(QuantConfigWrite, EqualsTheOriginalForOneScheme) {
  const Json stored = fixture("stored_configs.json");
  int compared = 0;
  for (const auto& item : stored.items()) {
    const Json& original = item.value();
    if (original["config_groups"].size() != 1 || original["version"] != kCompatibleVersion) continue;
    if (contains(item.key(), "mixtral")) continue;
    const PlanResult result = make_plan(llama_modules(2), read_back(original).value().request("config.json"));
    EXPECT_EQ(write_quant_config(result.plan), original) << item.key();
    ++compared;
  }
  EXPECT_GT(compared, 30);
}

TEST(QuantConfigWrite, IsNothingForADensePlan) {
  EXPECT_TRUE(write_quant_config(plan_of(llama_modules(1), {})).is_null());
}

TEST(QuantConfigWrite, IgnoresTheTiedHeadOfOtherReaders) {
  const Json section =
      write_quant_config(plan_of(llama_modules(1, 256, 512, true), {{"", {"Linear"}, preset("W8A8")}}));
  EXPECT_EQ(section["ignore"], Json({"lm_head"}));
}

TEST(QuantConfigWrite, IgnoresTheRoutersOfExperts) {
  const Json section = write_quant_config(plan_of(moe_modules(2, 4), {{"", {"Linear"}, preset("W4A16")}}));
  EXPECT_EQ(section["ignore"], Json({"model.layers.0.mlp.gate", "model.layers.1.mlp.gate", "lm_head"}));
  EXPECT_EQ(section["config_groups"]["group_0"]["targets"], Json({"Linear"}));
}

TEST(QuantConfigWrite, NamesTheModulesOfAMix) {
  const Plan plan = plan_of(llama_modules(3), {{"", {"Linear"}, preset("W4A16")},
                                               {"", {"re:.*layers.(0|2).mlp.*"}, preset("W8A8")}});
  const Json section = write_quant_config(plan);
  EXPECT_EQ(section["format"], "mixed-precision");
  EXPECT_EQ(section["config_groups"]["group_1"]["targets"],
            Json({"re:.*layers\\.(0|2)\\.mlp\\.(down_proj|gate_proj|gate_up_proj|up_proj)$"}));
  EXPECT_EQ(section["config_groups"]["group_0"]["targets"],
            Json({"re:.*layers\\.1\\.mlp\\.(down_proj|gate_proj|gate_up_proj|up_proj)$",
                  "re:.*layers\\.(0|1|2)\\.self_attn\\.(k_proj|o_proj|q_proj|qkv_proj|v_proj)$"}));
  EXPECT_EQ(section["config_groups"]["group_0"]["format"], "pack-quantized");
  expect_same_after_reading(plan, section);
  expect_served(plan, section);
  expect_served(plan, section, "language_model.");
}

TEST(QuantConfigWrite, KeepsOneFormatForAMixOfBits) {
  const Plan plan = plan_of(llama_modules(2), {{"", {"Linear"}, preset("W4A16")},
                                               {"", {"model.layers.1.mlp.down_proj"}, preset("W8A16")}});
  EXPECT_EQ(write_quant_config(plan)["format"], "pack-quantized");
}

TEST(QuantConfigWrite, TargetsClassesThatHaveOneSchemeEach) {
  const Plan plan =
      plan_of(llama_modules(2), {{"", {"Linear"}, preset("W4A16")}, {"", {"Embedding"}, preset("W8A16")}});
  const Json section = write_quant_config(plan);
  EXPECT_EQ(section["config_groups"]["group_0"]["targets"], Json({"Embedding"}));
  EXPECT_EQ(section["config_groups"]["group_1"]["targets"], Json({"Linear"}));
  expect_same_after_reading(plan, section);
}

TEST(QuantConfigWrite, SplitsExpertsIntoFewPatterns) {
  const Plan plan = plan_of(moe_modules(4, 8), {{"", {"Linear"}, preset("W4A16")},
                                                {"", {"re:.*experts.(1|5).down_proj"}, preset("W8A16")}});
  const Json section = write_quant_config(plan);
  EXPECT_EQ(section["config_groups"]["group_1"]["targets"],
            Json({"re:.*layers\\.(0|1|2|3)\\.mlp\\.experts\\.(1|5)\\.down_proj$"}));
  EXPECT_EQ(section["config_groups"]["group_0"]["targets"].size(), 2u);
  expect_same_after_reading(plan, section);
}

TEST(QuantConfigWrite, SurvivesRandomPlans) {
  std::mt19937 random(3);
  const Scheme schemes[] = {preset("W4A16"), preset("W8A8"), preset("FP8_DYNAMIC"), preset("W4A8"), Scheme{}};
  for (int round = 0; round < 60; ++round) {
    const bool moe = round % 3 == 2;
    const std::vector<ModuleInfo> modules = moe ? moe_modules(3, 4) : llama_modules(12);
    PlanRequest request;
    // Even rounds keep fused modules together, as a careful user does.
    std::map<std::string, Scheme> of_fused;
    const size_t choices = 2 + random() % 4;
    for (const ModuleInfo& module : modules) {
      if (module.class_name != "Linear" || random() % 8 == 0) continue;
      const std::string key = round % 2 == 0 && !module.fused_name.empty() ? module.fused_name : module.name;
      const Scheme& scheme = of_fused.try_emplace(key, schemes[random() % choices]).first->second;
      request.groups.push_back({"", {module.name}, scheme});
    }
    const Plan plan = make_plan(modules, request).plan;
    if (!plan.any_quantized()) continue;
    const Json section = write_quant_config(plan);
    expect_same_after_reading(plan, section);
    expect_served(plan, section);
  }
}

std::set<std::string> matched(const std::vector<std::string>& patterns,
                              const std::map<std::string, int>& names) {
  std::set<std::string> out;
  for (const std::string& pattern : patterns)
    for (const auto& [name, scheme] : names)
      if (Target(pattern, "test").match(name, "")) out.insert(name);
  return out;
}

TEST(TargetPatterns, CoverExactlyTheirNames) {
  const std::map<std::string, int> names = {
      {"model.layers.1.up", 0},
      {"model.layers.11.up", 1},
      {"model.layers.111.up", 0},
      {"encoder.layers.1.up", 1},
      {"layers.1.up", -1},
      {"model.a+b.(c)", 0},
      {"model.aab.(c)", 1},
      {"lm_head", 0},
      {"other.lm_head", -1},
      {"model.net.0.1.2.3.4", 0},
      {"model.net.0.1.2.3.5", 1},
      {"model.layers.01.up", 1},
      {"model.na\u00efve.x", 0},
      {"model.naive.x", 1},
      {"model.x", 0},
      {"x", 1},
  };
  for (const auto& [scheme, patterns] : cover_names(names)) {
    std::set<std::string> expected;
    for (const auto& [name, owner] : names)
      if (owner == scheme) expected.insert(name);
    EXPECT_EQ(matched(patterns, names), expected) << Json(patterns);
  }
}

}  // namespace
}  // namespace roundel
