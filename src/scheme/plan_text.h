// A request for a plan as people write it: scheme names and TARGET=SCHEME rules, of the command line or of the library.
//
//   PlanRequest request = parse_plan_text({.scheme = "W4A16:g64", .rules = {"re:.*down_proj=W8A16"}});
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "scheme/plan.h"

namespace roundel {

struct PlanText {
  std::string scheme;      // of all linear layers; "": the rules say all
  int64_t group_size = 0;  // of schemes with groups that name none; -1: one scale a row; 0: the scheme's own
  std::vector<std::string> rules;  // TARGET=SCHEME
  std::vector<std::string> ignore;
  bool no_default_ignore = false;  // do not leave lm_head out
  std::string on_indivisible = "error";

  bool any() const { return !scheme.empty() || !rules.empty(); }
};

// How messages call the fields.
struct PlanTextNames {
  std::string scheme = "scheme", rule = "rule", group_size = "group_size", recipe = "recipe";
};

// Throws Error(kUsage) when nothing says what to do, a rule is not TARGET=SCHEME, or no scheme has use for the group size;
// Error(kInvalid) for words and numbers that mean nothing; Error(kUnsupported) for schemes that need calibration data where
// there is none.
PlanRequest parse_plan_text(const PlanText& text, const PlanTextNames& names = {},
                            bool can_calibrate = false);
OnIndivisible parse_on_indivisible(const std::string& text);

}  // namespace roundel
