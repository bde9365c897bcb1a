// Finds the longest of many fixed texts at a place.
//
//   TokenTrie trie({{"<s>", 1}, {"<sep>", 2}});
//   if (auto match = trie.longest_at(text, at)) use(match->value, match->length);
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace roundel {

class TokenTrie {
 public:
  struct Match {
    size_t length;
    int32_t value;
  };
  // Of equal texts the first one counts; empty ones are left out. Memory is a few words for each byte of the texts.
  explicit TokenTrie(std::vector<std::pair<std::string, int32_t>> texts = {});
  bool empty() const { return nodes_.size() <= 1; }
  // Time is that of the longest text.
  std::optional<Match> longest_at(std::string_view text, size_t at) const;
  // The next place at or after `at` where a text may begin; text.size() when there is none.
  size_t next_candidate(std::string_view text, size_t at) const;

 private:
  struct Edge {
    unsigned char byte;
    uint32_t node;
  };
  struct Node {
    uint32_t first_edge = 0;
    uint32_t edges = 0;
    int32_t value = -1;
  };
  std::vector<Node> nodes_;
  std::vector<Edge> edges_;  // those of a node lie together, sorted by byte
  std::array<bool, 256> begins_{};
};

}  // namespace roundel
