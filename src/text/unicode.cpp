#include "text/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <span>
#include <vector>

#include "base/error.h"
#include "base/utf8.h"
#include "text/unicode_recent.h"

namespace roundel {
namespace {

struct Range {
  char32_t first;
  char32_t last;
};

// Punctuation that `tokenizers` does not count: its table of categories is older.
constexpr Range kYoungPunctuation[] = {
    {0x61D, 0x61D},     {0x9FD, 0x9FD},     {0xA76, 0xA76},     {0xC77, 0xC77},     {0xC84, 0xC84},
    {0x1B4E, 0x1B4F},   {0x1B7D, 0x1B7F},   {0x2E43, 0x2E4F},   {0x2E52, 0x2E5D},   {0x10D6E, 0x10D6E},
    {0x10EAD, 0x10EAD}, {0x10F55, 0x10F59}, {0x10F86, 0x10F89}, {0x113D4, 0x113D5}, {0x113D7, 0x113D8},
    {0x1144B, 0x1144F}, {0x1145A, 0x1145B}, {0x1145D, 0x1145D}, {0x11660, 0x1166C}, {0x116B9, 0x116B9},
    {0x1183B, 0x1183B}, {0x11944, 0x11946}, {0x119E2, 0x119E2}, {0x11A3F, 0x11A46}, {0x11A9A, 0x11A9C},
    {0x11A9E, 0x11AA2}, {0x11B00, 0x11B09}, {0x11BE1, 0x11BE1}, {0x11C41, 0x11C45}, {0x11C70, 0x11C71},
    {0x11EF7, 0x11EF8}, {0x11F43, 0x11F4F}, {0x11FFF, 0x11FFF}, {0x12FF1, 0x12FF2}, {0x16D6D, 0x16D6F},
    {0x16E97, 0x16E9A}, {0x16FE2, 0x16FE2}, {0x1E5FF, 0x1E5FF}, {0x1E95E, 0x1E95F},
};
constexpr Range kOldPunctuation[] = {{0x166D, 0x166D},
                                     {0x111C9, 0x111C9}};  // since moved to other categories

// Compatibility characters younger than its tables of decompositions, which it leaves alone.
constexpr Range kKeptWhole[] = {
    {0x32FF, 0x32FF},   {0xA7F2, 0xA7F4},   {0xAB69, 0xAB69},   {0x10781, 0x10785}, {0x10787, 0x107B0},
    {0x107B2, 0x107BA}, {0x11938, 0x11938}, {0x1E030, 0x1E06D}, {0x1F16C, 0x1F16C}, {0x1FBF0, 0x1FBF9},
};

// Marks younger than its tables of combining classes: they stay where they are, and what follows cannot join what
// precedes. So does U+11930, whose joining is younger.
constexpr Range kYoungMarks[] = {
    {0x7FD, 0x7FD},     {0x898, 0x89F},     {0x8CA, 0x8D3},     {0x9FE, 0x9FE},     {0xC3C, 0xC3C},
    {0xD3B, 0xD3C},     {0xEBA, 0xEBA},     {0x1715, 0x1715},   {0x1ABF, 0x1ACE},   {0x1DF6, 0x1DFA},
    {0xA82C, 0xA82C},   {0x10D24, 0x10D27}, {0x10EAB, 0x10EAC}, {0x10EFD, 0x10EFF}, {0x10F46, 0x10F50},
    {0x10F82, 0x10F85}, {0x11070, 0x11070}, {0x1133B, 0x1133B}, {0x1145E, 0x1145E}, {0x11839, 0x1183A},
    {0x11930, 0x11930}, {0x1193D, 0x1193E}, {0x11943, 0x11943}, {0x119E0, 0x119E0}, {0x11A34, 0x11A34},
    {0x11A47, 0x11A47}, {0x11A99, 0x11A99}, {0x11D42, 0x11D42}, {0x11D44, 0x11D45}, {0x11D97, 0x11D97},
    {0x11F41, 0x11F42}, {0x16FF0, 0x16FF1}, {0x1E08F, 0x1E08F}, {0x1E130, 0x1E136}, {0x1E2AE, 0x1E2AE},
    {0x1E2EC, 0x1E2EF}, {0x1E4EC, 0x1E4EF},
};

// Capital letters younger than utf8proc's tables: each range maps to one that begins at `lower`.
struct YoungCapitals {
  char32_t first;
  char32_t last;
  char32_t lower;
};
constexpr YoungCapitals kYoungCapitals[] = {
    {0x1C89, 0x1C89, 0x1C8A},    {0xA7CB, 0xA7CB, 0x264},  {0xA7CC, 0xA7CC, 0xA7CD},
    {0xA7CE, 0xA7CE, 0xA7CF},    {0xA7D2, 0xA7D2, 0xA7D3}, {0xA7D4, 0xA7D4, 0xA7D5},
    {0xA7DA, 0xA7DA, 0xA7DB},    {0xA7DC, 0xA7DC, 0x19B},  {0x10D50, 0x10D65, 0x10D70},
    {0x16EA0, 0x16EB8, 0x16EBB},
};

bool in_any(char32_t c, std::span<const Range> ranges) {
  return std::any_of(ranges.begin(), ranges.end(),
                     [c](const Range& r) { return c >= r.first && c <= r.last; });
}

utf8proc_category_t category(char32_t c) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(c));
}

// Below this no character changes under the form, and none joins with what stands before it.
char32_t first_changing(NormalForm form) {
  return form == NormalForm::kNfc ? 0x300 : form == NormalForm::kNfd ? 0xC0 : 0xA0;
}

bool needs_work(std::string_view text, NormalForm form) {
  const char32_t limit = first_changing(form);
  for (size_t at = 0; at < text.size();)
    if (next_code_point(text, &at) >= limit) return true;
  return false;
}

bool is_young_mark(utf8proc_int32_t c) {
  return c >= 0x7FD && in_any(static_cast<char32_t>(c), kYoungMarks);
}

int combining_class(utf8proc_int32_t c) {
  const int k = utf8proc_get_property(c)->combining_class;
  return k != 0 && is_young_mark(c) ? 0 : k;
}

void decompose(std::string_view text, bool compatibility, std::vector<utf8proc_int32_t>* out) {
  const int options = UTF8PROC_DECOMPOSE | (compatibility ? UTF8PROC_COMPAT : 0);
  utf8proc_int32_t parts[32];  // the longest decomposition has 18
  for (size_t at = 0; at < text.size();) {
    const char32_t c = next_code_point(text, &at);
    if (c < 0xA0 || in_any(c, kKeptWhole)) {
      out->push_back(static_cast<utf8proc_int32_t>(c));
      continue;
    }
    int boundary = 0;
    const auto n = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c), parts, 32,
                                           static_cast<utf8proc_option_t>(options), &boundary);
    CHECK(n > 0 && n <= 32);
    out->insert(out->end(), parts, parts + n);
  }
}

// Canonical order: marks are sorted by combining class, marks of the same class keep their order.
void sort_marks(std::vector<utf8proc_int32_t>* text) {
  const auto by_class = [](utf8proc_int32_t a, utf8proc_int32_t b) {
    return combining_class(a) < combining_class(b);
  };
  for (auto it = text->begin(); it != text->end();) {
    if (combining_class(*it) == 0) {
      ++it;
      continue;
    }
    const auto end =
        std::find_if(it, text->end(), [](utf8proc_int32_t c) { return combining_class(c) == 0; });
    if (!std::is_sorted(it, end, by_class)) std::stable_sort(it, end, by_class);
    it = end;
  }
}

// In sections that begin with the young marks.
void compose(std::vector<utf8proc_int32_t>* text) {
  auto to = text->begin();
  for (auto from = text->begin(); from != text->end();) {
    const auto end = std::find_if(from + 1, text->end(), is_young_mark);
    const auto n = utf8proc_normalize_utf32(
        &*from, end - from, static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE));
    CHECK(n >= 0);
    to = to == from ? from + n : std::copy(from, from + n, to);
    from = end;
  }
  text->erase(to, text->end());
}

}  // namespace

std::string normalize_unicode(std::string_view text, NormalForm form) {
  if (!needs_work(text, form)) return std::string(text);
  std::vector<utf8proc_int32_t> points;
  points.reserve(text.size());
  decompose(text, form == NormalForm::kNfkc || form == NormalForm::kNfkd, &points);
  sort_marks(&points);
  if (form == NormalForm::kNfc || form == NormalForm::kNfkc) {
    compose(&points);
  }
  std::string out;
  out.reserve(text.size());
  for (const utf8proc_int32_t c : points) append_utf8(&out, static_cast<char32_t>(c));
  return out;
}

void append_lower(std::string* out, char32_t c) {
  if (c < 0x80) {
    *out += static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c);
    return;
  }
  if (c == 0x130) {  // the only one with two characters
    *out += "i\u0307";
    return;
  }
  for (const YoungCapitals& r : kYoungCapitals)
    if (c >= r.first && c <= r.last) return append_utf8(out, r.lower + (c - r.first));
  append_utf8(out, static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))));
}

bool is_space(char32_t c) {
  if (c < 0x80) return c == ' ' || (c >= 0x9 && c <= 0xD);
  return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 ||
         c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

bool is_numeric(char32_t c) {
  if (c < 0x80) return c >= '0' && c <= '9';
  constexpr Range kUnicode17[] = {{0x11DE0, 0x11DE9}, {0x16FF4, 0x16FF6}};
  const auto k = category(c);
  return k == UTF8PROC_CATEGORY_ND || k == UTF8PROC_CATEGORY_NL || k == UTF8PROC_CATEGORY_NO ||
         is_recent(c, "N") || in_any(c, kUnicode17);
}

bool is_punctuation(char32_t c) {
  if (c < 0x80)
    return (c > ' ' && c < '0') || (c > '9' && c < 'A') || (c > 'Z' && c < 'a') || (c > 'z' && c < 0x7F);
  const auto k = category(c);
  if (k >= UTF8PROC_CATEGORY_PC && k <= UTF8PROC_CATEGORY_PO) return !in_any(c, kYoungPunctuation);
  return in_any(c, kOldPunctuation);
}

}  // namespace roundel
