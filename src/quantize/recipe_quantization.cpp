#include "quantize/recipe_quantization.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/log.h"
#include "base/nearest.h"
#include "scheme/presets.h"

namespace roundel {
namespace {

const std::vector<std::string> kGroupKeys = {"targets", "weights", "input_activations", "output_activations",
                                             "format"};
const std::vector<std::string> kArgsKeys = {"num_bits",    "type",     "symmetric", "group_size",
                                            "strategy",    "dynamic",  "actorder",  "block_structure",
                                            "scale_dtype", "zp_dtype", "observer",  "observer_kwargs"};
const std::vector<std::string> kMinMaxKeys = {"averaging_constant"};
const std::vector<std::string> kMseKeys = {"maxshrink", "patience", "grid", "norm", "averaging_constant"};
const std::vector<std::string> kObservers = {"memoryless_minmax", "minmax", "static_minmax", "memoryless_mse",
                                             "mse"};
const std::vector<std::string> kOtherObservers = {"imatrix_mse", "nvfp4_expanded_mse",
                                                  "nvfp4_expanded_imatrix", "fouroversix"};

std::string normal_name(std::string name) {
  for (char& c : name)
    c = c == '-' || c == ' ' ? '_' : c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return name;
}

class Reader {
 public:
  explicit Reader(const RecipeNode& node) : node_(node), name_(node.name()) {}

  std::optional<PlanRequest> read() {
    const YamlNode* scheme = node_.find("scheme");
    const YamlNode* groups = node_.find("config_groups");
    if (scheme && groups) fail_at(name_, *scheme, "scheme and config_groups exclude each other");
    if (!scheme && !groups && !node_.find("kv_cache_scheme")) return std::nullopt;
    request_.origin = PlanOrigin::kRecipe;
    request_.where = node_.where();
    request_.ignore = node_.strings("ignore");
    if (node_.boolean("bypass_divisibility_checks").value_or(false))
      request_.on_indivisible = OnIndivisible::kPad;
    if (scheme) read_scheme(*scheme);
    if (groups) read_groups(*groups);
    if (const YamlNode* kv = node_.find("kv_cache_scheme")) read_kv_cache(*kv);
    read_observers();
    for (size_t i = 0; i < request_.groups.size(); ++i) check_group(request_.groups[i], sources_[i]);
    return std::move(request_);
  }

 private:
  // Where a group comes from: its map, or the name of its preset.
  struct Source {
    const YamlNode* node = nullptr;
    std::string name;
  };

  std::vector<std::string> targets() const {
    return node_.find("targets") ? node_.strings("targets") : std::vector<std::string>{"Linear"};
  }

  // A preset's name, or {preset: targets}.
  void read_scheme(const YamlNode& node) {
    if (node.kind == YamlNode::Kind::kMap) {
      for (const auto& [key, value] : node.members) add_preset(key, string_list(name_, value, key.scalar));
      return;
    }
    if (node.kind != YamlNode::Kind::kScalar)
      fail_at(name_, node,
              "scheme is " + shown(node) + ", expected a preset's name or a map of preset: targets");
    add_preset(node, targets());
  }

  void add_preset(const YamlNode& name, std::vector<std::string> targets) {
    const std::string where = fmt::format("{}: line {}: scheme", name_, name.line);
    sources_.push_back({&name, name.scalar});
    request_.groups.push_back({"", std::move(targets), find_preset(name.scalar, where).scheme});
  }

  void read_groups(const YamlNode& node) {
    const RecipeNode groups(name_, node, "config_groups");
    if (node.members.empty())
      fail_at(name_, node, "config_groups is empty; it needs a group, such as group_0");
    for (const auto& [key, value] : node.members) {
      if (is_preset(key.scalar) && value.kind != YamlNode::Kind::kMap) {
        add_preset(key, string_list(name_, value, key.scalar));
        continue;
      }
      const RecipeNode group(name_, value, key.scalar);
      group.check_keys(kGroupKeys);
      for (const char* part : {"weights", "input_activations", "output_activations"})
        if (const YamlNode* args = group.find(part))
          RecipeNode(name_, *args, key.scalar + "." + part).check_keys(kArgsKeys);
      Json json = to_json(value);
      json.erase("targets");
      SchemeGroup g{key.scalar, {"Linear"}, parse_scheme(json, group.where())};
      if (group.find("targets")) g.targets = group.strings("targets");
      request_.groups.push_back(std::move(g));
      sources_.push_back({&value, key.scalar});
    }
  }

  void read_kv_cache(const YamlNode& node) {
    const RecipeNode kv(name_, node, "kv_cache_scheme");
    kv.check_keys(kArgsKeys);
    QuantArgs args = parse_quant_args(to_json(node), ArgsRole::kKvCache, kv.where());
    if (args.num_bits != 8 || args.strategy != Strategy::kTensor || !args.symmetric ||
        args.dynamic != DynamicMode::kStatic)
      fail(ErrorCode::kUnsupported,
           "{}: {} is not supported; supported are symmetric float8 and int8, static, one scale per tensor",
           kv.where(), describe(args));
    args.observer = checked_observer(args.observer, ArgsRole::kKvCache, kv.where());
    request_.kv_cache = std::move(args);
  }

  // weight_observer and its like, or the map `observer`.
  void read_observers() {
    const char* const keys[3] = {"weight_observer", "input_observer", "output_observer"};
    const YamlNode* map = node_.find("observer");
    std::optional<std::string> names[3];
    for (int i = 0; i < 3; ++i) names[i] = node_.string(keys[i]);
    if (map && map->kind != YamlNode::Kind::kMap)
      node_.fail_at_key("observer", shown(*map) + ", expected a map such as {weights: mse, input: minmax}");
    if (map) {
      const RecipeNode observer(name_, *map, "observer");
      const char* const parts[3] = {"weights", "input", "output"};
      observer.check_keys({parts[0], parts[1], parts[2]});
      for (int i = 0; i < 3; ++i) {
        if (names[i]) node_.fail_at_key(keys[i], "given beside `observer`; keep one of the two");
        names[i] = observer.string(parts[i]);
      }
    }
    constexpr ArgsRole kRoles[3] = {ArgsRole::kWeights, ArgsRole::kInput, ArgsRole::kOutput};
    for (int i = 0; i < 3; ++i) {
      const YamlNode* key = node_.find(keys[i]);
      if (names[i])
        checked_observer(*names[i], kRoles[i], fmt::format("{}: line {}", name_, (key ? key : map)->line));
    }
    for (SchemeGroup& group : request_.groups) {
      if (names[0] && group.scheme.weights) group.scheme.weights->observer = *names[0];
      if (names[1] && group.scheme.input) group.scheme.input->observer = *names[1];
      if (names[2] && group.scheme.output) group.scheme.output->observer = *names[2];
    }
  }

  // "recipe.yaml: line 9: group_0.weights", the line that of the arguments where they are spelled out.
  std::string where_of(const Source& source, const char* part) const {
    const YamlNode* args = source.node->find(part);
    return fmt::format("{}: line {}: {}.{}", name_, args ? args->line : source.node->line, source.name, part);
  }

  void check_group(SchemeGroup& group, const Source& source) {
    const std::string where = where_of(source, "weights");
    if (auto& weights = group.scheme.weights) {
      if (weights->actorder == ActOrder::kGroup)
        fail(ErrorCode::kUnsupported,
             "{}: actorder \"group\" cannot be written: compressed-tensors removed it in 0.19, and its "
             "readers refuse weight_g_idx; use \"static\"",
             where);
      weights->observer = checked_observer(weights->observer, ArgsRole::kWeights, where);
      check_kwargs(*weights, where);
    }
    check_activations(group.scheme.input, ArgsRole::kInput, where_of(source, "input_activations"));
    check_activations(group.scheme.output, ArgsRole::kOutput, where_of(source, "output_activations"));
  }

  static void check_activations(std::optional<QuantArgs>& args, ArgsRole role, const std::string& where) {
    if (!args || args->dynamic != DynamicMode::kStatic) return;
    args->observer = checked_observer(args->observer, role, where);
    check_kwargs(*args, where);
  }

  static void check_kwargs(const QuantArgs& args, const std::string& where) {
    if (args.observer_kwargs.empty()) return;
    const bool mse = args.observer.ends_with("mse");
    const std::vector<std::string>& known = mse ? kMseKeys : kMinMaxKeys;
    const Json kwargs = parse_json(args.observer_kwargs, where);
    for (const auto& [key, value] : kwargs.items()) {
      if (std::find(known.begin(), known.end(), key) == known.end())
        fail(ErrorCode::kInvalid, "{}: unknown observer_kwargs \"{}\" of {}{} (known: {})", where, key,
             args.observer.empty() ? "minmax" : args.observer, did_you_mean(key, known),
             fmt::join(known, ", "));
      const double least = key == "norm" || key == "grid" || key == "patience" ? 1 : 0;
      const double most = key == "grid" || key == "patience" ? 100000 : key == "norm" ? 10 : 1;
      optional_number(kwargs, key.c_str(), where + ".observer_kwargs", least, most);
    }
  }

  const RecipeNode& node_;
  const std::string& name_;
  PlanRequest request_;
  std::vector<Source> sources_;  // of the groups
};

}  // namespace

const std::vector<std::string>& quantization_keys() {
  static const std::vector<std::string> kKeys = {
      "config_groups",   "targets",        "ignore",          "scheme",   "kv_cache_scheme",
      "weight_observer", "input_observer", "output_observer", "observer", "bypass_divisibility_checks"};
  return kKeys;
}

std::optional<PlanRequest> read_quantization(const RecipeNode& node) {
  return Reader(node).read();
}

std::string checked_observer(const std::string& observer, ArgsRole role, const std::string& where) {
  const std::string name = normal_name(observer);
  const bool activations = role == ArgsRole::kInput || role == ArgsRole::kOutput;
  if (name.empty()) return activations ? "minmax" : "";  // what the original writes
  if (std::find(kOtherObservers.begin(), kOtherObservers.end(), name) != kOtherObservers.end())
    fail(ErrorCode::kUnsupported, "{}: observer \"{}\" is not supported; supported are {}", where, observer,
         fmt::join(kObservers, ", "));
  if (std::find(kObservers.begin(), kObservers.end(), name) == kObservers.end())
    fail(ErrorCode::kInvalid, "{}: unknown observer \"{}\"{} (supported: {})", where, observer,
         did_you_mean(name, kObservers), fmt::join(kObservers, ", "));
  if (role != ArgsRole::kWeights) return name;
  // A weight is seen once, whole: the running observers mean the memoryless ones, as in the original.
  return name.ends_with("mse") ? "memoryless_mse" : "memoryless_minmax";
}

}  // namespace roundel
