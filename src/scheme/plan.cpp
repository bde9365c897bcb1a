#include "scheme/plan.h"

#include <algorithm>

#include "scheme/plan_checks.h"
#include "scheme/target.h"

namespace roundel {
namespace {

// The targets of all groups with the group each belongs to.
struct GroupTargets {
  TargetSet set;
  std::vector<size_t> group_of;
};

std::string group_label(const SchemeGroup& group) {
  return group.name.empty() ? fmt::format("\"{}\"", fmt::join(group.targets, "\", \"")) : group.name;
}

void add_target(const std::string& text, const std::string& where, TargetSet* set, Problems* problems) {
  try {
    set->add(text, where);
  } catch (const Error& e) {
    if (e.code() != ErrorCode::kInvalid) throw;
    problems->add(where, e.what());
    set->add("", where);  // keeps the numbering; matches nothing
  }
}

GroupTargets collect_targets(const PlanRequest& request, PlanResult* result) {
  GroupTargets targets;
  std::map<std::string, size_t> first_group;
  for (size_t g = 0; g < request.groups.size(); ++g) {
    const SchemeGroup& group = request.groups[g];
    if (std::string problem = check_scheme(group.scheme, request.origin); !problem.empty())
      result->problems.add(request.where, group_label(group) + problem);
    for (const std::string& text : group.targets) {
      add_target(text, request.where, &targets.set, &result->problems);
      targets.group_of.push_back(g);
      const auto [it, is_new] = first_group.try_emplace(text, g);
      if (is_new || it->second == g || request.groups[it->second].scheme == group.scheme) continue;
      result->warnings.push_back(
          fmt::format("{}: target \"{}\" is in two groups; the later one is used", request.where, text));
    }
  }
  return targets;
}

// Does match `a` win over `b`?
bool stronger(const GroupTargets& targets, PlanOrigin origin, const TargetSet::Match& a,
              const TargetSet::Match& b) {
  if (a.kind != b.kind) return a.kind < b.kind;
  if (origin != PlanOrigin::kCommandLine) {
    const std::string &x = targets.set[a.index].text(), &y = targets.set[b.index].text();
    if (x != y) return x < y;
  }
  return a.index > b.index;
}

const TargetSet::Match* best_match(const GroupTargets& targets, PlanOrigin origin, const ModuleInfo& module,
                                   const std::vector<TargetSet::Match>& matches) {
  const TargetSet::Match* best = nullptr;
  for (const TargetSet::Match& match : matches) {
    const bool parent_class =
        match.kind == TargetKind::kClass && targets.set[match.index].text() != module.class_name;
    if (parent_class && module.class_name == "Embedding" && origin != PlanOrigin::kStored) continue;
    if (!best || stronger(targets, origin, match, *best)) best = &match;
  }
  return best;
}

PlanEntry decide(const ModuleInfo& module, const PlanRequest& request, GroupTargets* targets,
                 TargetSet* ignore) {
  PlanEntry entry{.module = module};
  const auto& matches = targets->set.match(module.name, module.class_name);
  const auto& ignored_by = ignore->match(module.name, module.class_name);
  if (!ignored_by.empty()) {
    entry.ignored = true;
    entry.note = "ignored by " + (*ignore)[ignored_by.front().index].text();
    return entry;
  }
  const TargetSet::Match* best = best_match(*targets, request.origin, module, matches);
  if (!best) {
    entry.note = "no target";
    return entry;
  }
  entry.scheme = request.groups[targets->group_of[best->index]].scheme;
  if (!entry.scheme.weights) {
    entry.note = "left as it is by " + targets->set[best->index].text();
  } else if (entry.scheme.format.empty()) {
    entry.scheme.format = infer_format(entry.scheme, module.class_name);
  }
  return entry;
}

// Tied embeddings: there is no lm_head to ignore, and everybody's config still says so.
bool may_be_absent(const std::string& text) {
  return text == "lm_head";
}

void report_unmatched(const std::vector<ModuleInfo>& modules, const PlanRequest& request,
                      const GroupTargets& targets, const TargetSet& ignore, PlanResult* result) {
  auto report = [&](const char* what, const Target& target, bool is_problem) {
    const std::string text =
        fmt::format("{} \"{}\" matches no module{}", what, target.text(), suggest_target(target, modules));
    if (is_problem) {
      result->problems.add(request.where, text);
    } else {
      result->warnings.push_back(request.where + ": " + text);
    }
  };
  for (size_t i = 0; i < targets.set.size(); ++i)
    if (!targets.set.ever_matched(i) && !targets.set[i].text().empty())
      report("target", targets.set[i], request.origin != PlanOrigin::kStored);
  for (size_t i = 0; i < request.ignore.size(); ++i)
    if (!ignore.ever_matched(i) && !ignore[i].text().empty() && !may_be_absent(ignore[i].text()))
      report("ignore", ignore[i], request.origin == PlanOrigin::kCommandLine);
}

}  // namespace

const PlanEntry* Plan::find(const std::string& module) const {
  auto it = index.find(module);
  return it == index.end() ? nullptr : &entries[it->second];
}

bool Plan::any_quantized() const {
  return std::any_of(entries.begin(), entries.end(),
                     [](const PlanEntry& e) { return e.scheme.weights.has_value(); });
}

int64_t use_int8_activations(Plan& plan) {
  const QuantArgs int8{.num_bits = 8, .strategy = Strategy::kToken, .dynamic = DynamicMode::kDynamic};
  int64_t changed = 0;
  for (PlanEntry& e : plan.entries) {
    const auto& weights = e.scheme.weights;
    if (e.module.class_name == "Embedding" || !weights || e.scheme.input) continue;
    if (weights->type != NumberType::kInt) continue;
    e.scheme.input = int8;
    e.note += (e.note.empty() ? "" : "; ") + std::string("activations in int8, as asked");
    ++changed;
  }
  return changed;
}

std::string describe(const PlanEntry& entry) {
  return entry.scheme.weights ? describe(entry.scheme) : std::string(dtype_name(entry.module.dtype));
}

PlanResult make_plan(const std::vector<ModuleInfo>& modules, const PlanRequest& request) {
  PlanResult result;
  GroupTargets targets = collect_targets(request, &result);
  TargetSet ignore;
  for (const std::string& text : request.ignore) add_target(text, request.where, &ignore, &result.problems);
  for (const std::string& text : request.default_ignore)
    add_target(text, request.where, &ignore, &result.problems);
  result.plan.kv_cache = request.kv_cache;
  for (const ModuleInfo& module : modules) {
    result.plan.index[module.name] = result.plan.entries.size();
    result.plan.entries.push_back(decide(module, request, &targets, &ignore));
  }
  report_unmatched(modules, request, targets, ignore, &result);
  check_modules(request, &result);
  check_divisibility(request, &result);
  if (!request.partial) check_fused(&result);
  return result;
}

}  // namespace roundel
