#include "quantize/yaml_tree.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <charconv>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"

namespace roundel {

YamlNode::YamlNode() = default;
YamlNode::YamlNode(const YamlNode&) = default;
YamlNode::YamlNode(YamlNode&&) noexcept = default;
YamlNode& YamlNode::operator=(const YamlNode&) = default;
YamlNode& YamlNode::operator=(YamlNode&&) noexcept = default;
YamlNode::~YamlNode() = default;

namespace {

size_t count_nodes(const YamlNode& node) {
  size_t n = 1;
  for (const YamlNode& i : node.items) n += count_nodes(i);
  for (const auto& [k, v] : node.members) n += count_nodes(v) + 1;
  return n;
}

// Builds the tree from the parser's events; the limits hold while it grows.
class TreeBuilder : public YAML::EventHandler {
 public:
  TreeBuilder(const std::string& name, const YamlLimits& limits) : name_(name), limits_(limits) {}
  YamlNode take() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    YamlNode node;
    node.line = mark.line + 1;
    add(std::move(node), anchor);
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto it = anchors_.find(anchor);
    if (it == anchors_.end())
      fail(ErrorCode::kInvalid, "{}: line {}: an anchor contains its own alias", name_, mark.line + 1);
    alias_nodes_ += count_nodes(it->second);
    if (alias_nodes_ > static_cast<size_t>(limits_.max_alias_nodes))
      fail(ErrorCode::kLimit, "{}: line {}: aliases expand to more than {} nodes", name_, mark.line + 1,
           limits_.max_alias_nodes);
    add(YamlNode(it->second), 0);
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    check_tag(mark, tag);
    YamlNode node;
    node.kind = YamlNode::Kind::kScalar;
    node.line = mark.line + 1;
    node.quoted = tag == "!" || tag == "tag:yaml.org,2002:str";
    node.scalar = value;
    add(std::move(node), anchor);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, YamlNode::Kind::kSequence);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, YamlNode::Kind::kMap);
  }
  void OnMapEnd() override { close(); }

 private:
  struct Open {
    YamlNode node;
    YAML::anchor_t anchor = 0;
    bool has_key = false;
    bool enumeration = false;
    YamlNode key;
  };

  // PyYAML's way to write a tuple, and a value of an enumeration as a list of one: llm-compressor's own recipes hold them.
  static bool is_tuple(const std::string& tag) { return tag == "tag:yaml.org,2002:python/tuple"; }
  static bool is_enumeration(const std::string& tag) {
    return tag.starts_with("tag:yaml.org,2002:python/object/apply:compressed_tensors.quantization.");
  }
  void check_tag(const YAML::Mark& mark, const std::string& tag) {
    if (tag.empty() || tag == "?" || tag == "!" || tag.starts_with("tag:yaml.org,2002:")) {
      if (!tag.starts_with("tag:yaml.org,2002:python")) return;
    }
    fail(ErrorCode::kUnsupported, "{}: line {}: the tag \"{}\" is not plain YAML", name_, mark.line + 1, tag);
  }
  void open(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, YamlNode::Kind kind) {
    const bool enumeration = kind == YamlNode::Kind::kSequence && is_enumeration(tag);
    if (!enumeration && !(kind == YamlNode::Kind::kSequence && is_tuple(tag))) check_tag(mark, tag);
    if (static_cast<int>(stack_.size()) >= limits_.max_depth)
      fail(ErrorCode::kLimit, "{}: line {}: nested deeper than {} levels", name_, mark.line + 1,
           limits_.max_depth);
    Open o;
    o.node.kind = kind;
    o.node.line = mark.line + 1;
    o.anchor = anchor;
    o.enumeration = enumeration;
    stack_.push_back(std::move(o));
  }
  void close() {
    Open done = std::move(stack_.back());
    stack_.pop_back();
    if (done.enumeration) {
      if (done.node.items.size() != 1 || done.node.items[0].kind != YamlNode::Kind::kScalar)
        fail(ErrorCode::kInvalid, "{}: line {}: a tagged value must be a list of one word", name_,
             done.node.line);
      done.node = YamlNode(done.node.items[0]);
    }
    add(std::move(done.node), done.anchor);
  }
  void add(YamlNode node, YAML::anchor_t anchor) {
    if (anchor) anchors_[anchor] = node;
    if (stack_.empty()) {
      root_ = std::move(node);
      return;
    }
    Open& top = stack_.back();
    if (top.node.kind == YamlNode::Kind::kSequence) {
      top.node.items.push_back(std::move(node));
    } else if (!top.has_key) {
      if (node.kind != YamlNode::Kind::kScalar)
        fail(ErrorCode::kInvalid, "{}: line {}: a key must be a plain word", name_, node.line);
      if (top.node.find(node.scalar))
        fail(ErrorCode::kInvalid, "{}: line {}: duplicate key \"{}\"", name_, node.line, node.scalar);
      top.key = std::move(node);
      top.has_key = true;
    } else {
      top.node.members.emplace_back(std::move(top.key), std::move(node));
      top.has_key = false;
    }
  }

  const std::string& name_;
  const YamlLimits& limits_;
  YamlNode root_;
  std::vector<Open> stack_;
  std::map<YAML::anchor_t, YamlNode> anchors_;
  size_t alias_nodes_ = 0;
};

Json scalar_to_json(const YamlNode& node) {
  const std::string& s = node.scalar;
  if (node.quoted) return s;
  if (s.empty() || s == "~" || s == "null" || s == "Null" || s == "NULL") return nullptr;
  if (s == "true" || s == "True" || s == "TRUE") return true;
  if (s == "false" || s == "False" || s == "FALSE") return false;
  const char* begin = s.data() + (s[0] == '+' ? 1 : 0);
  const char* end = s.data() + s.size();
  int64_t integer = 0;
  if (auto [p, e] = std::from_chars(begin, end, integer); e == std::errc() && p == end) return integer;
  double number = 0;
  const bool numeric = s.find_first_not_of("+-.0123456789eE") == std::string::npos;
  if (auto [p, e] = std::from_chars(begin, end, number); numeric && e == std::errc() && p == end)
    return number;
  return s;
}

}  // namespace

const YamlNode* YamlNode::find(std::string_view key) const {
  for (const auto& [k, v] : members)
    if (k.scalar == key) return &v;
  return nullptr;
}

YamlNode parse_yaml(std::string_view text, const std::string& name, const YamlLimits& limits) {
  if (text.size() > limits.max_bytes)
    fail(ErrorCode::kLimit, "{}: {} bytes, at most {} are read", name, text.size(), limits.max_bytes);
  if (text.find('\0') != std::string_view::npos)
    fail(ErrorCode::kInvalid, "{}: holds NUL bytes, not text", name);
  TreeBuilder builder(name, limits);
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    parser.HandleNextDocument(builder);
  } catch (const YAML::Exception& e) {
    fail(ErrorCode::kInvalid, "{}: line {}, column {}: {}", name, e.mark.line + 1, e.mark.column + 1, e.msg);
  }
  return builder.take();
}

Json to_json(const YamlNode& node) {
  switch (node.kind) {
    case YamlNode::Kind::kNull:
      return nullptr;
    case YamlNode::Kind::kScalar:
      return scalar_to_json(node);
    case YamlNode::Kind::kSequence: {
      Json list = Json::array();
      for (const YamlNode& item : node.items) list.push_back(to_json(item));
      return list;
    }
    default: {
      Json object = Json::object();
      for (const auto& [key, value] : node.members) object[key.scalar] = to_json(value);
      return object;
    }
  }
}

}  // namespace roundel
