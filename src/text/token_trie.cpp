#include "text/token_trie.h"

#include <algorithm>

namespace roundel {

// Level by level: a node is a range of the sorted texts that share their first `depth` bytes.
TokenTrie::TokenTrie(std::vector<std::pair<std::string, int32_t>> texts) {
  std::erase_if(texts, [](const auto& t) { return t.first.empty(); });
  std::stable_sort(texts.begin(), texts.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  struct Range {
    size_t begin, end, depth;
  };
  std::vector<Range> ranges = {{0, texts.size(), 0}};
  nodes_.emplace_back();
  for (size_t n = 0; n < ranges.size(); ++n) {
    auto [at, end, depth] = ranges[n];
    if (at < end && texts[at].first.size() == depth && depth > 0) nodes_[n].value = texts[at].second;
    while (at < end && texts[at].first.size() == depth) ++at;
    nodes_[n].first_edge = static_cast<uint32_t>(edges_.size());
    while (at < end) {
      const char byte = texts[at].first[depth];
      const size_t begin = at;
      while (at < end && texts[at].first[depth] == byte) ++at;
      edges_.push_back({static_cast<unsigned char>(byte), static_cast<uint32_t>(nodes_.size())});
      nodes_.emplace_back();
      ranges.push_back({begin, at, depth + 1});
    }
    nodes_[n].edges = static_cast<uint32_t>(edges_.size()) - nodes_[n].first_edge;
  }
  for (const auto& t : texts) begins_[static_cast<unsigned char>(t.first[0])] = true;
}

std::optional<TokenTrie::Match> TokenTrie::longest_at(std::string_view text, size_t at) const {
  std::optional<Match> best;
  uint32_t node = 0;
  for (size_t i = at; i < text.size(); ++i) {
    const auto* first = edges_.data() + nodes_[node].first_edge;
    const auto* last = first + nodes_[node].edges;
    const auto byte = static_cast<unsigned char>(text[i]);
    const auto* edge =
        std::lower_bound(first, last, byte, [](const Edge& e, unsigned char b) { return e.byte < b; });
    if (edge == last || edge->byte != byte) break;
    node = edge->node;
    if (nodes_[node].value >= 0) best = Match{i + 1 - at, nodes_[node].value};
  }
  return best;
}

size_t TokenTrie::next_candidate(std::string_view text, size_t at) const {
  while (at < text.size() && !begins_[static_cast<unsigned char>(text[at])]) ++at;
  return at;
}

}  // namespace roundel
