// Plan: which scheme every module gets, and why. Made from the modules of a model and a request (flags, a
// recipe, or the quantization_config of a stored checkpoint).
//
//   PlanRequest request{.groups = {{"", {"Linear"}, find_preset("W4A16", "--scheme").scheme}}};
//   PlanResult result = make_plan(modules, request);
//   result.problems.throw_if_any("the plan has problems");
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/error.h"
#include "scheme/quant_args.h"
#include "scheme/storage_format.h"

namespace roundel {

// What an architecture says of one of its weight matrices (model/arch/<name>.cpp).
struct ModuleInfo {
  std::string name;            // "model.layers.0.self_attn.q_proj"
  std::string class_name;      // "Linear" or "Embedding"
  int64_t rows = 0, cols = 0;  // [out, in]
  DType dtype = DType::kBF16;  // of the source weight (of the scales when stored quantized)
  std::string
      fused_name;  // "model.layers.0.self_attn.qkv_proj": modules that engines fuse share it; "" = none
};

struct SchemeGroup {
  std::string name;  // "group_0"; "" = to be numbered
  std::vector<std::string> targets;
  Scheme scheme;
};

enum class PlanOrigin { kCommandLine, kRecipe, kStored };
// What to do where the group size does not divide the columns of a weight: report it; leave the module dense;
// let the last group be shorter (ceil(cols / group) scales a row; compressed-tensors itself does not run such
// a layer); use one scale a row.
enum class OnIndivisible { kError, kSkip, kPad, kChannel };

struct PlanRequest {
  std::vector<SchemeGroup> groups;
  std::vector<std::string> ignore;
  std::vector<std::string> default_ignore;  // like ignore, but no complaint when it matches nothing
  PlanOrigin origin = PlanOrigin::kCommandLine;
  OnIndivisible on_indivisible = OnIndivisible::kError;
  std::string where = "command line";  // for messages
  std::optional<QuantArgs> kv_cache;   // handed on to the plan
  bool partial = false;                // to be merged with others: fused modules may still disagree
};

struct PlanEntry {
  ModuleInfo module;
  Scheme scheme;     // scheme.weights empty = stays dense; otherwise the format is filled in
  std::string note;  // why it is dense, or was changed: "ignored by lm_head"
  bool ignored = false;
};

struct Plan {
  std::vector<PlanEntry> entries;  // in model order
  std::map<std::string, size_t> index;
  std::optional<QuantArgs> kv_cache;
  const PlanEntry* find(const std::string& module) const;
  bool any_quantized() const;
};

struct PlanResult {
  Plan plan;
  Problems problems;                  // errors: indivisible groups, unmatched targets, ...
  std::vector<std::string> warnings;  // fused modules that disagree, unmatched ignores, ...
};

// Precedence: name > pattern > class. Among equals the later group wins on the command line; in a recipe or a
// stored config the rule of compressed-tensors holds: the alphabetically first target, and of groups that
// share a target the later one (docs/format.md, 8). Ignore beats all. Embeddings follow only a name, a pattern or the
// class "Embedding", never "Module", and take weight-only schemes. All findings are collected in the result;
// Error(kLimit) is thrown when a pattern takes too many steps.
PlanResult make_plan(const std::vector<ModuleInfo>& modules, const PlanRequest& request);

// One plan of several for the same modules (of partial requests). A module that two of them quantize is a problem that
// names both by `names`, and so are two different kv_cache.
PlanResult merge_plans(const std::vector<PlanResult>& plans, const std::vector<std::string>& names);

// Gives every linear module with integer weights and activations that are not quantized dynamic int8 activations with one
// scale a token, as W4A8 and W8A8 have; its weights stay what they are. Embeddings stay too. Returns how many modules
// changed.
int64_t use_int8_activations(Plan& plan);

// describe(scheme), or the dtype of a module that stays dense: "BF16".
std::string describe(const PlanEntry& entry);

}  // namespace roundel
