#include "text/split.h"

#include <algorithm>

#include "base/error.h"

namespace roundel {
namespace {

struct Part {
  size_t begin;
  size_t end;
  bool delimiter;
};

// The whole piece as an alternation of text and matches.
void find_parts(std::string_view text, bool invert, FindMatches find, std::vector<Part>* parts) {
  parts->clear();
  size_t covered = 0;
  find(text, [&](size_t begin, size_t end) {
    if (begin > covered) parts->push_back({covered, begin, invert});
    parts->push_back({begin, end, !invert});
    covered = end;
  });
  if (covered < text.size()) parts->push_back({covered, text.size(), invert});
}

bool joins(SplitBehavior behavior, bool delimiter, bool last_delimiter) {
  if (behavior == SplitBehavior::kContiguous) return delimiter == last_delimiter;
  return delimiter && !last_delimiter;
}

// Joins delimiters to what lies before them in the order of the list (text before `first` counts as no delimiter).
void join_parts(SplitBehavior behavior, std::vector<Part>* parts) {
  size_t kept = 0;
  bool last_delimiter = false;
  for (const Part part : *parts) {
    if (kept > 0 && joins(behavior, part.delimiter, last_delimiter)) {
      Part& to = (*parts)[kept - 1];
      to.begin = std::min(to.begin, part.begin);
      to.end = std::max(to.end, part.end);
    } else {
      (*parts)[kept++] = part;
    }
    last_delimiter = part.delimiter;
  }
  parts->resize(kept);
}

void apply_behavior(SplitBehavior behavior, std::vector<Part>* parts) {
  switch (behavior) {
    case SplitBehavior::kIsolated:
      return;
    case SplitBehavior::kRemoved:
      std::erase_if(*parts, [](const Part& part) { return part.delimiter; });
      return;
    case SplitBehavior::kMergedWithNext:
      std::reverse(parts->begin(), parts->end());
      join_parts(behavior, parts);
      std::reverse(parts->begin(), parts->end());
      return;
    case SplitBehavior::kMergedWithPrevious:
    case SplitBehavior::kContiguous:
      join_parts(behavior, parts);
      return;
  }
}

}  // namespace

SplitBehavior parse_split_behavior(std::string_view name, const std::string& where) {
  if (name == "Removed") return SplitBehavior::kRemoved;
  if (name == "Isolated") return SplitBehavior::kIsolated;
  if (name == "MergedWithPrevious") return SplitBehavior::kMergedWithPrevious;
  if (name == "MergedWithNext") return SplitBehavior::kMergedWithNext;
  if (name == "Contiguous") return SplitBehavior::kContiguous;
  fail(ErrorCode::kInvalid,
       "{}: behavior is \"{}\", expected Removed, Isolated, MergedWithPrevious, MergedWithNext or Contiguous",
       where, name);
}

void split_pieces(Pieces* pieces, SplitBehavior behavior, bool invert, FindMatches find) {
  std::vector<Piece> list;
  list.reserve(pieces->list.size());
  std::vector<Part> parts;
  for (const Piece& piece : pieces->list) {
    find_parts(pieces->view(piece), invert, find, &parts);
    apply_behavior(behavior, &parts);
    for (const Part& part : parts)
      if (part.end > part.begin)
        list.push_back({piece.begin + part.begin, piece.begin + part.end, piece.at_start && part.begin == 0});
  }
  pieces->list = std::move(list);
}

}  // namespace roundel
