// Splitting the pieces of a text, with the delimiter behaviours of tokenizer.json.
//
//   Pieces pieces{"a-b", {{0, 3, true}}};
//   split_pieces(&pieces, SplitBehavior::kMergedWithNext, false, [&](std::string_view text, FoundMatch found) {
//     dash.for_each(text, found);
//   });                                                            // "a", "-b"
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "base/function_ref.h"

namespace roundel {

struct Piece {
  size_t begin;  // bytes in Pieces::text
  size_t end;
  bool at_start = false;  // begins where the whole input begins
};

// Pieces lie in order and do not overlap; none is empty.
struct Pieces {
  std::string text;
  std::vector<Piece> list;
  std::string_view view(const Piece& piece) const {
    return std::string_view(text).substr(piece.begin, piece.end - piece.begin);
  }
};

enum class SplitBehavior { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };
// "Removed" and so on. Throws Error(kInvalid) for another name.
SplitBehavior parse_split_behavior(std::string_view name, const std::string& where);

using FoundMatch = FunctionRef<void(size_t begin, size_t end)>;
using FindMatches = FunctionRef<void(std::string_view text, FoundMatch found)>;

// Splits each piece at the matches that `find` reports, from left to right. With `invert` the text between the matches
// is the delimiter.
void split_pieces(Pieces* pieces, SplitBehavior behavior, bool invert, FindMatches find);

}  // namespace roundel
