// Structure-aware mutation of JSON: the input is parsed, one to three of its values are changed, and it is written again,
// so that nearly every input gets past the JSON reader.
//
//   extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
//     return mutate_json_bytes(data, size, max_size, seed, {"dtype", "BF16"});
//   }
#pragma once
#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <string_view>
#include <vector>

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace roundel::fuzz {

using Tree = nlohmann::ordered_json;
using Words = std::vector<std::string_view>;
using Random = std::mt19937;

inline size_t below(Random& random, size_t n) {
  return n ? random() % n : 0;
}

inline Tree odd_value(Random& random, const Words& words) {
  static const std::vector<Tree> kValues = {nullptr,
                                            true,
                                            false,
                                            0,
                                            1,
                                            2,
                                            3,
                                            -1,
                                            64,
                                            255,
                                            256,
                                            65536,
                                            2147483647,
                                            2147483648u,
                                            4294967296u,
                                            9007199254740993,
                                            INT64_MAX,
                                            INT64_MIN,
                                            9223372036854775808u,
                                            UINT64_MAX,
                                            0.0,
                                            -0.0,
                                            0.5,
                                            1.0,
                                            1e-300,
                                            1e300,
                                            64.0,
                                            "",
                                            "x",
                                            std::string(300, 'y'),
                                            Tree::array(),
                                            Tree::object()};
  if (below(random, 2) && !words.empty()) return std::string(words[below(random, words.size())]);
  return kValues[below(random, kValues.size())];
}

// All nodes, without recursion: inputs may be nested deeply.
inline std::vector<Tree*> nodes_of(Tree& root) {
  std::vector<Tree*> found = {&root};
  for (size_t i = 0; i < found.size() && found.size() < 20000; ++i)
    if (found[i]->is_structured())
      for (Tree& child : *found[i]) found.push_back(&child);
  return found;
}

inline void change_number(Random& random, Tree& node) {
  if (node.is_number_float()) {
    node = node.get<double>() * (below(random, 2) ? 2.0 : -0.5);
    return;
  }
  const auto v = node.get<uint64_t>();
  const uint64_t changed[] = {v + 1, v - 1, v * 2, v / 2, v ^ (uint64_t{1} << below(random, 64))};
  node = changed[below(random, 5)];
}

inline void change_node(Random& random, Tree& node, const std::vector<Tree*>& all, const Words& words) {
  const size_t kind = below(random, 8);
  if (kind == 0 || node.is_null() || node.is_boolean()) {
    node = odd_value(random, words);
  } else if (kind == 1) {
    node = Tree(*all[below(random, all.size())]);  // of another place
  } else if (node.is_number()) {
    change_number(random, node);
  } else if (node.is_string()) {
    node = std::string(words.empty() ? "word" : words[below(random, words.size())]);
  } else if (node.is_array()) {
    if (kind < 4 || node.empty())
      node.push_back(node.empty() ? odd_value(random, words) : Tree(node[0]));
    else
      node.erase(below(random, node.size()));
  } else if (kind < 4 && !node.empty()) {
    node.erase(std::next(node.begin(), static_cast<int>(below(random, node.size()))));
  } else {
    const std::string key(words.empty() ? "key" : words[below(random, words.size())]);
    node[key] = node.empty() ? odd_value(random, words)
                             : Tree(*std::next(node.begin(), static_cast<int>(below(random, node.size()))));
  }
}

inline void mutate_tree(Random& random, Tree& root, const Words& words) {
  for (size_t n = 1 + below(random, 3); n > 0; --n) {
    const std::vector<Tree*> all = nodes_of(root);
    change_node(random, *all[below(random, all.size())], all, words);
    if (root.dump(-1, ' ', false, Tree::error_handler_t::replace).size() > 20000) return;
  }
}

inline size_t write_bytes(const std::string& text, uint8_t* data, size_t max_size) {
  if (text.size() > max_size) return 0;
  std::memcpy(data, text.data(), text.size());
  return text.size();
}

// The tree of a text; discarded when it is no JSON, or nested so deeply that writing it would need much stack.
inline Tree parse_tree(const uint8_t* data, size_t size) {
  int depth = 0;
  for (size_t i = 0; i < size; ++i) {
    depth += data[i] == '[' || data[i] == '{' ? 1 : data[i] == ']' || data[i] == '}' ? -1 : 0;
    if (depth > 100) return Tree(Tree::value_t::discarded);
  }
  return Tree::parse(data, data + size, nullptr, false);
}

// The input as JSON text; one time in eight, or when it is no JSON, the usual mutation of bytes.
inline size_t mutate_json_bytes(uint8_t* data, size_t size, size_t max_size, unsigned seed,
                                const Words& words) {
  Random random(seed);
  Tree tree = parse_tree(data, size);
  if (tree.is_discarded() || below(random, 8) == 0) return LLVMFuzzerMutate(data, size, max_size);
  mutate_tree(random, tree, words);
  const size_t written =
      write_bytes(tree.dump(-1, ' ', false, Tree::error_handler_t::replace), data, max_size);
  return written ? written : LLVMFuzzerMutate(data, size, max_size);
}

}  // namespace roundel::fuzz
