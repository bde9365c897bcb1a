// The alphabet of byte-level BPE: each of the 256 bytes is one printable character (GPT-2's bytes_to_unicode).
//
//   append_byte_level(" a", &out);   // "Ġa"
#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace roundel {

void append_byte_level(std::string_view bytes, std::string* out);
// The bytes that a token of this alphabet stands for; nothing when a character is not of the alphabet.
std::optional<std::string> bytes_of_byte_level(std::string_view token);

}  // namespace roundel
