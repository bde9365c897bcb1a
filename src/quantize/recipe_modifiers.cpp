#include "quantize/recipe_modifiers.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/log.h"
#include "base/nearest.h"
#include "quantize/recipe_quantization.h"

namespace roundel {
namespace {

using Reader = Modifier (*)(const RecipeNode& node);

const std::vector<std::string> kCommonKeys = {"index", "group",  "start",
                                              "end",   "update", "requires_calibration_data"};

std::vector<std::string> keys(std::vector<std::string> own, bool quantizes) {
  own.insert(own.end(), kCommonKeys.begin(), kCommonKeys.end());
  if (quantizes) own.insert(own.end(), quantization_keys().begin(), quantization_keys().end());
  return own;
}

// Keys that say how the original should compute, not what: read, and without effect here.
void note_without_effect(const RecipeNode& node, std::initializer_list<const char*> names) {
  for (const char* key : names)
    if (const YamlNode* value = node.find(key))
      log_warn("{}: line {}: {} of {} has no effect here", node.name(), value->line, key, node.what());
}

void check_schedule(const RecipeNode& node) {
  for (const char* key : {"start", "end", "update"})
    if (const auto when = node.number(key, -1e9, 1e9); when && *when != -1 && *when != 0)
      node.fail_at_key(
          key,
          fmt::format("{}: schedules belong to training; calibration is done once, leave it out", *when));
}

// [[balance layers], smooth layer], as SmoothQuantModifier has them.
SmoothMapping read_pair(const RecipeNode& node, const YamlNode& pair) {
  const std::string& name = node.name();
  if (pair.kind != YamlNode::Kind::kSequence || pair.items.size() != 2)
    fail_at(name, pair,
            "a mapping of " + node.what() + " is " + shown(pair) + ", expected [[layers that read], layer]");
  SmoothMapping mapping;
  mapping.balance = string_list(name, pair.items[0], "mappings");
  const std::vector<std::string> smooth = string_list(name, pair.items[1], "mappings");
  if (smooth.size() != 1 || mapping.balance.empty())
    fail_at(name, pair, "a mapping needs layers that read, and one layer whose output is smoothed");
  mapping.smooth = smooth.front();
  mapping.where = fmt::format("{}: line {}: ", name, pair.line);
  return mapping;
}

// {smooth_layer, balance_layers}, as AWQModifier has them.
SmoothMapping read_map(const RecipeNode& node, const YamlNode& yaml) {
  const RecipeNode map(node.name(), yaml, "mappings of " + node.what());
  map.check_keys({"smooth_layer", "balance_layers", "activation_hook_target"});
  if (map.find("activation_hook_target"))
    map.fail_at_key("activation_hook_target",
                    "set: activations are taken at the input of the balance layers; leave it out",
                    ErrorCode::kUnsupported);
  SmoothMapping mapping{map.string("smooth_layer").value_or(""), map.strings("balance_layers"),
                        fmt::format("{}: line {}: ", node.name(), yaml.line)};
  if (mapping.smooth.empty() || mapping.balance.empty())
    fail_at(node.name(), yaml, "a mapping of " + node.what() + " needs smooth_layer and balance_layers");
  return mapping;
}

std::vector<SmoothMapping> read_mappings(const RecipeNode& node,
                                         SmoothMapping (*read)(const RecipeNode&, const YamlNode&)) {
  std::vector<SmoothMapping> list;
  const YamlNode* mappings = node.find("mappings");
  if (!mappings) return list;
  if (mappings->kind != YamlNode::Kind::kSequence)
    node.fail_at_key("mappings", shown(*mappings) + ", expected a list");
  if (mappings->items.empty())
    node.fail_at_key("mappings", "empty; leave it out for those of the architecture");
  for (const YamlNode& item : mappings->items) list.push_back(read(node, item));
  return list;
}

Modifier read_rtn(const RecipeNode& node) {
  node.check_keys(keys({"num_calibration_steps"}, true));
  note_without_effect(node, {"num_calibration_steps"});
  Modifier m;
  m.quantize = RtnStep{};
  m.request = read_quantization(node);
  if (!m.request) fail_at(node.name(), node.yaml(), "QuantizationModifier needs a scheme or config_groups");
  return m;
}

// What the modifier says of the order of columns: nothing said is "static", null is none.
std::optional<ActOrder> read_actorder(const RecipeNode& node, bool* explicit_order) {
  *explicit_order = node.has("actorder");
  if (!*explicit_order) return ActOrder::kStatic;
  const YamlNode* value = node.find("actorder");
  if (!value) return ActOrder::kNone;
  const Json json = to_json(*value);
  const std::string text = json.is_string() ? json.get<std::string>() : "";
  if (text == "static" || text == "weight") return ActOrder::kStatic;
  if (json == false) return ActOrder::kNone;
  if (text == "group" || text == "dynamic" || json == true)
    node.fail_at_key(
        "actorder",
        "\"group\", which cannot be written: compressed-tensors removed it in 0.19, and its readers refuse "
        "weight_g_idx; use \"static\"",
        ErrorCode::kUnsupported);
  node.fail_at_key("actorder", shown(*value) + ", expected null or \"static\" (also called \"weight\")" +
                                   did_you_mean(text, {"static", "weight"}));
}

// The modifier's order goes to the groups that name none; where both are given they must agree.
void apply_actorder(const RecipeNode& node, PlanRequest& request) {
  bool explicit_order = false;
  const std::optional<ActOrder> order = read_actorder(node, &explicit_order);
  for (SchemeGroup& group : request.groups) {
    auto& weights = group.scheme.weights;
    if (!weights) continue;
    if (weights->actorder == ActOrder::kNone)
      weights->actorder = *order;
    else if (explicit_order && weights->actorder != *order)
      node.fail_at_key("actorder",
                       fmt::format("null, but {} says actorder \"static\"; keep one of the two", group.name));
  }
}

Modifier read_gptq(const RecipeNode& node) {
  node.check_keys(keys({"block_size", "dampening_frac", "actorder", "batched_quantization",
                        "offload_hessians", "sequential_update", "sequential_targets"},
                       true));
  note_without_effect(node, {"batched_quantization", "offload_hessians", "sequential_targets"});
  if (const auto sequential = node.boolean("sequential_update"); sequential && !*sequential)
    log_warn(
        "{}: line {}: sequential_update: false is no longer a choice, as in the original; layers are done in "
        "order",
        node.name(), node.yaml().find("sequential_update")->line);
  Modifier m;
  GptqStep step;
  step.block_size = node.integer("block_size", 1, 1 << 20).value_or(step.block_size);
  step.dampening_frac = node.number("dampening_frac", 0, 1).value_or(step.dampening_frac);
  m.request = read_quantization(node);
  if (m.request) {
    apply_actorder(node, *m.request);
    step.actorder = std::nullopt;
  } else {
    bool ignored = false;
    step.actorder = read_actorder(node, &ignored);
    step.targets = node.strings("targets");
    step.ignore = node.strings("ignore");
  }
  m.quantize = step;
  return m;
}

Modifier read_best(const RecipeNode& node) {
  node.check_keys(keys({}, true));
  Modifier m;
  m.request = read_quantization(node);
  BestStep step;
  if (!m.request) {
    step.targets = node.strings("targets");
    step.ignore = node.strings("ignore");
  }
  m.quantize = step;
  return m;
}

Modifier read_awq(const RecipeNode& node) {
  node.check_keys(keys({"mappings", "duo_scaling", "n_grid", "offload_device", "sequential_targets"}, true));
  note_without_effect(node, {"offload_device", "sequential_targets"});
  Modifier m;
  AwqStep step;
  step.n_grid = static_cast<int>(node.integer("n_grid", 3, 1000).value_or(step.n_grid));
  if (const YamlNode* duo = node.find("duo_scaling")) {
    const Json value = to_json(*duo);
    if (value != true && value != false && value != "both")
      node.fail_at_key("duo_scaling", shown(*duo) + ", expected true, false or both");
    step.duo_scaling = value == true    ? DuoScaling::kOn
                       : value == false ? DuoScaling::kOff
                                        : DuoScaling::kBoth;
  }
  step.mappings = read_mappings(node, read_map);
  m.request = read_quantization(node);  // older recipes quantize with the same modifier
  if (m.request)
    m.quantize = RtnStep{};
  else
    step.ignore = node.strings("ignore");
  m.smooth = step;
  return m;
}

Modifier read_smoothquant(const RecipeNode& node, SmoothAlgorithm algorithm) {
  node.check_keys(keys({"smoothing_strength", "mappings", "ignore", "num_calibration_steps",
                        "calibration_function", "algorithm"},
                       false));
  note_without_effect(node, {"num_calibration_steps"});
  if (node.find("calibration_function"))
    node.fail_at_key("calibration_function", "set, but a recipe file cannot hold a function; leave it out",
                     ErrorCode::kUnsupported);
  SmoothQuantStep step;
  step.algorithm = algorithm;
  if (const auto text = node.string("algorithm")) {
    const std::vector<std::string> known = {"smoothquant", "log_equalization"};
    if (*text != known[0] && *text != known[1])
      node.fail_at_key("algorithm", "\"" + *text + "\", expected smoothquant or log_equalization" +
                                        did_you_mean(*text, known));
    step.algorithm = *text == known[0] ? SmoothAlgorithm::kSmoothQuant : SmoothAlgorithm::kLogEqualization;
  }
  const YamlNode* strength = node.find("smoothing_strength");
  if (strength && strength->scalar == "auto") {
    if (step.algorithm == SmoothAlgorithm::kLogEqualization)
      node.fail_at_key("smoothing_strength", "auto, but log_equalization has no strength");
    step.strength = std::nullopt;
  } else if (strength) {
    step.strength = node.number("smoothing_strength", 0, 1);
  }
  step.mappings = read_mappings(node, read_pair);
  step.ignore = node.strings("ignore");
  Modifier m;
  m.smooth = step;
  return m;
}

Modifier read_spinquant(const RecipeNode& node) {
  node.check_keys(keys({"rotations", "transform_type", "randomize", "learnable", "precision",
                        "transform_block_size", "mappings", "norm_mappings", "transform_config"},
                       false));
  note_without_effect(node, {"precision"});
  for (const char* key : {"transform_block_size", "mappings", "norm_mappings", "transform_config"})
    if (node.find(key))
      node.fail_at_key(
          key, "set: whole hidden states and heads are rotated, as the architecture has them; leave it out",
          ErrorCode::kUnsupported);
  for (const char* key : {"randomize", "learnable"})
    if (node.boolean(key).value_or(false))
      node.fail_at_key(key, "true, which is not supported; leave it out", ErrorCode::kUnsupported);
  const std::string type = node.string("transform_type").value_or("hadamard");
  if (type != "hadamard" && type != "random-hadamard")
    node.fail_at_key(
        "transform_type",
        "\"" + type + "\", expected hadamard or random-hadamard (with random signs in both cases)",
        ErrorCode::kUnsupported);
  Modifier m;
  m.rotate = Rotation{true, true};
  if (node.find("rotations")) {
    const std::vector<std::string> names = node.strings("rotations");
    if (names.empty()) node.fail_at_key("rotations", "empty, expected R1, R2 or both");
    m.rotate = parse_rotation(fmt::format("{}", fmt::join(names, ",")), node.where() + ": rotations");
  }
  return m;
}

struct Known {
  const char* name;
  Reader read;
};
constexpr Known kKnown[] = {
    {"QuantizationModifier", read_rtn},
    {"GPTQModifier", read_gptq},
    {"AWQModifier", read_awq},
    {"SmoothQuantModifier",
     [](const RecipeNode& node) { return read_smoothquant(node, SmoothAlgorithm::kSmoothQuant); }},
    {"LogarithmicEqualizationModifier",
     [](const RecipeNode& node) { return read_smoothquant(node, SmoothAlgorithm::kLogEqualization); }},
    {"SpinQuantModifier", read_spinquant},
    {"BestModifier", read_best},
};
const std::vector<std::string> kOthers = {
    "AutoRoundModifier",        "QuIPModifier",        "SparseGPTModifier",
    "WandaPruningModifier",     "REAPPruningModifier", "ConstantPruningModifier",
    "MagnitudePruningModifier", "IMatrixGatherer",     "DistillationModifier"};

[[noreturn]] void refuse(const std::string& name, const YamlNode& key) {
  std::vector<std::string> known;
  for (const Known& k : kKnown) known.emplace_back(k.name);
  if (std::find(kOthers.begin(), kOthers.end(), key.scalar) != kOthers.end())
    fail_at(name, key,
            fmt::format("{} is not supported; supported are {}", key.scalar, fmt::join(known, ", ")),
            ErrorCode::kUnsupported);
  fail_at(name, key, fmt::format("unknown modifier \"{}\"{}", key.scalar, did_you_mean(key.scalar, known)));
}

}  // namespace

Modifier read_modifier(const std::string& name, const YamlNode& key, const YamlNode& value) {
  const auto known = std::find_if(std::begin(kKnown), std::end(kKnown),
                                  [&](const Known& k) { return key.scalar == k.name; });
  if (known == std::end(kKnown)) refuse(name, key);
  YamlNode options = value;
  if (options.kind == YamlNode::Kind::kNull) options.kind = YamlNode::Kind::kMap;
  options.line = key.line;
  const RecipeNode node(name, options, key.scalar);
  Modifier modifier = known->read(node);
  check_schedule(node);
  modifier.kind = key.scalar;
  modifier.where = node.where();
  return modifier;
}

}  // namespace roundel
