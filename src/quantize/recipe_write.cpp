#include <algorithm>
#include <nlohmann/json.hpp>

#include "quantize/recipe.h"
#include "scheme/quant_config.h"
#include "scheme/target.h"

namespace roundel {
namespace {

// One modifier as it will be written; its options are JSON, which is YAML.
struct Written {
  std::string kind;
  OrderedJson options = OrderedJson::object();
};

OrderedJson ordered(const Json& json) {
  return OrderedJson::parse(json.dump());
}

struct Targets {
  const std::vector<std::string>*targets, *ignore;
};

std::optional<Targets> targets_of(const CalibrationStep& step) {
  return std::visit(
      [](const auto& s) -> std::optional<Targets> {
        using Step = std::decay_t<decltype(s)>;
        if constexpr (std::is_same_v<Step, SmoothQuantStep> || std::is_same_v<Step, AwqStep>)
          return std::nullopt;
        else
          return Targets{&s.targets, &s.ignore};
      },
      step);
}

// The step that quantizes each entry of the plan: the last that matches it, -1 for none (rounded to nearest).
std::vector<int> owners(const Plan& plan, const std::vector<CalibrationStep>& steps) {
  std::vector<int> owner(plan.entries.size(), -1);
  for (size_t s = 0; s < steps.size(); ++s) {
    const auto texts = targets_of(steps[s]);
    if (!texts) continue;
    TargetSet targets, ignore;
    for (const std::string& t : *texts->targets) targets.add(t, "targets");
    for (const std::string& t : *texts->ignore) ignore.add(t, "ignore");
    for (size_t i = 0; i < plan.entries.size(); ++i) {
      const ModuleInfo& m = plan.entries[i].module;
      const bool wanted = texts->targets->empty() || !targets.match(m.name, m.class_name).empty();
      if (wanted && ignore.match(m.name, m.class_name).empty()) owner[i] = static_cast<int>(s);
    }
  }
  return owner;
}

// config_groups and ignore of the entries that step `s` quantizes; false when there are none.
bool add_groups(const Plan& plan, const std::vector<int>& owner, int s, OrderedJson& options) {
  Plan part = plan;
  for (size_t i = 0; i < part.entries.size(); ++i)
    if (owner[i] != s) part.entries[i].scheme = {};
  part.kv_cache.reset();
  if (!part.any_quantized()) return false;
  const Json config = write_quant_config(part);
  options["config_groups"] = ordered(config.at("config_groups"));
  options["ignore"] = ordered(config.at("ignore"));
  return true;
}

bool any_actorder(const Plan& plan, const std::vector<int>& owner, int s) {
  for (size_t i = 0; i < plan.entries.size(); ++i) {
    const auto& weights = plan.entries[i].scheme.weights;
    if (owner[i] == s && weights && weights->actorder != ActOrder::kNone) return true;
  }
  return false;
}

Written smoothquant(const SmoothQuantStep& step) {
  Written w{"SmoothQuantModifier"};
  w.options["smoothing_strength"] = step.strength ? OrderedJson(*step.strength) : OrderedJson("auto");
  w.options["algorithm"] =
      step.algorithm == SmoothAlgorithm::kSmoothQuant ? "smoothquant" : "log_equalization";
  if (!step.ignore.empty()) w.options["ignore"] = step.ignore;
  for (const SmoothMapping& m : step.mappings)
    w.options["mappings"].push_back(OrderedJson::array({m.balance, m.smooth}));
  return w;
}

Written awq(const AwqStep& step) {
  Written w{"AWQModifier"};
  w.options["n_grid"] = step.n_grid;
  w.options["duo_scaling"] = step.duo_scaling == DuoScaling::kOn    ? OrderedJson(true)
                             : step.duo_scaling == DuoScaling::kOff ? OrderedJson(false)
                                                                    : OrderedJson("both");
  if (!step.ignore.empty()) w.options["ignore"] = step.ignore;
  for (const SmoothMapping& m : step.mappings)
    w.options["mappings"].push_back({{"smooth_layer", m.smooth}, {"balance_layers", m.balance}});
  return w;
}

Written spinquant(const Rotation& rotation) {
  Written w{"SpinQuantModifier"};
  if (rotation.residual) w.options["rotations"].push_back("R1");
  if (rotation.heads) w.options["rotations"].push_back("R2");
  w.options["transform_type"] = "random-hadamard";
  return w;
}

class Writer {
 public:
  Writer(const Plan& plan, const std::vector<CalibrationStep>& steps)
      : plan_(plan), steps_(steps), owner_(owners(plan, steps)) {}

  std::vector<Written> run() {
    for (size_t s = 0; s < steps_.size(); ++s) {
      if (const auto* smooth = std::get_if<SmoothQuantStep>(&steps_[s]))
        list_.push_back(smoothquant(*smooth));
      if (const auto* scaled = std::get_if<AwqStep>(&steps_[s])) list_.push_back(awq(*scaled));
      if (targets_of(steps_[s])) add_quantizer(static_cast<int>(s));
    }
    add_quantizer(-1);
    add_kv_cache();
    return std::move(list_);
  }

 private:
  void add_quantizer(int s) {
    Written w{"QuantizationModifier"};
    if (!add_groups(plan_, owner_, s, w.options)) return;
    const CalibrationStep* step = s < 0 ? nullptr : &steps_[static_cast<size_t>(s)];
    if (const auto* gptq = step ? std::get_if<GptqStep>(step) : nullptr) {
      w.kind = "GPTQModifier";
      w.options["block_size"] = gptq->block_size;
      w.options["dampening_frac"] = gptq->dampening_frac;
      w.options["actorder"] = any_actorder(plan_, owner_, s) ? OrderedJson("static") : OrderedJson(nullptr);
    } else if (step && std::holds_alternative<BestStep>(*step)) {
      w.kind = "BestModifier";
    }
    list_.push_back(std::move(w));
  }

  void add_kv_cache() {
    if (!plan_.kv_cache) return;
    const OrderedJson kv = ordered(to_json(*plan_.kv_cache));
    for (Written& w : list_) {
      if (!w.options.contains("config_groups")) continue;
      w.options["kv_cache_scheme"] = kv;
      return;
    }
    Written w{"QuantizationModifier"};
    w.options["kv_cache_scheme"] = kv;
    list_.push_back(std::move(w));
  }

  const Plan& plan_;
  const std::vector<CalibrationStep>& steps_;
  std::vector<int> owner_;
  std::vector<Written> list_;
};

}  // namespace

std::string write_recipe(const Plan& plan, const Calibration* calibration, const Rotation& rotation) {
  std::string text = "# What was done to these weights, as a recipe. JSON is YAML.\n";
  if (calibration) {
    text += "args:\n";
    text += fmt::format("  propagate_error: {}\n", calibration->propagate_error);
    if (!calibration->samples_text.empty()) text += "  calibration: " + calibration->samples_text + "\n";
  }
  text += "default_stage:\n";
  std::string group;
  std::vector<std::string> seen;
  std::vector<Written> list =
      Writer(plan, calibration ? calibration->steps : std::vector<CalibrationStep>{}).run();
  if (rotation.any()) list.insert(list.begin(), spinquant(rotation));
  for (const Written& w : list) {
    // A kind occurs once in a group: a second one opens another group.
    if (group.empty() || std::find(seen.begin(), seen.end(), w.kind) != seen.end()) {
      group = group.empty() ? "default" : fmt::format("group_{}", seen.size());
      text += "  " + group + "_modifiers:\n";
    }
    seen.push_back(w.kind);
    text += "    " + w.kind + ":\n";
    for (const auto& [key, value] : w.options.items()) text += "      " + key + ": " + value.dump() + "\n";
  }
  return text;
}

}  // namespace roundel
