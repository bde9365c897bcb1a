#include "checkpoint/rope_config.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "checkpoint/config_fields.h"
#include "checkpoint/quoted.h"

namespace roundel {
namespace {

constexpr double kMaxFactor = 1e6;
constexpr int64_t kMaxLength = int64_t{1} << 30;
constexpr std::array<std::string_view, 6> kTypes = {"default",  "linear",  "llama3",
                                                    "longrope", "dynamic", "yarn"};
// "finetuned" is a note; every other key of this list is read.
constexpr std::array<std::string_view, 17> kKeys = {
    "rope_type",       "type",        "rope_theta",       "factor",
    "low_freq_factor", "long_factor", "high_freq_factor", "original_max_position_embeddings",
    "short_factor",    "beta_fast",   "attention_factor", "partial_rotary_factor",
    "beta_slow",       "mscale",      "mscale_all_dim",   "truncate",
    "finetuned"};

template <size_t N>
bool contains(const std::array<std::string_view, N>& list, std::string_view word) {
  return std::find(list.begin(), list.end(), word) != list.end();
}

void check_keys(const Json& section, const std::string& where) {
  for (const auto& [key, value] : section.items()) {
    if (value.is_object())
      fail(ErrorCode::kUnsupported,
           "{}: {} has rope values of its own; values per layer type are not supported", where,
           in_quotes(key));
    if (!contains(kKeys, key))
      fail(ErrorCode::kUnsupported, "{}: unknown key {}; it may change the rotation, so it is not ignored",
           where, in_quotes(key));
  }
}

std::string read_type(const Json& section, const ModelConfig& model, const std::string& where) {
  auto type = optional_string(section, "rope_type", where);
  if (!type) type = optional_string(section, "type", where);
  if (!type) return "default";
  if (*type == "su") return "longrope";                                  // its name in the first Phi-3 files
  if (*type == "yarn" && model.model_type == "phi3") return "longrope";  // the same
  if (!contains(kTypes, *type))
    fail(ErrorCode::kUnsupported, "{}: rope_type {} is not supported; supported are {}", where,
         in_quotes(*type), fmt::join(kTypes, ", "));
  return *type;
}

void read_yarn(const Json& section, RopeConfig& rope, const std::string& where) {
  rope.beta_fast = optional_number(section, "beta_fast", where, 1e-3, kMaxFactor).value_or(32);
  rope.beta_slow = optional_number(section, "beta_slow", where, 1e-3, kMaxFactor).value_or(1);
  if (rope.beta_fast < rope.beta_slow)
    fail(ErrorCode::kInvalid, "{}: beta_fast is {}, less than beta_slow {}", where, rope.beta_fast,
         rope.beta_slow);
  if (!optional_bool(section, "truncate", where).value_or(true))
    fail(ErrorCode::kUnsupported, "{}: truncate false is not supported", where);
  const double mscale = optional_number(section, "mscale", where, 0, kMaxFactor).value_or(0);
  const double all = optional_number(section, "mscale_all_dim", where, 0, kMaxFactor).value_or(0);
  if (rope.attention_factor || mscale == 0 || all == 0) return;
  auto scaled = [&](double m) { return rope.factor <= 1 ? 1.0 : 0.1 * m * std::log(rope.factor) + 1.0; };
  rope.attention_factor = scaled(mscale) / scaled(all);  // as in DeepSeek
}

void read_llama3(const Json& section, RopeConfig& rope, const std::string& where) {
  for (const char* field : {"low_freq_factor", "high_freq_factor"})
    if (!optional_number(section, field, where, 1e-3, kMaxFactor))
      fail(ErrorCode::kInvalid, "{}: {} is missing, rope_type llama3 needs it", where, field);
  rope.low_freq_factor = *optional_number(section, "low_freq_factor", where, 1e-3, kMaxFactor);
  rope.high_freq_factor = *optional_number(section, "high_freq_factor", where, 1e-3, kMaxFactor);
  if (rope.high_freq_factor <= rope.low_freq_factor)
    fail(ErrorCode::kInvalid, "{}: high_freq_factor is {}, expected more than low_freq_factor {}", where,
         rope.high_freq_factor, rope.low_freq_factor);
}

// The length a scaled model was first trained with: beside the section (Phi-3), in it, or max_position_embeddings.
int64_t read_original_length(const Json& section, const Json& config, const ModelConfig& model,
                             const std::string& where) {
  const char* field = "original_max_position_embeddings";
  const auto outside = optional_int(config, field, where, 2, kMaxLength);
  const auto inside = optional_int(section, field, where, 2, kMaxLength);
  return outside ? *outside : inside.value_or(std::max<int64_t>(model.max_position, 2));
}

void read_scaling(const Json& section, const Json& config, const ModelConfig& model, RopeConfig& rope,
                  const std::string& where) {
  const auto factor = optional_number(section, "factor", where, 1, kMaxFactor);
  const bool has_original = rope.type == "llama3" || rope.type == "longrope" || rope.type == "yarn";
  if (has_original) {
    rope.original_max_position = read_original_length(section, config, model, where);
    rope.attention_factor = optional_number(section, "attention_factor", where, 1e-6, kMaxFactor);
  }
  if (factor) {
    rope.factor = *factor;
  } else if (rope.type == "longrope" || rope.type == "yarn") {
    rope.factor = std::max(
        1.0, static_cast<double>(model.max_position) / static_cast<double>(rope.original_max_position));
  } else {
    fail(ErrorCode::kInvalid, "{}: factor is missing, rope_type {} needs it", where, rope.type);
  }
  const int64_t rotated = rotated_dims(model.head_dim, rope.partial_rotary_factor, where);
  if (rope.type == "llama3") read_llama3(section, rope, where);
  if (rope.type == "yarn") read_yarn(section, rope, where);
  if (rope.type == "dynamic" && rotated < 4)
    fail(ErrorCode::kInvalid, "{}: rope_type dynamic needs at least 4 rotated dimensions, there are {}",
         where, rotated);
  if (rope.type == "longrope") {
    rope.short_factor = positive_numbers(section, "short_factor", where, static_cast<size_t>(rotated / 2));
    rope.long_factor = positive_numbers(section, "long_factor", where, static_cast<size_t>(rotated / 2));
  }
}

// `name` is the section's field.
RopeConfig parse_section(const Json& section, const char* name, const Json& config, const ModelConfig& model,
                         const std::string& file) {
  const std::string where = file + ": " + name;
  check_keys(section, where);
  RopeConfig rope;
  constexpr double kMaxTheta = 1e15, kMinTheta = 1.001;  // the logarithm of theta is a divisor
  const auto inside = optional_number(section, "rope_theta", where, kMinTheta, kMaxTheta);
  const auto outside = optional_number(config, "rope_theta", file, kMinTheta, kMaxTheta);
  rope.theta = inside ? *inside : outside.value_or(10000.0);
  const auto part = optional_number(section, "partial_rotary_factor", where, 0, 1);
  rope.partial_rotary_factor =
      part ? *part : optional_number(config, "partial_rotary_factor", file, 0, 1).value_or(1);
  rotated_dims(model.head_dim, rope.partial_rotary_factor, file);
  rope.type = read_type(section, model, where);
  if (rope.type != "default") read_scaling(section, config, model, rope, where);
  return rope;
}

}  // namespace

int64_t rotated_dims(int64_t head_dim, double partial_rotary_factor, const std::string& where) {
  const auto dims = static_cast<int64_t>(static_cast<double>(head_dim) * partial_rotary_factor);
  if (dims < 2 || dims % 2 != 0)
    fail(ErrorCode::kInvalid,
         "{}: head_dim {} with partial_rotary_factor {} rotates {} dimensions, expected an even "
         "number, at least 2",
         where, head_dim, partial_rotary_factor, dims);
  return dims;
}

RopeConfig parse_rope_config(const Json& config, const ModelConfig& model, const std::string& where) {
  const Json* newer = optional_object(config, "rope_parameters", where);
  const Json* older = optional_object(config, "rope_scaling", where);
  if (newer && newer->empty()) newer = nullptr;
  if (older && older->empty()) older = nullptr;
  if (!newer && !older) return parse_section(Json::object(), "rope_parameters", config, model, where);
  if (!older) return parse_section(*newer, "rope_parameters", config, model, where);
  RopeConfig rope = parse_section(*older, "rope_scaling", config, model, where);
  if (newer && parse_section(*newer, "rope_parameters", config, model, where) != rope)
    fail(ErrorCode::kInvalid, "{}: rope_parameters and rope_scaling say different things; keep one of them",
         where);
  return rope;
}

}  // namespace roundel
