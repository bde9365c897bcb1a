#include "checkpoint/quoted.h"

#include <fmt/format.h>

namespace roundel {

std::string shortened(std::string_view text) {
  constexpr size_t kMax = 160;
  const bool cut = text.size() > kMax;
  if (cut) {
    size_t end = kMax;
    while (end > kMax - 4 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80)
      --end;  // whole characters
    text = text.substr(0, end);
  }
  std::string out;
  out.reserve(text.size() + 3);
  for (const char c : text) {
    const auto u = static_cast<unsigned char>(c);
    if (u < 32 || u == 127) {
      out += fmt::format("\\x{:02x}", u);
    } else {
      out += c;
    }
  }
  if (cut) out += "...";
  return out;
}

std::string in_quotes(std::string_view text) {
  return fmt::format("\"{}\"", shortened(text));
}

}  // namespace roundel
