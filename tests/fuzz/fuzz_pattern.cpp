// A target on a module name: the first line is the target, the second the name, the third the class.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"
#include "scheme/target.h"

namespace {

std::string next_line(std::string_view* rest) {
  const size_t end = rest->find('\n');
  std::string line(rest->substr(0, end));
  rest->remove_prefix(end == std::string_view::npos ? rest->size() : end + 1);
  return line;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  const std::string text = next_line(&rest), module = next_line(&rest), class_name = next_line(&rest);
  try {
    const roundel::Target target(text, "fuzz");
    const auto one = target.match(module, class_name);
    roundel::TargetSet set;
    set.add(text, "fuzz");
    const auto& all = set.match(module, class_name);
    if (one.has_value() != !all.empty() || (one && *one != all.front().kind)) __builtin_trap();
  } catch (const roundel::Error&) {
  }
  return 0;
}
