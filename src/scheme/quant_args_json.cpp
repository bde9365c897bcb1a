#include <algorithm>
#include <charconv>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/nearest.h"
#include "scheme/quant_args.h"
#include "scheme/storage_format.h"

namespace roundel {
namespace {

constexpr int64_t kMaxSize = std::numeric_limits<int32_t>::max();
constexpr int kMaxBits = 64;

constexpr std::pair<std::string_view, Strategy> kStrategies[] = {
    {"tensor", Strategy::kTensor},      {"channel", Strategy::kChannel},
    {"group", Strategy::kGroup},        {"block", Strategy::kBlock},
    {"token", Strategy::kToken},        {"tensor_group", Strategy::kTensorGroup},
    {"attn_head", Strategy::kAttnHead},
};

// Names of torch types, left as people write them, right as torch prints them.
constexpr std::pair<std::string_view, std::string_view> kTorchTypes[] = {
    {"bool", "bool"},
    {"uint8", "uint8"},
    {"int8", "int8"},
    {"uint16", "uint16"},
    {"int16", "int16"},
    {"short", "int16"},
    {"uint32", "uint32"},
    {"int32", "int32"},
    {"int", "int32"},
    {"uint64", "uint64"},
    {"int64", "int64"},
    {"long", "int64"},
    {"float16", "float16"},
    {"half", "float16"},
    {"bfloat16", "bfloat16"},
    {"float32", "float32"},
    {"float", "float32"},
    {"float64", "float64"},
    {"double", "float64"},
    {"float8_e4m3fn", "float8_e4m3fn"},
    {"float8_e4m3fnuz", "float8_e4m3fnuz"},
    {"float8_e5m2", "float8_e5m2"},
    {"float8_e5m2fnuz", "float8_e5m2fnuz"},
    {"float8_e8m0fnu", "float8_e8m0fnu"},
};

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return text;
}

std::string shown(const Json& value) {
  const std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
  return text.size() > 80 ? text.substr(0, 77) + "..." : text;
}

void require_known_keys(const Json& json, const std::vector<std::string>& known, const std::string& where) {
  if (!json.is_object()) fail(ErrorCode::kInvalid, "{}: expected an object, found {}", where, shown(json));
  for (const auto& item : json.items()) {
    if (std::find(known.begin(), known.end(), item.key()) != known.end()) continue;
    fail(ErrorCode::kInvalid, "{}: unknown key \"{}\"{} (known keys: {})", where, item.key(),
         did_you_mean(item.key(), known), fmt::join(known, ", "));
  }
}

// These keys have a default, but null is not a value of theirs.
void require_not_null(const Json& json, const std::string& where) {
  for (const char* key : {"num_bits", "type", "symmetric", "dynamic", "observer_kwargs"}) {
    auto it = json.find(key);
    if (it != json.end() && it->is_null())
      fail(ErrorCode::kInvalid, "{}: {} is null; leave it out for its default", where, key);
  }
}

NumberType parse_type(const std::string& text, const std::string& where) {
  const std::string name = lower(text);
  if (name == "int") return NumberType::kInt;
  if (name == "float") return NumberType::kFloat;
  fail(ErrorCode::kInvalid, "{}: type is \"{}\", expected \"int\" or \"float\"", where, text);
}

Strategy parse_strategy(const std::string& text, const std::string& where) {
  std::vector<std::string> names;
  for (const auto& [name, strategy] : kStrategies) {
    if (name == lower(text)) return strategy;
    names.emplace_back(name);
  }
  fail(ErrorCode::kInvalid, "{}: strategy is \"{}\"{} (known: {})", where, text, did_you_mean(text, names),
       fmt::join(names, ", "));
}

std::string parse_torch_type(const Json& json, const char* field, const std::string& where) {
  const std::optional<std::string> text = optional_string(json, field, where);
  if (!text) return "";
  const std::string name = text->starts_with("torch.") ? text->substr(6) : *text;
  std::vector<std::string> names;
  for (const auto& [spelling, printed] : kTorchTypes) {
    if (spelling == name) return "torch." + std::string(printed);
    names.emplace_back(spelling);
  }
  fail(ErrorCode::kInvalid, "{}: {} is \"{}\", not a number type{}", where, field, *text,
       did_you_mean(name, names));
}

DynamicMode parse_dynamic(const Json& json, const std::string& where) {
  auto it = json.find("dynamic");
  if (it == json.end()) return DynamicMode::kStatic;
  if (it->is_boolean()) return it->get<bool>() ? DynamicMode::kDynamic : DynamicMode::kStatic;
  if (it->is_string() && lower(it->get<std::string>()) == "local") return DynamicMode::kLocal;
  fail(ErrorCode::kInvalid, "{}: dynamic is {}, expected true, false or \"local\"", where, shown(*it));
}

ActOrder parse_actorder(const Json& json, const std::string& where) {
  auto it = json.find("actorder");
  if (it == json.end() || it->is_null()) return ActOrder::kNone;
  if (it->is_boolean()) return it->get<bool>() ? ActOrder::kGroup : ActOrder::kNone;
  const std::string name = it->is_string() ? it->get<std::string>() : "";
  if (name == "static" || name == "weight") return ActOrder::kStatic;
  if (name == "group" || name == "dynamic") return ActOrder::kGroup;
  fail(ErrorCode::kInvalid, "{}: actorder is {}, expected null, \"static\" (or \"weight\") or \"group\"",
       where, shown(*it));
}

// "128x64" to its two numbers, or an empty list.
std::vector<Json> split_block(const std::string& text) {
  std::vector<Json> sizes;
  const char *at = text.data(), *end = at + text.size();
  while (true) {
    uint32_t size = 0;
    const auto [stop, error] = std::from_chars(at, end, size);
    if (error != std::errc()) return {};
    sizes.push_back(size);
    if (stop == end) return sizes;
    if (*stop != 'x') return {};
    at = stop + 1;
  }
}

void parse_block(const Json& json, const std::string& where, QuantArgs* args) {
  auto it = json.find("block_structure");
  if (it == json.end() || it->is_null()) return;
  std::vector<Json> sizes;
  if (it->is_array()) sizes.assign(it->begin(), it->end());
  if (it->is_string()) sizes = split_block(it->get<std::string>());
  bool good = sizes.size() == 2;
  for (const Json& size : sizes) good = good && size.is_number_integer() && size > 0 && size <= kMaxSize;
  if (!good)
    fail(ErrorCode::kInvalid, "{}: block_structure is {}, expected [rows, columns], both from 1 to {}", where,
         shown(*it), kMaxSize);
  args->block_rows = sizes[0].get<int64_t>();
  args->block_cols = sizes[1].get<int64_t>();
}

// The rules that tie fields together, as in the original's model validator.
void check_combination(const QuantArgs& a, std::optional<int64_t> group_size, const std::string& where) {
  const std::string_view strategy = strategy_name(a.strategy);
  const bool grouped = a.strategy == Strategy::kGroup || a.strategy == Strategy::kTensorGroup;
  const bool dynamic = a.dynamic != DynamicMode::kStatic;
  if (a.strategy == Strategy::kToken && !dynamic)
    fail(ErrorCode::kInvalid, "{}: strategy \"token\" needs \"dynamic\": true", where);
  if (grouped && group_size.value_or(0) <= 0)
    fail(ErrorCode::kInvalid, "{}: strategy \"{}\" needs a group_size above 0", where, strategy);
  if (!grouped && group_size.value_or(0) > 0)
    fail(ErrorCode::kInvalid, "{}: group_size {} needs strategy \"group\", not \"{}\"", where, *group_size,
         strategy);
  if (a.strategy == Strategy::kBlock && a.block_rows == 0)
    fail(ErrorCode::kInvalid, "{}: strategy \"block\" needs block_structure, [128, 128] for example", where);
  if (a.strategy != Strategy::kBlock && a.block_rows != 0)
    fail(ErrorCode::kInvalid, "{}: block_structure needs strategy \"block\", not \"{}\"", where, strategy);
  if (dynamic && a.strategy != Strategy::kToken && a.strategy != Strategy::kTensor && !grouped)
    fail(ErrorCode::kInvalid,
         "{}: \"dynamic\" needs strategy token, tensor, group or tensor_group, not \"{}\"", where, strategy);
  if (a.dynamic == DynamicMode::kLocal && a.strategy != Strategy::kTensorGroup)
    fail(ErrorCode::kInvalid, "{}: \"dynamic\": \"local\" needs strategy \"tensor_group\", not \"{}\"", where,
         strategy);
  if (a.actorder == ActOrder::kGroup && !grouped)
    fail(ErrorCode::kInvalid, "{}: actorder \"group\" needs strategy \"group\", not \"{}\"", where, strategy);
  if (a.type == NumberType::kFloat && a.num_bits != 4 && a.num_bits != 6 && a.num_bits != 8)
    fail(ErrorCode::kInvalid, "{}: num_bits is {}, float numbers have 4, 6 or 8", where, a.num_bits);
}

void check_role(const QuantArgs& a, ArgsRole role, const std::string& where) {
  if (role == ArgsRole::kInput && (a.strategy == Strategy::kChannel || a.strategy == Strategy::kBlock))
    fail(ErrorCode::kInvalid,
         "{}: strategy \"{}\" does not exist for input activations (token, tensor, group, tensor_group, "
         "attn_head)",
         where, strategy_name(a.strategy));
  if ((role == ArgsRole::kInput || role == ArgsRole::kOutput) && a.actorder != ActOrder::kNone)
    fail(ErrorCode::kInvalid, "{}: actorder is for weights only", where);
}

}  // namespace

QuantArgs parse_quant_args(const Json& json, ArgsRole role, const std::string& where) {
  static const std::vector<std::string> kKeys = {"num_bits",    "type",     "symmetric", "group_size",
                                                 "strategy",    "dynamic",  "actorder",  "block_structure",
                                                 "scale_dtype", "zp_dtype", "observer",  "observer_kwargs"};
  require_known_keys(json, kKeys, where);
  require_not_null(json, where);
  QuantArgs args;
  args.num_bits = static_cast<int>(optional_int(json, "num_bits", where, 1, kMaxBits).value_or(8));
  args.type = parse_type(optional_string(json, "type", where).value_or("int"), where);
  args.symmetric = optional_bool(json, "symmetric", where).value_or(true);
  const std::optional<int64_t> group_size = optional_int(json, "group_size", where, -1, kMaxSize);
  if (const auto strategy = optional_string(json, "strategy", where)) {
    args.strategy = parse_strategy(*strategy, where);
  } else if (group_size) {
    if (*group_size == 0)
      fail(ErrorCode::kInvalid, "{}: group_size is 0, expected a size above 0, or -1 for one scale a row",
           where);
    args.strategy = *group_size > 0 ? Strategy::kGroup : Strategy::kChannel;
  }
  args.group_size = std::max<int64_t>(group_size.value_or(0), 0);
  parse_block(json, where, &args);
  args.dynamic = parse_dynamic(json, where);
  args.actorder = parse_actorder(json, where);
  args.scale_dtype = parse_torch_type(json, "scale_dtype", where);
  const std::string zp_dtype = parse_torch_type(json, "zp_dtype", where);
  if (!args.symmetric) args.zp_dtype = zp_dtype;  // there is no zero point otherwise
  args.observer = optional_string(json, "observer", where).value_or("");
  if (auto it = json.find("observer_kwargs"); it != json.end()) {
    if (!it->is_object())
      fail(ErrorCode::kInvalid, "{}: observer_kwargs is {}, expected an object", where, shown(*it));
    if (!it->empty()) args.observer_kwargs = it->dump(-1, ' ', false, Json::error_handler_t::replace);
  }
  check_combination(args, group_size, where);
  check_role(args, role, where);
  return args;
}

Json to_json(const QuantArgs& a) {
  Json json = {{"num_bits", a.num_bits},   {"type", a.type == NumberType::kInt ? "int" : "float"},
               {"symmetric", a.symmetric}, {"strategy", std::string(strategy_name(a.strategy))},
               {"group_size", nullptr},    {"dynamic", a.dynamic == DynamicMode::kDynamic}};
  if (a.group_size > 0) json["group_size"] = a.group_size;
  if (a.dynamic == DynamicMode::kLocal) json["dynamic"] = "local";
  if (a.strategy == Strategy::kBlock) json["block_structure"] = {a.block_rows, a.block_cols};
  if (a.actorder != ActOrder::kNone) json["actorder"] = a.actorder == ActOrder::kStatic ? "static" : "group";
  if (!a.scale_dtype.empty()) json["scale_dtype"] = a.scale_dtype;
  if (!a.zp_dtype.empty()) json["zp_dtype"] = a.zp_dtype;
  if (!a.observer.empty()) json["observer"] = a.observer;
  if (!a.observer_kwargs.empty()) json["observer_kwargs"] = parse_json(a.observer_kwargs, "observer_kwargs");
  return json;
}

Scheme parse_scheme(const Json& json, const std::string& where) {
  static const std::vector<std::string> kKeys = {"targets", "weights", "input_activations",
                                                 "output_activations", "format"};
  require_known_keys(json, kKeys, where);
  Scheme scheme;
  auto part = [&](const char* key, ArgsRole role) -> std::optional<QuantArgs> {
    auto it = json.find(key);
    if (it == json.end() || it->is_null()) return std::nullopt;
    return parse_quant_args(*it, role, where + "." + key);
  };
  scheme.weights = part("weights", ArgsRole::kWeights);
  scheme.input = part("input_activations", ArgsRole::kInput);
  scheme.output = part("output_activations", ArgsRole::kOutput);
  scheme.format = optional_string(json, "format", where).value_or("");
  if (scheme.format == "mixed-precision")
    fail(ErrorCode::kInvalid, "{}: format \"mixed-precision\" is for a whole model, not for one group",
         where);
  if (!scheme.format.empty()) require_format(scheme.format, where);
  return scheme;
}

std::vector<std::string> parse_targets(const Json& json, const std::string& where) {
  auto it = json.is_object() ? json.find("targets") : json.end();
  if (it == json.end()) fail(ErrorCode::kInvalid, "{}: targets are missing, [\"Linear\"] for example", where);
  if (!it->is_array())
    fail(ErrorCode::kInvalid, "{}: targets is {}, expected a list of strings", where, shown(*it));
  std::vector<std::string> targets;
  for (const Json& target : *it) {
    if (!target.is_string())
      fail(ErrorCode::kInvalid, "{}: targets holds {}, expected strings only", where, shown(target));
    targets.push_back(target.get<std::string>());
  }
  return targets;
}

}  // namespace roundel
