#include "quantize/recipe_node.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/nearest.h"

namespace roundel {

void fail_at(const std::string& name, const YamlNode& node, const std::string& text, ErrorCode code) {
  fail(code, "{}: line {}: {}", name, node.line, text);
}

bool is_null(const YamlNode* node) {
  return !node || node->kind == YamlNode::Kind::kNull ||
         (node->kind == YamlNode::Kind::kScalar && to_json(*node).is_null());
}

std::string shown(const YamlNode& node) {
  switch (node.kind) {
    case YamlNode::Kind::kNull:
      return "null";
    case YamlNode::Kind::kSequence:
      return "a list";
    case YamlNode::Kind::kMap:
      return "a map";
    default:
      return "\"" + (node.scalar.size() > 80 ? node.scalar.substr(0, 77) + "..." : node.scalar) + "\"";
  }
}

std::vector<std::string> string_list(const std::string& name, const YamlNode& node, const std::string& key) {
  if (is_null(&node)) return {};
  if (node.kind == YamlNode::Kind::kScalar) return {node.scalar};
  if (node.kind != YamlNode::Kind::kSequence)
    fail_at(name, node, key + " is " + shown(node) + ", expected a string or a list of strings");
  std::vector<std::string> list;
  for (const YamlNode& item : node.items) {
    if (item.kind != YamlNode::Kind::kScalar)
      fail_at(name, item, key + " holds " + shown(item) + ", expected strings");
    list.push_back(item.scalar);
  }
  return list;
}

RecipeNode::RecipeNode(const std::string& name, const YamlNode& node, std::string what)
    : name_(name), node_(node), what_(std::move(what)) {
  if (node.kind != YamlNode::Kind::kMap)
    fail_at(name, node, what_ + " is " + shown(node) + ", expected a map of its options");
}

void RecipeNode::check_keys(const std::vector<std::string>& known) const {
  for (const auto& [key, value] : node_.members)
    if (std::find(known.begin(), known.end(), key.scalar) == known.end()) {
      const std::string near = did_you_mean(key.scalar, known);
      fail_at(name_, key,
              fmt::format("unknown key \"{}\" of {}{}", key.scalar, what_,
                          near.empty() ? fmt::format(" (known: {})", fmt::join(known, ", ")) : near));
    }
}

const YamlNode* RecipeNode::find(const char* key) const {
  const YamlNode* node = node_.find(key);
  return is_null(node) ? nullptr : node;
}

std::optional<int64_t> RecipeNode::integer(const char* key, int64_t min, int64_t max) const {
  const YamlNode* node = find(key);
  if (!node) return std::nullopt;
  const Json value = to_json(*node);
  if (!value.is_number_integer() || value.get<int64_t>() < min || value.get<int64_t>() > max)
    fail_at_key(key, fmt::format("{}, expected an integer from {} to {}", shown(*node), min, max));
  return value.get<int64_t>();
}

std::optional<double> RecipeNode::number(const char* key, double min, double max) const {
  const YamlNode* node = find(key);
  if (!node) return std::nullopt;
  const Json value = to_json(*node);
  if (!value.is_number() || !(value.get<double>() >= min && value.get<double>() <= max))
    fail_at_key(key, fmt::format("{}, expected a number from {} to {}", shown(*node), min, max));
  return value.get<double>();
}

std::optional<bool> RecipeNode::boolean(const char* key) const {
  const YamlNode* node = find(key);
  if (!node) return std::nullopt;
  const Json value = to_json(*node);
  if (!value.is_boolean()) fail_at_key(key, shown(*node) + ", expected true or false");
  return value.get<bool>();
}

std::optional<std::string> RecipeNode::string(const char* key) const {
  const YamlNode* node = find(key);
  if (!node) return std::nullopt;
  if (node->kind != YamlNode::Kind::kScalar) fail_at_key(key, shown(*node) + ", expected a string");
  return node->scalar;
}

std::vector<std::string> RecipeNode::strings(const char* key) const {
  const YamlNode* node = find(key);
  return node ? string_list(name_, *node, key) : std::vector<std::string>{};
}

void RecipeNode::fail_at_key(const char* key, const std::string& text, ErrorCode code) const {
  const YamlNode* value = node_.find(key);
  fail_at(name_, value ? *value : node_, fmt::format("{} of {} is {}", key, what_, text), code);
}

std::string RecipeNode::where() const {
  return fmt::format("{}: line {}: {}", name_, node_.line, what_);
}

}  // namespace roundel
