// The choice from a list: the first kernel that can do the problem, unless ROUNDEL_FORCE_KERNEL names
// another.
#pragma once
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "kernels/list.h"

namespace roundel {

// supports(kernel) -> Support. `what` names the list in the error: "linear", "attention".
template <class Kernel, class Supports>
const Kernel& choose_kernel(std::span<const Kernel* const> list, const char* what, Supports supports,
                            std::vector<Refusal>* refused) {
  const auto find = [&](std::string_view prefix, std::vector<Refusal>* reasons) -> const Kernel* {
    for (const Kernel* kernel : list) {
      if (!std::string_view(kernel->name).starts_with(prefix)) continue;
      const Support support = supports(*kernel);
      if (support.ok) return kernel;
      if (reasons) reasons->push_back({kernel->name, support.reason});
    }
    return nullptr;
  };
  const char* forced = std::getenv("ROUNDEL_FORCE_KERNEL");
  if (forced && *forced) {
    std::vector<Refusal> reasons;
    if (const Kernel* kernel = find(forced, &reasons)) return *kernel;
    std::string text;
    for (const Refusal& r : reasons) text += fmt::format("\n  {}: {}", r.kernel, r.reason);
    if (!reasons.empty()) {
      fail(ErrorCode::kUsage, "ROUNDEL_FORCE_KERNEL={}: that {} kernel cannot do this:{}", forced, what,
           text);
    }
  }
  const Kernel* kernel = find("", refused);
  CHECK(kernel != nullptr);  // the reference is last and takes everything
  return *kernel;
}

}  // namespace roundel
