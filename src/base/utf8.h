// UTF-8: checking, repairing, walking.
//
//   std::string text = replace_invalid_utf8(bytes);            // what is not UTF-8 becomes U+FFFD
//   for (size_t at = 0; at < text.size();) use(next_code_point(text, &at));
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace roundel {

inline constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

// How the bytes at `from` begin: > 0 the length of a valid character; 0 a valid but unfinished one; < 0 minus the length
// of what one U+FFFD stands for (the longest part that could have begun a character, as Unicode section 3.9 advises).
int classify_utf8(std::string_view bytes, size_t from);
bool is_valid_utf8(std::string_view bytes);
std::string replace_invalid_utf8(std::string_view bytes);

// Bytes of the character that begins with this byte of valid UTF-8.
inline size_t utf8_length(char lead) {
  const auto b = static_cast<unsigned char>(lead);
  return b < 0x80 ? 1 : b < 0xE0 ? 2 : b < 0xF0 ? 3 : 4;
}
// Reads the character at *at of valid UTF-8 and moves *at behind it.
char32_t next_code_point(std::string_view text, size_t* at);
// Where the character that ends before `end` (> 0) begins.
size_t previous_character(std::string_view text, size_t end);
void append_utf8(std::string* out, char32_t c);

// Repairs a text that comes in parts: an unfinished character waits for its other bytes.
class Utf8Repair {
 public:
  void push(std::string_view bytes, std::string* out);
  void finish(std::string* out);

 private:
  std::string waiting_;
};

}  // namespace roundel
