#include "quantize/recipe.h"

#include <algorithm>

#include "base/file.h"
#include "base/log.h"
#include "quantize/yaml_tree.h"

namespace roundel {
namespace {

class RecipeReader {
 public:
  explicit RecipeReader(const std::string& name) { recipe_.name = name; }

  Recipe read(const YamlNode& root) {
    if (root.kind != YamlNode::Kind::kMap)
      fail(ErrorCode::kInvalid, "{}: expected a map of `<name>_stage:` at the top", recipe_.name);
    for (const auto& [key, value] : root.members) {
      if (key.scalar.ends_with("_stage"))
        read_stage(key, value);
      else if (key.scalar.ends_with("_modifiers"))
        read_group(key, value);
      else if (key.scalar != "args" && key.scalar != "version")
        log_warn("{}: line {}: \"{}\" is not a stage (`<name>_stage`) and is not read", recipe_.name,
                 key.line, key.scalar);
    }
    if (recipe_.modifiers.empty())
      fail(ErrorCode::kInvalid,
           "{}: no modifier found; expected a QuantizationModifier or another in `<name>_modifiers` of a "
           "`<name>_stage`",
           recipe_.name);
    return std::move(recipe_);
  }

 private:
  void read_stage(const YamlNode& stage, const YamlNode& node) {
    if (node.kind != YamlNode::Kind::kMap) fail_at(recipe_.name, stage, stage.scalar + " must be a map");
    for (const auto& [key, value] : node.members) {
      if (key.scalar.ends_with("_modifiers"))
        read_group(key, value);
      else if (key.scalar == "run_type")
        check_run_type(value);
      else
        log_warn("{}: line {}: \"{}\" is not a group of modifiers (`<name>_modifiers`) and is not read",
                 recipe_.name, key.line, key.scalar);
    }
  }

  void check_run_type(const YamlNode& value) const {
    if (is_null(&value) || value.scalar == "oneshot") return;
    fail_at(recipe_.name, value, "run_type is " + shown(value) + "; only oneshot recipes can be run",
            ErrorCode::kUnsupported);
  }

  void read_group(const YamlNode& group, const YamlNode& node) {
    if (node.kind != YamlNode::Kind::kMap)
      fail_at(recipe_.name, group, group.scalar + " must be a map of modifiers");
    for (const auto& [key, value] : node.members)
      recipe_.modifiers.push_back(read_modifier(recipe_.name, key, value));
  }

  Recipe recipe_;
};

// The YAML between two lines of `---` (or `+++`) at the start of a Markdown file, on the lines where it stands.
std::string front_matter(std::string_view text, const std::string& name) {
  const size_t start = text.find_first_not_of(" \t\r\n");
  const std::string_view mark = start == std::string_view::npos ? "" : text.substr(start, 3);
  if (mark != "---" && mark != "+++")
    fail(ErrorCode::kInvalid, "{}: a Markdown recipe begins with a line of ---", name);
  const size_t first = text.find('\n', start);
  const size_t end = text.find("\n" + std::string(mark), start);
  if (first == std::string_view::npos || end == std::string_view::npos)
    fail(ErrorCode::kInvalid, "{}: the front matter is not closed by a line of {}", name, mark);
  const auto lines =
      static_cast<size_t>(std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(first), '\n'));
  return std::string(lines, '\n') + std::string(text.substr(first, end - first));
}

// JSON may be indented with tabs, which YAML does not have; inside its strings there are none.
std::string without_tabs(std::string_view text) {
  std::string out(text);
  std::replace(out.begin(), out.end(), '\t', ' ');
  return out;
}

}  // namespace

void check_modifiers(const Recipe& recipe) {
  const Modifier *rotation = nullptr, *smooth = nullptr, *quantizer = nullptr;
  bool any_request = false;
  for (const Modifier& m : recipe.modifiers) {
    if (m.rotate) {
      const Modifier* before = rotation ? rotation : smooth ? smooth : quantizer;
      if (before)
        fail(ErrorCode::kInvalid, "{} comes after {}: a model is rotated once, before anything else; {}",
             m.where, before->where, rotation ? "name all rotations in one" : "put it first");
      rotation = &m;
    }
    if (m.smooth && quantizer)
      fail(ErrorCode::kInvalid,
           "{} comes after {}: it changes weights that are quantized already; put it before", m.where,
           quantizer->where);
    if (m.smooth) smooth = &m;
    if (!m.quantize) continue;
    any_request = any_request || m.request.has_value();
    if (!any_request)
      fail(ErrorCode::kInvalid, "{} needs a scheme or config_groups, or a QuantizationModifier before it",
           m.where);
    quantizer = &m;
  }
  if (const Modifier* prepares = smooth ? smooth : rotation; prepares && !quantizer)
    fail(ErrorCode::kInvalid,
         "{} prepares weights for quantization, and nothing after it quantizes; add a QuantizationModifier "
         "or a "
         "GPTQModifier",
         prepares->where);
}

Rotation rotation_of(const Recipe& recipe) {
  for (const Modifier& m : recipe.modifiers)
    if (m.rotate) return *m.rotate;
  return {};
}

Recipe parse_recipe(std::string_view text, const std::string& name) {
  if (text.size() > YamlLimits{}.max_bytes)
    fail(ErrorCode::kLimit, "{}: {} bytes, at most {} are read", name, text.size(), YamlLimits{}.max_bytes);
  const std::string yaml = name.ends_with(".md")     ? front_matter(text, name)
                           : name.ends_with(".json") ? without_tabs(text)
                                                     : std::string(text);
  Recipe recipe = RecipeReader(name).read(parse_yaml(yaml, name));
  check_modifiers(recipe);
  return recipe;
}

Recipe read_recipe(const std::filesystem::path& path) {
  return parse_recipe(read_text_file(path, YamlLimits{}.max_bytes), path.string());
}

PlanRequest plan_request(const PlanText& text, const std::filesystem::path& recipe,
                         const PlanTextNames& names) {
  if (recipe.empty()) return parse_plan_text(text, names);
  if (text.any() || text.group_size != 0 || !text.ignore.empty())
    fail(ErrorCode::kUsage,
         "{} and {}, {}, {} or ignored modules exclude each other: the recipe says all of it", names.recipe,
         names.scheme, names.rule, names.group_size);
  const Recipe read = read_recipe(recipe);
  for (const Modifier& m : read.modifiers) {
    bool plain =
        m.quantize && std::holds_alternative<RtnStep>(*m.quantize) && m.request && !m.request->kv_cache;
    if (plain)
      for (const SchemeGroup& g : m.request->groups)
        plain =
            plain && !g.scheme.output && !(g.scheme.input && g.scheme.input->dynamic == DynamicMode::kStatic);
    if (!plain || read.modifiers.size() > 1)
      fail(ErrorCode::kUnsupported,
           "{} needs calibration data, or is one of several: `roundel quantize` runs it", m.where);
  }
  PlanRequest request = *read.modifiers.front().request;
  request.on_indivisible = parse_on_indivisible(text.on_indivisible);
  return request;
}

}  // namespace roundel
