#include "text/jinja/literals.h"

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "text/jinja/python_text.h"

namespace roundel::jinja {
namespace {

class Unescaper {
 public:
  explicit Unescaper(std::string_view text) : text_(text) {}

  std::string run() {
    while (at_ < text_.size()) {
      if (text_[at_] != '\\' || at_ + 1 == text_.size()) {
        out_ += text_[at_++];
        continue;
      }
      char letter = text_[at_ + 1];
      at_ += 2;
      escape(letter);
    }
    return std::move(out_);
  }

 private:
  void escape(char letter) {
    constexpr std::string_view kLetters = "\\'\"abfnrtv", kMeanings = "\\'\"\a\b\f\n\r\t\v";
    if (size_t at = kLetters.find(letter); at != kLetters.npos) {
      out_ += kMeanings[at];
      return;
    }
    switch (letter) {
      case '\n':
        return;  // a line that goes on
      case 'x':
        return append_character(out_, hex(2));
      case 'u':
        return append_character(out_, checked(hex(4)));
      case 'U':
        return append_character(out_, checked(hex(8)));
      case 'N':
        fail(ErrorCode::kUnsupported, "characters by name (\\N) are not supported, write the character");
      default:
        break;
    }
    if (letter >= '0' && letter <= '7') return octal(letter);
    if (static_cast<unsigned char>(letter) < 0x80) {
      out_ += '\\';
      out_ += letter;
      return;
    }
    // Jinja turns other letters into an escape first, whose backslash the one before takes away
    --at_;
    char32_t c = take_character(text_, at_);
    out_ += c < 0x100     ? fmt::format("\\x{:02x}", static_cast<uint32_t>(c))
            : c < 0x10000 ? fmt::format("\\u{:04x}", static_cast<uint32_t>(c))
                          : fmt::format("\\U{:08x}", static_cast<uint32_t>(c));
  }

  void octal(char first) {
    uint32_t value = static_cast<uint32_t>(first - '0');
    for (int i = 0; i < 2 && at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '7'; ++i)
      value = value * 8 + static_cast<uint32_t>(text_[at_++] - '0');
    append_character(out_, value);
  }

  char32_t hex(size_t digits) {
    uint32_t value = 0;
    std::string_view part = text_.substr(std::min(at_, text_.size()), digits);
    auto [end, code] = std::from_chars(part.data(), part.data() + part.size(), value, 16);
    if (part.size() != digits || end != part.data() + digits || code != std::errc())
      fail(ErrorCode::kInvalid, "incomplete escape \"\\{}{}\" in a string", text_[at_ - 1], part);
    at_ += digits;
    return value;
  }

  static char32_t checked(char32_t c) {
    if (c > 0x10FFFF || (c >= 0xD800 && c < 0xE000))
      fail(ErrorCode::kInvalid, "the escape of {:#x} in a string is no character", static_cast<uint32_t>(c));
    return c;
  }

  std::string_view text_;
  size_t at_ = 0;
  std::string out_;
};

}  // namespace

std::string unescaped(std::string_view text) {
  return Unescaper(text).run();
}

}  // namespace roundel::jinja
