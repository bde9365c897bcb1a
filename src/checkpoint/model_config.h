// config.json and generation_config.json of a Hugging Face decoder model, read into checked fields.
//
//   ModelConfig config = parse_model_config(checkpoint.config(), "config.json");
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/json.h"

namespace roundel {

// Rotary embedding. Types: default, linear, llama3, longrope, dynamic, yarn. Both the newer `rope_parameters` and the older
// `rope_theta` + `rope_scaling` (with `rope_type` or `type`) are read.
struct RopeConfig {
  std::string type = "default";
  double theta = 10000.0;
  double factor = 1.0;
  double low_freq_factor = 1.0, high_freq_factor = 4.0;     // llama3
  int64_t original_max_position = 0;                         // llama3, longrope, yarn; 0: not given
  std::vector<double> short_factor, long_factor;             // longrope
  std::optional<double> attention_factor;                    // longrope, yarn
  double beta_fast = 32, beta_slow = 1;                      // yarn
  double partial_rotary_factor = 1.0;                        // share of head_dim that is rotated
};

struct ModelConfig {
  std::string architecture;  // "LlamaForCausalLM"
  std::string model_type;
  int64_t hidden_size = 0, intermediate_size = 0, layers = 0;
  int64_t heads = 0, kv_heads = 0, head_dim = 0;
  int64_t vocab_size = 0, max_position = 0;
  double rms_norm_eps = 1e-6;
  std::string activation = "silu";
  RopeConfig rope;
  bool tie_word_embeddings = false;
  bool attention_bias = false;  // of q, k, v (and o where the architecture says so)
  bool mlp_bias = false;
  int64_t sliding_window = 0;                // 0: none
  std::vector<std::string> layer_types;      // "full_attention" / "sliding_attention"; empty: all the same
  DType dtype = DType::kBF16;                // torch_dtype / dtype
  std::optional<int64_t> bos_token_id, pad_token_id;
  std::vector<int64_t> eos_token_ids;
};

// Checks every value (reliability C2, C4): no zero heads, whole head groups, even head_dim, sane sizes. Fields that only
// some architectures have are read when present. Throws Error(kInvalid, kUnsupported).
ModelConfig parse_model_config(const Json& config, const std::string& where);

struct GenerationConfig {
  bool do_sample = false;
  double temperature = 1.0, top_p = 1.0;
  int64_t top_k = 0;  // 0: no limit
  double repetition_penalty = 1.0;
  std::vector<int64_t> eos_token_ids;  // of generation_config.json, else of config.json
};
GenerationConfig read_generation_config(const std::filesystem::path& folder, const ModelConfig& model);

}  // namespace roundel
