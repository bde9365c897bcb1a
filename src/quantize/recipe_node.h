// Reading values of a recipe's YAML nodes, with messages that name file, line and key.
//
//   const RecipeNode node(name, yaml, "GPTQModifier");
//   node.check_keys({"block_size", "actorder"});
//   int64_t block = node.integer("block_size", 1, 65536).value_or(128);
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "quantize/yaml_tree.h"

namespace roundel {

// Throws "FILE: line N: text".
[[noreturn]] void fail_at(const std::string& name, const YamlNode& node, const std::string& text,
                          ErrorCode code = ErrorCode::kInvalid);
bool is_null(const YamlNode* node);  // absent, empty, null or ~
// A string or a list of strings. null is an empty list.
std::vector<std::string> string_list(const std::string& name, const YamlNode& node, const std::string& key);
// "a list", "a map", "\"yes\"": for messages.
std::string shown(const YamlNode& node);

// One map whose keys are options of `what`.
class RecipeNode {
 public:
  RecipeNode(const std::string& name, const YamlNode& node, std::string what);
  const YamlNode& yaml() const { return node_; }
  const std::string& name() const { return name_; }
  const std::string& what() const { return what_; }

  // Error(kInvalid) for a key that is not known: line, key, the nearest known one.
  void check_keys(const std::vector<std::string>& known) const;
  // Null when the key is absent or null.
  const YamlNode* find(const char* key) const;
  bool has(const char* key) const { return node_.find(key) != nullptr; }
  std::optional<int64_t> integer(const char* key, int64_t min, int64_t max) const;
  std::optional<double> number(const char* key, double min, double max) const;
  std::optional<bool> boolean(const char* key) const;
  std::optional<std::string> string(const char* key) const;
  std::vector<std::string> strings(const char* key) const;
  [[noreturn]] void fail_at_key(const char* key, const std::string& text,
                                ErrorCode code = ErrorCode::kInvalid) const;
  // "FILE: line N: WHAT", for messages of others.
  std::string where() const;

 private:
  const std::string& name_;
  const YamlNode& node_;
  std::string what_;
};

}  // namespace roundel
