#include "quantize/recipe_plan.h"

#include <algorithm>

#include "scheme/target.h"

namespace roundel {
namespace {

TargetSet target_set(const std::vector<std::string>& texts, const std::string& where) {
  TargetSet set;
  for (const std::string& text : texts) set.add(text, where);
  return set;
}

class Planner {
 public:
  Planner(const ModelFiles& files, const Recipe& recipe) : files_(files), recipe_(recipe) {}

  RecipePlan run() {
    plan_schemes();
    for (const Modifier& m : recipe_.modifiers) {
      if (m.smooth) out_.steps.push_back(*m.smooth);
      if (m.quantize) add_quantizer(m);
      if (!m.smooth && (!m.quantize || std::holds_alternative<RtnStep>(*m.quantize))) continue;
      if (out_.needs_calibration.empty()) out_.needs_calibration = m.where;
    }
    for (PlanEntry& entry : out_.result.plan.entries) fill_observer(entry);
    if (out_.result.plan.kv_cache) need("a scheme for the key/value cache");
    check_duo_scaling();
    return std::move(out_);
  }

 private:
  void plan_schemes() {
    std::vector<PlanResult> plans;
    std::vector<std::string> names;
    const auto count = std::count_if(recipe_.modifiers.begin(), recipe_.modifiers.end(),
                                     [](const Modifier& m) { return m.request.has_value(); });
    for (const Modifier& m : recipe_.modifiers) {
      if (!m.request) continue;
      PlanRequest request = *m.request;
      request.partial = count > 1;
      plans.push_back(plan_model(files_, request));
      names.push_back(m.where);
    }
    if (plans.size() == 1)
      out_.result = std::move(plans.front());
    else
      out_.result = merge_plans(plans, names);
    for (PlanResult& plan : plans) parts_.push_back(std::move(plan.plan));
    single_ = count == 1;
  }

  void add_quantizer(const Modifier& m) {
    CalibrationStep step = *m.quantize;
    if (m.request) {
      current_ = single_ ? modules_of(out_.result.plan) : modules_of(parts_[next_part_++]);
      if (current_.empty()) {
        if (!m.request->kv_cache)
          out_.result.problems.add(m.where, "it quantizes no module: all are ignored or without a scheme");
        return;
      }
    }
    std::visit([&](auto& s) { name_modules(s, m); }, step);
    out_.steps.push_back(std::move(step));
  }

  static std::vector<const PlanEntry*> modules_of(const Plan& plan) {
    std::vector<const PlanEntry*> list;
    for (const PlanEntry& e : plan.entries)
      if (e.scheme.weights) list.push_back(&e);
    return list;
  }

  void name_modules(SmoothQuantStep&, const Modifier&) {}
  void name_modules(AwqStep&, const Modifier&) {}
  template <class Step>
  void name_modules(Step& step, const Modifier& m) {
    if (m.request && single_) return;  // all of the plan
    TargetSet targets = target_set(step.targets, m.where), ignore = target_set(step.ignore, m.where);
    std::vector<std::string> names;
    for (const PlanEntry* e : current_) {
      const bool wanted =
          step.targets.empty() || !targets.match(e->module.name, e->module.class_name).empty();
      if (wanted && ignore.match(e->module.name, e->module.class_name).empty())
        names.push_back(e->module.name);
    }
    if (names.empty() && !m.request)
      out_.result.problems.add(m.where,
                               "its targets match none of the modules that the modifier before it quantizes");
    step.targets = std::move(names);
    step.ignore.clear();
    take_actorder(step);
  }

  template <class Step>
  void take_actorder(Step& step) {
    if constexpr (std::is_same_v<Step, GptqStep>) {
      if (!step.actorder) return;
      for (const std::string& name : step.targets) entry_of(name).scheme.weights->actorder = *step.actorder;
      step.actorder.reset();
    }
  }

  PlanEntry& entry_of(const std::string& module) {
    Plan& plan = out_.result.plan;
    return plan.entries[plan.index.at(module)];
  }

  void need(const std::string& what) {
    if (out_.needs_calibration.empty()) out_.needs_calibration = recipe_.name + ": " + what;
  }

  void fill_observer(PlanEntry& entry) {
    if (!entry.scheme.weights) return;
    bool any = false;
    for (auto* args : {&entry.scheme.input, &entry.scheme.output}) {
      if (!*args || (*args)->dynamic != DynamicMode::kStatic) continue;
      if ((*args)->observer.empty()) (*args)->observer = "minmax";
      any = true;
    }
    if (any)
      need(fmt::format("the static activations of {} ({})", entry.module.name, describe(entry.scheme)));
  }

  void check_duo_scaling() {
    for (const CalibrationStep& step : out_.steps) {
      const AwqStep* awq = std::get_if<AwqStep>(&step);
      if (!awq || awq->duo_scaling == DuoScaling::kOff) continue;
      std::vector<std::string> balance;
      for (const SmoothMapping& m : awq->mappings)
        balance.insert(balance.end(), m.balance.begin(), m.balance.end());
      TargetSet readers = target_set(balance, recipe_.name);
      for (const PlanEntry& e : out_.result.plan.entries) {
        if (!e.scheme.weights || e.scheme.weights->strategy != Strategy::kTensor) continue;
        if (!balance.empty() && readers.match(e.module.name, e.module.class_name).empty()) continue;
        out_.result.problems.add(
            e.module.name,
            "AWQ's duo_scaling needs scales per channel or group, and this weight has one per "
            "tensor; a recipe can say duo_scaling: false");
        return;
      }
    }
  }

  const ModelFiles& files_;
  const Recipe& recipe_;
  RecipePlan out_;
  std::vector<Plan> parts_;  // of each modifier that brings schemes, when there are several
  size_t next_part_ = 0;
  bool single_ = false;
  std::vector<const PlanEntry*> current_;  // modules of the quantizing modifier read last
};

}  // namespace

RecipePlan plan_recipe(const ModelFiles& files, const Recipe& recipe) {
  return Planner(files, recipe).run();
}

}  // namespace roundel
