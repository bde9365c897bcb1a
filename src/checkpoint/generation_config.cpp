#include <nlohmann/json.hpp>

#include "base/error.h"
#include "checkpoint/config_fields.h"
#include "checkpoint/model_config.h"

namespace roundel {

GenerationConfig parse_generation_config(const Json& json, const std::string& where,
                                         const ModelConfig& model) {
  GenerationConfig g;
  g.eos_token_ids = model.eos_token_ids;
  constexpr double kMaxTemperature = 1e4, kMaxPenalty = 1e4, kSmallest = 1e-6;
  g.do_sample = optional_bool(json, "do_sample", where).value_or(g.do_sample);
  g.temperature = optional_number(json, "temperature", where, 0, kMaxTemperature).value_or(g.temperature);
  g.top_p = optional_number(json, "top_p", where, kSmallest, 1).value_or(g.top_p);
  g.top_k = optional_int(json, "top_k", where, -1, INT32_MAX).value_or(g.top_k);
  g.min_p = optional_number(json, "min_p", where, 0, 1).value_or(g.min_p);
  if (g.top_k < 0) g.top_k = 0;  // -1 says "no limit" too
  g.repetition_penalty = optional_number(json, "repetition_penalty", where, kSmallest, kMaxPenalty)
                             .value_or(g.repetition_penalty);
  auto eos = token_ids(json, "eos_token_id", where);
  if (!eos.empty()) g.eos_token_ids = std::move(eos);
  return g;
}

GenerationConfig read_generation_config(const std::filesystem::path& folder, const ModelConfig& model) {
  const std::filesystem::path path = folder / "generation_config.json";
  std::error_code error;
  const auto type = std::filesystem::symlink_status(path, error).type();
  const Json json = type == std::filesystem::file_type::not_found ? Json::object() : read_json_file(path);
  return parse_generation_config(json, path.string(), model);
}

}  // namespace roundel
