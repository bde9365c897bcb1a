#include "base/utf8.h"

#include <cstring>

namespace roundel {
namespace {

bool is_continuation(unsigned char b) {
  return (b & 0xC0) == 0x80;
}

// The second byte is limited after some leads: no overlong forms, no surrogates, nothing above U+10FFFF.
bool second_byte_fits(unsigned char lead, unsigned char b) {
  switch (lead) {
    case 0xE0:
      return b >= 0xA0 && b <= 0xBF;
    case 0xED:
      return b >= 0x80 && b <= 0x9F;
    case 0xF0:
      return b >= 0x90 && b <= 0xBF;
    case 0xF4:
      return b >= 0x80 && b <= 0x8F;
    default:
      return is_continuation(b);
  }
}

size_t ascii_run(std::string_view bytes, size_t from) {
  size_t at = from;
  for (; at + 8 <= bytes.size(); at += 8) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, 8);
    if (word & 0x8080808080808080ull) break;
  }
  while (at < bytes.size() && static_cast<unsigned char>(bytes[at]) < 0x80) ++at;
  return at - from;
}

}  // namespace

int classify_utf8(std::string_view bytes, size_t from) {
  const auto lead = static_cast<unsigned char>(bytes[from]);
  if (lead < 0x80) return 1;
  if (lead < 0xC2 || lead > 0xF4) return -1;
  const int length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  for (int i = 1; i < length; ++i) {
    const size_t at = from + static_cast<size_t>(i);
    if (at >= bytes.size()) return 0;
    const auto b = static_cast<unsigned char>(bytes[at]);
    if (i == 1 ? !second_byte_fits(lead, b) : !is_continuation(b)) return -i;
  }
  return length;
}

bool is_valid_utf8(std::string_view bytes) {
  for (size_t at = ascii_run(bytes, 0); at < bytes.size(); at += ascii_run(bytes, at)) {
    const int length = classify_utf8(bytes, at);
    if (length <= 0) return false;
    at += static_cast<size_t>(length);
  }
  return true;
}

std::string replace_invalid_utf8(std::string_view bytes) {
  std::string out;
  Utf8Repair repair;
  repair.push(bytes, &out);
  repair.finish(&out);
  return out;
}

char32_t next_code_point(std::string_view text, size_t* at) {
  const auto* p = reinterpret_cast<const unsigned char*>(text.data()) + *at;
  const size_t length = utf8_length(text[*at]);
  *at += length;
  switch (length) {
    case 1:
      return p[0];
    case 2:
      return (p[0] & 0x1Fu) << 6 | (p[1] & 0x3Fu);
    case 3:
      return (p[0] & 0x0Fu) << 12 | (p[1] & 0x3Fu) << 6 | (p[2] & 0x3Fu);
    default:
      return (p[0] & 0x07u) << 18 | (p[1] & 0x3Fu) << 12 | (p[2] & 0x3Fu) << 6 | (p[3] & 0x3Fu);
  }
}

size_t previous_character(std::string_view text, size_t end) {
  --end;
  while (end > 0 && is_continuation(static_cast<unsigned char>(text[end]))) --end;
  return end;
}

void append_utf8(std::string* out, char32_t c) {
  if (c < 0x80) {
    *out += static_cast<char>(c);
  } else if (c < 0x800) {
    *out += static_cast<char>(0xC0 | c >> 6);
    *out += static_cast<char>(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    *out += static_cast<char>(0xE0 | c >> 12);
    *out += static_cast<char>(0x80 | (c >> 6 & 0x3F));
    *out += static_cast<char>(0x80 | (c & 0x3F));
  } else {
    *out += static_cast<char>(0xF0 | c >> 18);
    *out += static_cast<char>(0x80 | (c >> 12 & 0x3F));
    *out += static_cast<char>(0x80 | (c >> 6 & 0x3F));
    *out += static_cast<char>(0x80 | (c & 0x3F));
  }
}

void Utf8Repair::push(std::string_view bytes, std::string* out) {
  std::string joined;
  if (!waiting_.empty()) {
    joined = std::move(waiting_);
    joined += bytes;
    bytes = joined;
    waiting_.clear();
  }
  for (size_t at = 0; at < bytes.size();) {
    if (const size_t ascii = ascii_run(bytes, at); ascii > 0) {
      *out += bytes.substr(at, ascii);
      at += ascii;
      continue;
    }
    const int length = classify_utf8(bytes, at);
    if (length == 0) {
      waiting_ = bytes.substr(at);
      return;
    }
    if (length > 0) {
      *out += bytes.substr(at, static_cast<size_t>(length));
      at += static_cast<size_t>(length);
    } else {
      *out += kReplacement;
      at += static_cast<size_t>(-length);
    }
  }
}

void Utf8Repair::finish(std::string* out) {
  if (!waiting_.empty()) *out += kReplacement;
  waiting_.clear();
}

}  // namespace roundel
