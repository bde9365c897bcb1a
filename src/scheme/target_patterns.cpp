#include "scheme/target_patterns.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace roundel {
namespace {

constexpr std::string_view kFirstComponent = "model.";
constexpr size_t kMaxNumbers = 3;  // layer, expert, and one more; further numbers stay literal

using Numbers = std::vector<std::string>;        // the numbers of one name, in order
using Box = std::vector<std::set<std::string>>;  // for each number, its alternatives: the product of the sets

// "model.layers.3.mlp.up_proj" is the stem {"model.layers.", ".mlp."}, the leaf "up_proj", the numbers {"3"}.
struct SplitName {
  std::vector<std::string> stem;
  std::string leaf;
  Numbers numbers;
};

bool is_number(const std::string& part) {
  return !part.empty() && part.size() <= 9 && part.find_first_not_of("0123456789") == std::string::npos;
}

SplitName split(const std::string& name) {
  SplitName out;
  out.stem.emplace_back();
  size_t from = 0;
  while (true) {
    const size_t dot = name.find('.', from);
    const std::string part = name.substr(from, dot == std::string::npos ? dot : dot - from);
    if (dot == std::string::npos) {
      out.leaf = part;
      return out;
    }
    if (is_number(part) && out.numbers.size() < kMaxNumbers) {
      out.numbers.push_back(part);
      out.stem.emplace_back();
    } else {
      out.stem.back() += part;
    }
    out.stem.back() += '.';
    from = dot + 1;
  }
}

std::string escape(const std::string& text) {
  std::string out;
  for (char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '_' || static_cast<unsigned char>(c) >= 0x80;
    if (!plain) out += '\\';
    out += c;
  }
  return out;
}

// Numbers sort as numbers.
std::string alternatives(const std::set<std::string>& choices) {
  std::vector<std::string> sorted(choices.begin(), choices.end());
  const bool numbers = is_number(sorted.front());
  std::sort(sorted.begin(), sorted.end(), [&](const std::string& a, const std::string& b) {
    return numbers && a.size() != b.size() ? a.size() < b.size() : a < b;
  });
  std::string out;
  for (const std::string& choice : sorted) {
    if (!out.empty()) out += '|';
    out += escape(choice);
  }
  return sorted.size() == 1 ? out : '(' + out + ')';
}

// Splits a set of number tuples into boxes: tuples with the same rest are joined, from the last number to the
// first.
std::vector<Box> boxes_of(const std::set<Numbers>& tuples) {
  std::set<Box> boxes;
  for (const Numbers& tuple : tuples) {
    Box box;
    for (const std::string& number : tuple) box.push_back({number});
    boxes.insert(box);
  }
  const size_t dims = tuples.begin()->size();
  for (size_t d = dims; d-- > 0;) {
    std::map<Box, std::set<std::string>> joined;  // the box without number d -> the alternatives of d
    for (const Box& box : boxes) {
      Box key = box;
      key[d].clear();
      joined[key].insert(box[d].begin(), box[d].end());
    }
    boxes.clear();
    for (const auto& [key, choices] : joined) {
      Box box = key;
      box[d] = choices;
      boxes.insert(box);
    }
  }
  return {boxes.begin(), boxes.end()};
}

std::string pattern_of(const std::vector<std::string>& stem, const Box& box,
                       const std::set<std::string>& leaves) {
  std::string out = escape(stem.front());
  for (size_t i = 0; i < box.size(); ++i) out += alternatives(box[i]) + escape(stem[i + 1]);
  return out + alternatives(leaves) + "$";
}

std::string_view tail_of(std::string_view name) {
  return name.starts_with(kFirstComponent) ? name.substr(kFirstComponent.size()) : name;
}

// Tails, with their scheme, that also end a name of another scheme: ".*" in front of them would match too
// much.
std::set<std::pair<std::string_view, int>> clashing_tails(const std::map<std::string, int>& names) {
  std::unordered_map<std::string_view, std::set<int>> owners;
  for (const auto& [name, scheme] : names)
    if (scheme >= 0) owners[tail_of(name)].insert(scheme);
  std::set<std::pair<std::string_view, int>> clashes;
  for (const auto& [name, scheme] : names)
    for (size_t from = 0; from < name.size(); ++from) {
      auto it = owners.find(std::string_view(name).substr(from));
      if (it == owners.end()) continue;
      for (int owner : it->second)
        if (owner != scheme) clashes.insert({it->first, owner});
    }
  return clashes;
}

// Names whose patterns differ in numbers and leaves only.
struct Family {
  int scheme;
  bool open;  // ".*" in front instead of the first component
  std::vector<std::string> stem;
  auto operator<=>(const Family&) const = default;
};

}  // namespace

std::map<int, std::vector<std::string>> cover_names(const std::map<std::string, int>& names) {
  const auto clashes = clashing_tails(names);
  std::map<Family, std::map<std::string, std::set<Numbers>>>
      families;  // -> leaf -> the numbers it occurs with
  for (const auto& [name, scheme] : names) {
    if (scheme < 0) continue;
    const bool open = !clashes.contains({tail_of(name), scheme});
    SplitName parts = split(open ? std::string(tail_of(name)) : name);
    families[{scheme, open, std::move(parts.stem)}][parts.leaf].insert(std::move(parts.numbers));
  }
  std::map<int, std::vector<std::string>> patterns;
  for (const auto& [family, leaves] : families) {
    std::map<Box, std::set<std::string>> boxes;  // leaves that need the same numbers share a pattern
    for (const auto& [leaf, tuples] : leaves)
      for (const Box& box : boxes_of(tuples)) boxes[box].insert(leaf);
    for (const auto& [box, in_box] : boxes)
      patterns[family.scheme].push_back((family.open ? "re:.*" : "re:") +
                                        pattern_of(family.stem, box, in_box));
  }
  return patterns;
}

}  // namespace roundel
