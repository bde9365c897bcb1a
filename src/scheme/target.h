// Targets of compressed-tensors: a module name, a class, or "re:" + a pattern anchored at the start (Python's
// re.match).
//
//   Target target("re:.*mlp\\.down_proj$", "--rule");
//   if (target.match("model.layers.0.mlp.down_proj", "Linear") == TargetKind::kPattern) ...
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/regex.h"

namespace roundel {

enum class TargetKind { kName = 0, kPattern = 1, kClass = 2 };  // in order of precedence

class Target {
 public:
  // `origin` names the source for messages ("--ignore", "recipe.yaml: ignore"). Throws Error(kInvalid) on a
  // bad pattern.
  Target(const std::string& text, const std::string& origin);
  // How the target matches the module, if it does: its exact name, its name by pattern, its class ("Linear",
  // or the parent of all classes, "Module"; case counts). Throws Error(kLimit) when a pattern takes too many
  // steps.
  std::optional<TargetKind> match(std::string_view module, std::string_view class_name) const;
  const std::string& text() const { return text_; }
  bool is_pattern() const { return pattern_.has_value(); }

 private:
  std::string text_, origin_;
  std::optional<Regex> pattern_;
};

// Many targets at once: names and classes by hash, patterns one after the other.
class TargetSet {
 public:
  struct Match {
    size_t index;  // in order of add()
    TargetKind kind;
  };

  void add(const std::string& text, const std::string& origin);
  size_t size() const { return targets_.size(); }
  const Target& operator[](size_t index) const { return targets_[index]; }
  // All matches, in no particular order. Remembers which targets ever matched.
  const std::vector<Match>& match(std::string_view module, std::string_view class_name);
  bool ever_matched(size_t index) const { return matched_[index]; }

 private:
  std::vector<Target> targets_;
  std::vector<bool> matched_;
  std::vector<size_t> patterns_;
  std::unordered_map<std::string, std::vector<size_t>> plain_;
  std::vector<Match> found_;
};

}  // namespace roundel
