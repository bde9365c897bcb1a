#include "text/byte_level.h"

#include <array>

#include "base/utf8.h"

namespace roundel {
namespace {

constexpr char32_t kLastCharacter = 0x143;

constexpr bool stands_for_itself(int b) {
  return (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || (b >= 0xAE && b <= 0xFF);
}

// Bytes without a printable character of their own take the characters from U+0100 on, in order.
constexpr std::array<char32_t, 256> make_characters() {
  std::array<char32_t, 256> characters{};
  char32_t next = 0x100;
  for (int b = 0; b < 256; ++b)
    characters[static_cast<size_t>(b)] = stands_for_itself(b) ? static_cast<char32_t>(b) : next++;
  return characters;
}
constexpr auto kCharacters = make_characters();

constexpr std::array<int, kLastCharacter + 1> make_bytes() {
  std::array<int, kLastCharacter + 1> bytes{};
  for (int& b : bytes) b = -1;
  for (size_t b = 0; b < 256; ++b) bytes[kCharacters[b]] = static_cast<int>(b);
  return bytes;
}
constexpr auto kBytes = make_bytes();

}  // namespace

void append_byte_level(std::string_view bytes, std::string* out) {
  for (const char b : bytes) append_utf8(out, kCharacters[static_cast<unsigned char>(b)]);
}

std::optional<std::string> bytes_of_byte_level(std::string_view token) {
  std::string bytes;
  bytes.reserve(token.size());
  for (size_t at = 0; at < token.size();) {
    const char32_t c = next_code_point(token, &at);
    if (c > kLastCharacter || kBytes[c] < 0) return std::nullopt;
    bytes += static_cast<char>(kBytes[c]);
  }
  return bytes;
}

}  // namespace roundel
