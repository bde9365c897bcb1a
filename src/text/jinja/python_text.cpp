#include "text/jinja/python_text.h"

#include <string.h>
#include <utf8proc.h>

#include <algorithm>

namespace roundel::jinja {
namespace {

bool is_continuation(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0) == 0x80;
}

// The code point that ends before byte `end`, which moves to its start.
char32_t take_character_back(std::string_view text, size_t& end) {
  size_t start = end - 1;
  while (start > 0 && end - start < 4 && is_continuation(text[start])) --start;
  size_t at = start;
  char32_t character = take_character(text, at);
  if (at != end) {  // not one whole character: the last byte alone
    end -= 1;
    return 0xFFFD;
  }
  end = start;
  return character;
}

template <class Test>
std::string_view strip_if(std::string_view text, Side side, Test test) {
  size_t begin = 0, end = text.size();
  if (side != Side::kRight) {
    while (begin < end) {
      size_t next = begin;
      if (!test(take_character(text, next))) break;
      begin = next;
    }
  }
  if (side != Side::kLeft) {
    while (end > begin) {
      size_t before = end;
      if (!test(take_character_back(text, before))) break;
      end = before;
    }
  }
  return text.substr(begin, std::max(begin, end) - begin);
}

bool is_line_end(char32_t c) {
  return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

}  // namespace

size_t count_characters(std::string_view text) {
  size_t count = 0;
  for (char byte : text) count += !is_continuation(byte);
  return count;
}

char32_t take_character(std::string_view text, size_t& at) {
  auto byte = static_cast<unsigned char>(text[at]);
  if (byte < 0x80) {
    ++at;
    return byte;
  }
  utf8proc_int32_t character = 0;
  auto length = utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data() + at),
                                 static_cast<utf8proc_ssize_t>(text.size() - at), &character);
  if (length <= 0) {
    ++at;
    return 0xFFFD;
  }
  at += static_cast<size_t>(length);
  return static_cast<char32_t>(character);
}

void append_character(std::string& text, char32_t character) {
  utf8proc_uint8_t bytes[4];
  auto length = utf8proc_encode_char(static_cast<utf8proc_int32_t>(character), bytes);
  text.append(reinterpret_cast<const char*>(bytes), static_cast<size_t>(length));
}

size_t byte_of(std::string_view text, size_t characters, size_t index) {
  if (index >= characters) return text.size();
  if (characters == text.size()) return index;
  size_t at = 0, seen = 0;
  for (; at < text.size(); ++at)
    if (!is_continuation(text[at]) && seen++ == index) break;
  return at;
}

bool is_space(char32_t c) {
  if (c < 0x80) return (c >= 9 && c <= 13) || (c >= 28 && c <= 32);
  return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 ||
         c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

std::string_view strip(std::string_view text, Side side) {
  return strip_if(text, side, is_space);
}

std::string_view strip(std::string_view text, Side side, std::string_view characters) {
  std::u32string set;
  for (size_t at = 0; at < characters.size();) set += take_character(characters, at);
  std::sort(set.begin(), set.end());
  return strip_if(text, side, [&](char32_t c) { return std::binary_search(set.begin(), set.end(), c); });
}

size_t find_text(std::string_view text, std::string_view part, size_t from) {
  if (from > text.size()) return std::string_view::npos;
  if (part.empty()) return from;
  // memmem is linear whatever the texts are, string_view::find is not
  const void* hit = memmem(text.data() + from, text.size() - from, part.data(), part.size());
  return hit ? static_cast<size_t>(static_cast<const char*>(hit) - text.data()) : std::string_view::npos;
}

size_t find_last_text(std::string_view text, std::string_view part) {
  if (part.size() > text.size()) return std::string_view::npos;
  std::string mirrored(text.rbegin(), text.rend()), wanted(part.rbegin(), part.rend());
  size_t hit = find_text(mirrored, wanted);
  return hit == std::string_view::npos ? hit : text.size() - hit - part.size();
}

size_t count_text(std::string_view text, std::string_view part) {
  if (part.empty()) return count_characters(text) + 1;
  size_t count = 0;
  for (size_t at = 0; (at = find_text(text, part, at)) != std::string_view::npos; at += part.size()) ++count;
  return count;
}

std::string replace_text(std::string_view text, std::string_view part, std::string_view by, size_t limit) {
  std::string out;
  size_t at = 0;
  if (part.empty()) {
    for (size_t done = 0; done < limit; ++done) {
      out += by;
      if (at == text.size()) break;
      size_t next = at;
      take_character(text, next);
      out += text.substr(at, next - at);
      at = next;
    }
    return out.append(text.substr(at));
  }
  for (size_t done = 0; done < limit; ++done) {
    size_t hit = find_text(text, part, at);
    if (hit == std::string_view::npos) break;
    out += text.substr(at, hit - at);
    out += by;
    at = hit + part.size();
  }
  return out.append(text.substr(at));
}

std::vector<std::string_view> split_text(std::string_view text, std::string_view separator, size_t limit,
                                         bool from_right) {
  std::vector<std::string_view> parts;
  if (!from_right) {
    size_t at = 0, hit = 0;
    while (parts.size() < limit && (hit = find_text(text, separator, at)) != std::string_view::npos) {
      parts.push_back(text.substr(at, hit - at));
      at = hit + separator.size();
    }
    parts.push_back(text.substr(at));
    return parts;
  }
  std::string mirrored(text.rbegin(), text.rend()), wanted(separator.rbegin(), separator.rend());
  size_t at = 0, hit = 0;  // in the mirrored text
  while (parts.size() < limit && (hit = find_text(mirrored, wanted, at)) != std::string_view::npos) {
    parts.push_back(text.substr(text.size() - hit, hit - at));
    at = hit + separator.size();
  }
  parts.push_back(text.substr(0, text.size() - at));
  std::reverse(parts.begin(), parts.end());
  return parts;
}

std::vector<std::string_view> split_space(std::string_view text, size_t limit, bool from_right) {
  std::vector<std::string_view> parts;
  std::string_view rest = strip(text, from_right ? Side::kRight : Side::kLeft);
  while (!rest.empty()) {
    if (parts.size() == limit) {  // what is left stays one part
      parts.push_back(rest);
      break;
    }
    size_t cut = from_right ? rest.size() : 0;
    while (from_right ? cut > 0 : cut < rest.size()) {
      size_t next = cut;
      if (is_space(from_right ? take_character_back(rest, next) : take_character(rest, next))) break;
      cut = next;
    }
    parts.push_back(from_right ? rest.substr(cut) : rest.substr(0, cut));
    rest = from_right ? strip(rest.substr(0, cut), Side::kRight) : strip(rest.substr(cut), Side::kLeft);
  }
  if (from_right) std::reverse(parts.begin(), parts.end());
  return parts;
}

std::vector<std::string_view> split_lines(std::string_view text, bool keep_ends) {
  std::vector<std::string_view> lines;
  size_t start = 0;
  for (size_t at = 0; at < text.size();) {
    size_t end = at;
    char32_t character = take_character(text, at);
    if (!is_line_end(character)) continue;
    if (character == '\r' && at < text.size() && text[at] == '\n') ++at;
    lines.push_back(text.substr(start, (keep_ends ? at : end) - start));
    start = at;
  }
  if (start < text.size()) lines.push_back(text.substr(start));
  return lines;
}

std::string reversed_text(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t end = text.size(); end > 0;) {
    size_t before = end;
    take_character_back(text, before);
    out += text.substr(before, end - before);
    end = before;
  }
  return out;
}

std::string escaped_html(std::string_view text) {
  std::string out;
  for (char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '\'':
        out += "&#39;";
        break;
      case '"':
        out += "&#34;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

}  // namespace roundel::jinja
