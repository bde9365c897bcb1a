#include "scheme/target.h"

#include "base/error.h"

namespace roundel {
namespace {

constexpr std::string_view kPatternPrefix = "re:";
constexpr std::string_view kRootClass = "Module";
constexpr size_t kMaxPatterns = 10000;

}  // namespace

Target::Target(const std::string& text, const std::string& origin) : text_(text), origin_(origin) {
  if (text.starts_with(kPatternPrefix))
    pattern_.emplace(std::string_view(text).substr(kPatternPrefix.size()), Regex::kAnchored, origin);
}

std::optional<TargetKind> Target::match(std::string_view module, std::string_view class_name) const {
  if (!pattern_) {
    if (module == text_) return TargetKind::kName;
    if (class_name == text_ || kRootClass == text_) return TargetKind::kClass;
    return std::nullopt;
  }
  try {
    if (pattern_->matches(module)) return TargetKind::kPattern;
  } catch (Error& e) {
    e.add_context(origin_);
    throw;
  }
  return std::nullopt;
}

void TargetSet::add(const std::string& text, const std::string& origin) {
  targets_.emplace_back(text, origin);
  matched_.push_back(false);
  const size_t index = targets_.size() - 1;
  if (!targets_.back().is_pattern()) {
    plain_[text].push_back(index);
    return;
  }
  patterns_.push_back(index);
  if (patterns_.size() > kMaxPatterns)
    fail(ErrorCode::kLimit, "{}: more than {} patterns; name classes or modules instead", origin,
         kMaxPatterns);
}

const std::vector<TargetSet::Match>& TargetSet::match(std::string_view module, std::string_view class_name) {
  found_.clear();
  auto look_up = [&](std::string_view text, TargetKind kind) {
    auto it = plain_.find(std::string(text));
    if (it == plain_.end()) return;
    for (size_t index : it->second) found_.push_back({index, kind});
  };
  look_up(module, TargetKind::kName);
  if (class_name != module) look_up(class_name, TargetKind::kClass);
  if (kRootClass != module && kRootClass != class_name) look_up(kRootClass, TargetKind::kClass);
  for (size_t index : patterns_)
    if (targets_[index].match(module, class_name)) found_.push_back({index, TargetKind::kPattern});
  for (const Match& match : found_) matched_[match.index] = true;
  return found_;
}

}  // namespace roundel
