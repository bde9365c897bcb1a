// Targets of compressed-tensors: a module name, a class, or "re:" + a pattern anchored at the start (Python's re.match).
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/regex.h"

namespace roundel {

enum class TargetKind { kName = 0, kPattern = 1, kClass = 2 };  // in order of precedence

class Target {
 public:
  // `origin` names the source for messages ("--ignore", "recipe.yaml: ignore"). Throws Error(kInvalid) on a bad pattern.
  Target(const std::string& text, const std::string& origin);
  // How the target matches the module, if it does: its exact name, its name by pattern, its class ("Linear"; "Module"
  // and "torch.nn.Module"-style parents too).
  std::optional<TargetKind> match(std::string_view module, std::string_view class_name) const;
  const std::string& text() const { return text_; }

 private:
  std::string text_;
  std::optional<Regex> pattern_;
};

}  // namespace roundel
