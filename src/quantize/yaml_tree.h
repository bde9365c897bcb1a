// YAML as a tree with line numbers, read with limits: size, depth, nodes that aliases copy, duplicate keys, cyclic anchors.
#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"

namespace roundel {

struct YamlNode {
  enum class Kind { kNull, kScalar, kSequence, kMap };
  Kind kind = Kind::kNull;
  int line = 0;  // 1-based
  bool quoted = false;
  std::string scalar;
  std::vector<YamlNode> items;                         // kSequence
  std::vector<std::pair<YamlNode, YamlNode>> members;  // kMap; keys are scalars

  const YamlNode* find(std::string_view key) const;

  // Defined in the .cpp: here a pair of nodes is not a complete type yet.
  YamlNode();
  YamlNode(const YamlNode&);
  YamlNode(YamlNode&&) noexcept;
  YamlNode& operator=(const YamlNode&);
  YamlNode& operator=(YamlNode&&) noexcept;
  ~YamlNode();
};

struct YamlLimits {
  size_t max_bytes = 1 << 20;
  int max_depth = 64;
  int max_alias_nodes = 1000;
};

// Throws Error(kInvalid, kLimit) naming `name` and the line.
YamlNode parse_yaml(std::string_view text, const std::string& name, const YamlLimits& limits = {});
// Plain scalars become null, booleans, integers or floats by the YAML core schema; quoted ones stay strings.
Json to_json(const YamlNode& node);

}  // namespace roundel
