#include "scheme/plan_text.h"

#include "base/error.h"
#include "base/nearest.h"
#include "scheme/scheme_text.h"

namespace roundel {
namespace {

Scheme scheme_for(const std::string& text, int64_t group_size, bool can_calibrate, const std::string& where,
                  bool* grouped) {
  SchemeText parsed = parse_scheme_text(text, where);
  if (parsed.needs_calibration && !can_calibrate)
    fail(ErrorCode::kUnsupported,
         "{}: {} has static activation scales, which are measured by `roundel quantize --calib FILE` and not "
         "while a model is loaded; FP8_DYNAMIC and W8A8 need none",
         where, text);
  auto& w = parsed.scheme.weights;
  if (w && w->strategy == Strategy::kGroup) {
    *grouped = true;
    if (group_size > 0 && !parsed.explicit_group) w->group_size = group_size;
    if (group_size == -1 && !parsed.explicit_group) {
      w->strategy = Strategy::kChannel;
      w->group_size = 0;
    }
  }
  return parsed.scheme;
}

}  // namespace

OnIndivisible parse_on_indivisible(const std::string& text) {
  if (text == "error") return OnIndivisible::kError;
  if (text == "skip") return OnIndivisible::kSkip;
  if (text == "pad") return OnIndivisible::kPad;
  if (text == "channel") return OnIndivisible::kChannel;
  fail(ErrorCode::kInvalid, "on_indivisible is \"{}\", expected error, skip, pad or channel{}", text,
       did_you_mean(text, {"error", "skip", "pad", "channel"}));
}

PlanRequest parse_plan_text(const PlanText& text, const PlanTextNames& names, bool can_calibrate) {
  constexpr int64_t kLargestGroup = 1 << 20;
  if (text.group_size < -1 || text.group_size > kLargestGroup)
    fail(ErrorCode::kInvalid, "{} is {}, expected -1 to {}", names.group_size, text.group_size,
         kLargestGroup);
  PlanRequest request;
  bool grouped = false;
  if (!text.scheme.empty())
    request.groups.push_back(
        {"", {"Linear"}, scheme_for(text.scheme, text.group_size, can_calibrate, names.scheme, &grouped)});
  for (const std::string& rule : text.rules) {
    const size_t equals = rule.rfind('=');  // a pattern may hold one itself
    if (equals == std::string::npos || equals == 0 || equals + 1 == rule.size())
      fail(ErrorCode::kUsage, "{} \"{}\": expected TARGET=SCHEME, such as 're:.*down_proj=W8A16'", names.rule,
           rule);
    const std::string where = names.rule + " " + rule.substr(0, equals);
    request.groups.push_back(
        {"",
         {rule.substr(0, equals)},
         scheme_for(rule.substr(equals + 1), text.group_size, can_calibrate, where, &grouped)});
  }
  if (request.groups.empty())
    fail(ErrorCode::kUsage, "say what to do: {} NAME, or {} TARGET=SCHEME", names.scheme, names.rule);
  if (text.group_size != 0 && !grouped)
    fail(ErrorCode::kUsage,
         "{} {}: no scheme here has groups ({} has one scale for each row, block or tensor)",
         names.group_size, text.group_size, text.scheme.empty() ? text.rules.front() : text.scheme);
  request.ignore = text.ignore;
  if (!text.no_default_ignore) request.default_ignore = {"lm_head"};
  request.on_indivisible = parse_on_indivisible(text.on_indivisible);
  return request;
}

}  // namespace roundel
