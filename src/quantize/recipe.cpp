#include "quantize/recipe.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/log.h"
#include "base/nearest.h"
#include "quantize/yaml_tree.h"
#include "scheme/presets.h"
#include "scheme/quant_config.h"

namespace roundel {
namespace {

const std::vector<std::string> kKnownKeys = {"config_groups",
                                             "targets",
                                             "ignore",
                                             "scheme",
                                             "kv_cache_scheme",
                                             "weight_observer",
                                             "input_observer",
                                             "output_observer",
                                             "observer",
                                             "bypass_divisibility_checks",
                                             "requires_calibration_data",
                                             "index",
                                             "group",
                                             "start",
                                             "end",
                                             "update"};
const std::vector<std::string> kOtherModifiers = {
    "GPTQModifier",      "AWQModifier",  "SmoothQuantModifier", "AutoRoundModifier",
    "SpinQuantModifier", "QuIPModifier", "SparseGPTModifier",   "WandaPruningModifier"};

class RecipeReader {
 public:
  RecipeReader(const std::string& name) : name_(name) {
    request_.origin = PlanOrigin::kRecipe;
    request_.where = name;
  }

  PlanRequest read(const YamlNode& root) {
    if (root.kind != YamlNode::Kind::kMap)
      fail(ErrorCode::kInvalid, "{}: expected a map of `<name>_stage:` at the top", name_);
    bool found = false;
    for (const auto& [key, value] : root.members) {
      if (key.scalar.ends_with("_stage")) {
        found |= read_stage(key.scalar, value);
      } else if (key.scalar.ends_with("_modifiers")) {
        found |= read_modifiers(key.scalar, value);
      } else if (key.scalar != "args" && key.scalar != "version") {
        log_warn("{}: line {}: \"{}\" is not a stage (`<name>_stage`) and is not read", name_, key.line,
                 key.scalar);
      }
    }
    if (!found)
      fail(ErrorCode::kInvalid,
           "{}: no modifier found; expected a QuantizationModifier in `<name>_modifiers` of a `<name>_stage`",
           name_);
    return std::move(request_);
  }

 private:
  [[noreturn]] void fail_at(const YamlNode& node, const std::string& text,
                            ErrorCode code = ErrorCode::kInvalid) {
    fail(code, "{}: line {}: {}", name_, node.line, text);
  }
  void expect_map(const YamlNode& node, const std::string& what) {
    if (node.kind != YamlNode::Kind::kMap) fail_at(node, what + " must be a map");
  }

  bool read_stage(const std::string& stage, const YamlNode& node) {
    expect_map(node, stage);
    bool found = false;
    for (const auto& [key, value] : node.members) {
      if (key.scalar.ends_with("_modifiers"))
        found |= read_modifiers(key.scalar, value);
      else if (key.scalar != "run_type")
        log_warn("{}: line {}: \"{}\" is not a group of modifiers (`<name>_modifiers`) and is not read",
                 name_, key.line, key.scalar);
    }
    return found;
  }

  bool read_modifiers(const std::string& group, const YamlNode& node) {
    expect_map(node, group);
    for (const auto& [key, value] : node.members) {
      if (key.scalar != "QuantizationModifier") refuse_modifier(key);
      if (value.kind == YamlNode::Kind::kNull) {
        YamlNode nothing;
        nothing.kind = YamlNode::Kind::kMap;
        nothing.line = key.line;
        read_quantization(nothing);
      } else {
        read_quantization(value);
      }
    }
    return !node.members.empty();
  }

  [[noreturn]] void refuse_modifier(const YamlNode& key) {
    const bool known =
        std::find(kOtherModifiers.begin(), kOtherModifiers.end(), key.scalar) != kOtherModifiers.end();
    if (known)
      fail_at(key, key.scalar + " is not supported yet; supported is QuantizationModifier (RTN)",
              ErrorCode::kUnsupported);
    fail_at(key,
            "unknown modifier \"" + key.scalar + "\"" + did_you_mean(key.scalar, {"QuantizationModifier"}));
  }

  void read_quantization(const YamlNode& node) {
    expect_map(node, "QuantizationModifier");
    for (const auto& [key, value] : node.members)
      if (std::find(kKnownKeys.begin(), kKnownKeys.end(), key.scalar) == kKnownKeys.end())
        fail_at(key, "unknown key \"" + key.scalar + "\" of QuantizationModifier" +
                         did_you_mean(key.scalar, kKnownKeys));
    const YamlNode* scheme = node.find("scheme");
    const YamlNode* groups = node.find("config_groups");
    if (is_null(scheme)) scheme = nullptr;
    if (is_null(groups)) groups = nullptr;
    if (scheme && groups) fail_at(*scheme, "scheme and config_groups exclude each other");
    if (!scheme && !groups) fail_at(node, "QuantizationModifier needs a scheme or config_groups");
    if (const YamlNode* kv = node.find("kv_cache_scheme"); kv && !is_null(kv))
      fail_at(*kv, "kv_cache_scheme needs calibration data, which is not supported yet",
              ErrorCode::kUnsupported);
    if (const YamlNode* ignore = node.find("ignore"))
      for (std::string& i : strings(*ignore)) request_.ignore.push_back(std::move(i));
    if (scheme) {
      const YamlNode* targets = node.find("targets");
      read_scheme(*scheme,
                  targets && !is_null(targets) ? strings(*targets) : std::vector<std::string>{"Linear"});
    } else {
      read_groups(*groups);
    }
  }

  static bool is_null(const YamlNode* node) {
    return !node || node->kind == YamlNode::Kind::kNull ||
           (node->kind == YamlNode::Kind::kScalar && to_json(*node).is_null());
  }

  std::vector<std::string> strings(const YamlNode& node) {
    if (is_null(&node)) return {};
    if (node.kind == YamlNode::Kind::kScalar) return {node.scalar};
    if (node.kind != YamlNode::Kind::kSequence) fail_at(node, "expected a string or a list of strings");
    std::vector<std::string> list;
    for (const YamlNode& item : node.items) {
      if (item.kind != YamlNode::Kind::kScalar) fail_at(item, "expected a string");
      list.push_back(item.scalar);
    }
    return list;
  }

  // A preset's name, or {preset: targets}.
  void read_scheme(const YamlNode& node, const std::vector<std::string>& targets) {
    if (node.kind == YamlNode::Kind::kMap) {
      for (const auto& [key, value] : node.members) add_preset(key, strings(value));
      return;
    }
    if (node.kind != YamlNode::Kind::kScalar)
      fail_at(node, "scheme must be a preset's name or a map of preset: targets");
    add_preset(node, targets);
  }

  void add_preset(const YamlNode& name, std::vector<std::string> targets) {
    const std::string where = fmt::format("{}: line {}: scheme", name_, name.line);
    const Preset& preset = find_preset(name.scalar, where);
    if (preset.needs_calibration)
      fail_at(name,
              "scheme " + preset.name +
                  " has static activations and needs calibration data, which is not supported yet",
              ErrorCode::kUnsupported);
    request_.groups.push_back({"", std::move(targets), preset.scheme});
  }

  void read_groups(const YamlNode& node) {
    expect_map(node, "config_groups");
    for (const auto& [key, value] : node.members) {
      if (is_preset(key.scalar) && value.kind != YamlNode::Kind::kMap) {
        add_preset(key, strings(value));
        continue;
      }
      expect_map(value, key.scalar);
      const std::string where = fmt::format("{}: line {}: {}", name_, value.line, key.scalar);
      Json group = to_json(value);
      SchemeGroup g{key.scalar, {"Linear"}, {}};
      if (const YamlNode* targets = value.find("targets")) g.targets = strings(*targets);
      group.erase("targets");
      g.scheme = parse_scheme(group, where);
      const auto& in = g.scheme.input;
      if (in && in->dynamic == DynamicMode::kStatic)
        fail_at(value,
                key.scalar + " has static activations and needs calibration data, which is not supported yet",
                ErrorCode::kUnsupported);
      request_.groups.push_back(std::move(g));
    }
  }

  const std::string& name_;
  PlanRequest request_;
};

// The YAML between two lines of `---` at the start of a Markdown file.
std::string_view front_matter(std::string_view text, const std::string& name) {
  if (!text.starts_with("---"))
    fail(ErrorCode::kInvalid, "{}: a Markdown recipe begins with a line of ---", name);
  const size_t start = text.find('\n');
  const size_t end = text.find("\n---", start);
  if (start == std::string_view::npos || end == std::string_view::npos)
    fail(ErrorCode::kInvalid, "{}: the front matter is not closed by a line of ---", name);
  return text.substr(start + 1, end - start);
}

}  // namespace

Recipe parse_recipe(std::string_view text, const std::string& name) {
  Recipe recipe;
  recipe.text = text;
  const std::string_view yaml = name.ends_with(".md") ? front_matter(text, name) : text;
  recipe.request = RecipeReader(name).read(parse_yaml(yaml, name));
  return recipe;
}

Recipe read_recipe(const std::filesystem::path& path) {
  return parse_recipe(read_text_file(path, YamlLimits{}.max_bytes), path.string());
}

PlanRequest plan_request(const PlanText& text, const std::filesystem::path& recipe,
                         const PlanTextNames& names) {
  if (recipe.empty()) return parse_plan_text(text, names);
  if (text.any() || text.group_size != 0 || !text.ignore.empty())
    fail(ErrorCode::kUsage,
         "{} and {}, {}, {} or ignored modules exclude each other: the recipe says all of it", names.recipe,
         names.scheme, names.rule, names.group_size);
  PlanRequest request = read_recipe(recipe).request;
  request.on_indivisible = parse_on_indivisible(text.on_indivisible);
  return request;
}

std::string write_recipe(const Plan& plan) {
  const Json config = write_quant_config(plan);
  std::string text = "# What was done to these weights, as a recipe. JSON is YAML.\n";
  Json groups = config.at("config_groups");
  text += "default_stage:\n  default_modifiers:\n    QuantizationModifier:\n";
  text += "      config_groups: " + groups.dump() + "\n";
  text += "      ignore: " + config.at("ignore").dump() + "\n";
  return text;
}

}  // namespace roundel
