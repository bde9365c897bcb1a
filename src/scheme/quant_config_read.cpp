#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/nearest.h"
#include "scheme/presets.h"
#include "scheme/quant_config.h"

namespace roundel {
namespace {

constexpr std::string_view kMethod = "compressed-tensors";

const Json* member(const Json& object, const char* key) {
  if (!object.is_object()) return nullptr;
  auto it = object.find(key);
  return it == object.end() || it->is_null() ? nullptr : &*it;
}

std::string shown(const Json& value) {
  const std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
  return text.size() > 80 ? text.substr(0, 77) + "..." : text;
}

// The section and its path, wherever writers have put it.
const Json* find_section(const Json& config, std::string* where) {
  for (const char* parent : {"", "text_config"}) {
    const Json* object = *parent ? member(config, parent) : &config;
    if (!object) continue;
    for (const char* key : {"quantization_config", "compression_config"})
      if (const Json* section = member(*object, key)) {
        *where += fmt::format(": {}{}{}", parent, *parent ? "." : "", key);
        return section;
      }
  }
  return nullptr;
}

void require_method(const Json& section, const std::string& where) {
  const std::optional<std::string> method = optional_string(section, "quant_method", where);
  if (method) {
    if (*method == kMethod) return;
    fail(ErrorCode::kUnsupported,
         "{}: quant_method is \"{}\", only \"{}\" checkpoints can be read; quantize the original BF16 model "
         "instead",
         where, *method, kMethod);
  }
  if (!member(section, "config_groups") && !member(section, "quantization_config") &&
      !member(section, "sparsity_config"))
    fail(ErrorCode::kInvalid, "{}: quant_method is missing, expected \"{}\"", where, kMethod);
}

void refuse_sparsity(const Json& section, const std::string& where) {
  const Json* sparsity = member(section, "sparsity_config");
  if (!sparsity) return;
  const std::string inner = where + ".sparsity_config";
  if (!sparsity->is_object())
    fail(ErrorCode::kInvalid, "{} is {}, expected an object", inner, shown(*sparsity));
  const std::string format = optional_string(*sparsity, "format", inner).value_or("dense");
  if (format == "dense") return;
  require_format(format, inner + ".format");
  fail(ErrorCode::kUnsupported, "{}: sparse checkpoints (format \"{}\") are not supported", inner, format);
}

void check_transform_apply(const Json& apply, const std::string& where) {
  static const std::vector<std::string> kFused = {"weight_input", "weight_output"};
  static const std::vector<std::string> kOnline = {"input", "output", "k_cache", "q_attn"};
  const std::string location = require_string(apply, "location", where);
  if (std::find(kFused.begin(), kFused.end(), location) != kFused.end()) return;
  if (std::find(kOnline.begin(), kOnline.end(), location) != kOnline.end())
    fail(ErrorCode::kUnsupported,
         "{}: transforms with location \"{}\" run with every forward pass and are not supported (only "
         "weight_input and "
         "weight_output, which are part of the stored weights)",
         where, location);
  fail(ErrorCode::kInvalid, "{}: unknown location \"{}\"", where, location);
}

void refuse_online_transforms(const Json& section, const std::string& where) {
  const Json* transform = member(section, "transform_config");
  if (!transform) return;
  const std::string inner = where + ".transform_config";
  if (!transform->is_object())
    fail(ErrorCode::kInvalid, "{} is {}, expected an object", inner, shown(*transform));
  const Json* groups = member(*transform, "config_groups");
  if (!groups) return;
  if (!groups->is_object())
    fail(ErrorCode::kInvalid, "{}.config_groups is {}, expected an object", inner, shown(*groups));
  for (const auto& group : groups->items()) {
    const std::string name = inner + ".config_groups." + group.key();
    const Json* apply = member(group.value(), "apply");
    if (!apply || !apply->is_array())
      fail(ErrorCode::kInvalid, "{}: expected an object with a list \"apply\"", name);
    for (const Json& one : *apply) check_transform_apply(one, name + ".apply");
  }
}

std::vector<std::string> parse_ignore(const Json& section, const std::string& where) {
  std::vector<std::string> ignore;
  const Json* list = member(section, "ignore");
  if (!list) return ignore;
  if (!list->is_array())
    fail(ErrorCode::kInvalid, "{}: ignore is {}, expected a list of strings", where, shown(*list));
  for (const Json& text : *list) {
    if (!text.is_string())
      fail(ErrorCode::kInvalid, "{}: ignore holds {}, expected strings only", where, shown(text));
    ignore.push_back(text.get<std::string>());
  }
  return ignore;
}

// The model-wide format counts for groups that name none, unless it is one of the two names that say nothing.
void fill_format(SchemeGroup* group, const std::string& model_format, const std::string& where) {
  Scheme& scheme = group->scheme;
  if (!scheme.weights) return;
  const bool says_nothing =
      model_format.empty() || model_format == "mixed-precision" || model_format == "fakequant";
  if (scheme.format.empty())
    scheme.format = says_nothing ? infer_stored_format(scheme, "Linear") : model_format;
  if (format_holds(scheme.format, scheme)) return;
  if (scheme.format == "dense")
    fail(ErrorCode::kUnsupported,
         "{}: format is \"dense\" but weights are quantized ({}): the checkpoint holds uncompressed weights; "
         "save it "
         "compressed",
         where, describe(scheme));
  fail(ErrorCode::kInvalid, "{}: format \"{}\" cannot hold {}", where, scheme.format, describe(scheme));
}

}  // namespace

PlanRequest QuantConfig::request(const std::string& where) const {
  return {.groups = groups,
          .ignore = ignore,
          .origin = PlanOrigin::kStored,
          .where = where,
          .kv_cache = kv_cache};
}

std::vector<SchemeGroup> parse_config_groups(const Json& groups, const std::string& where) {
  if (!groups.is_object())
    fail(ErrorCode::kInvalid, "{} is {}, expected an object of groups", where, shown(groups));
  std::vector<SchemeGroup> list;
  for (const auto& item : groups.items()) {
    const std::string inner = where + "." + item.key();
    SchemeGroup group{.name = item.key()};
    if (item.value().is_array()) {
      group.scheme = find_preset(item.key(), where).scheme;
      group.targets = parse_targets(Json{{"targets", item.value()}}, inner);
    } else {
      group.scheme = parse_scheme(item.value(), inner);
      group.targets = parse_targets(item.value(), inner);
    }
    list.push_back(std::move(group));
  }
  return list;
}

std::optional<QuantConfig> read_quant_config(const Json& config, const std::string& where) {
  std::string path = where;
  const Json* section = find_section(config, &path);
  if (!section) return std::nullopt;
  if (!section->is_object()) fail(ErrorCode::kInvalid, "{} is {}, expected an object", path, shown(*section));
  require_method(*section, path);
  refuse_sparsity(*section, path);
  refuse_online_transforms(*section, path);
  QuantConfig result;
  result.version = optional_string(*section, "version", path).value_or("");
  if (const Json* nested = member(*section, "quantization_config")) {
    section = nested;
    path += ".quantization_config";
    require_method(*section, path);
  }
  result.format = optional_string(*section, "format", path).value_or("");
  if (!result.format.empty() && result.format != "mixed-precision" && result.format != "fakequant")
    require_format(result.format, path + ".format");
  const Json* groups = member(*section, "config_groups");
  if (!groups) fail(ErrorCode::kInvalid, "{}: config_groups is missing", path);
  result.groups = parse_config_groups(*groups, path + ".config_groups");
  for (SchemeGroup& group : result.groups) {
    const std::string inner = path + ".config_groups." + group.name;
    require_supported(group.scheme, inner);
    fill_format(&group, result.format, inner);
  }
  result.ignore = parse_ignore(*section, path);
  if (const Json* kv = member(*section, "kv_cache_scheme"))
    result.kv_cache = parse_quant_args(*kv, ArgsRole::kKvCache, path + ".kv_cache_scheme");
  if (const Json* moe = member(*section, "moe_sparsity_config"); moe && !moe->empty())
    fail(ErrorCode::kUnsupported, "{}: pruned experts (moe_sparsity_config) are not supported", path);
  return result;
}

}  // namespace roundel
