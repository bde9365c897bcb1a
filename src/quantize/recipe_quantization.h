// The keys that every modifier of llm-compressor which quantizes shares: scheme or config_groups, targets, ignore,
// observers, kv_cache_scheme, bypass_divisibility_checks (docs/format.md, 9).
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "quantize/recipe_node.h"
#include "scheme/plan.h"

namespace roundel {

const std::vector<std::string>& quantization_keys();

// Nothing when the modifier names neither a scheme nor groups nor a kv_cache_scheme. Targets and ignore are then the
// caller's to read. Observers are filled in; the names of observers that weights or static activations cannot have are
// errors, as are unknown keys at any depth.
std::optional<PlanRequest> read_quantization(const RecipeNode& node);

// The observer of weights or of static activations by llm-compressor's name (case and - or _ do not matter).
// Error(kInvalid) for an unknown name, Error(kUnsupported) for one that is known and not there; `where` is for messages.
std::string checked_observer(const std::string& observer, ArgsRole role, const std::string& where);

}  // namespace roundel
