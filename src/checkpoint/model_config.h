// config.json and generation_config.json of a Hugging Face decoder model, read into checked fields.
//
//   ModelConfig config = parse_model_config(checkpoint.config(), "config.json");
//   GenerationConfig generation = read_generation_config(checkpoint.folder(), config);
#pragma once
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/json.h"

namespace roundel {

// Rotary embedding. Types: default, linear, llama3, longrope, dynamic, yarn. Both the newer `rope_parameters` and the
// older `rope_theta` + `rope_scaling` (with `rope_type` or `type`) are read. What a type needs and the file leaves out is
// filled in as transformers does it.
struct RopeConfig {
  std::string type = "default";
  double theta = 10000.0;
  double factor =
      1.0;  // linear, dynamic, llama3, yarn, longrope (there max_position / original_max_position by default)
  double low_freq_factor = 1.0, high_freq_factor = 4.0;  // llama3
  int64_t original_max_position = 0;                     // llama3, longrope, yarn; 0 for the others
  std::vector<double> short_factor, long_factor;         // longrope: one for each pair of rotated dimensions
  std::optional<double> attention_factor;                // longrope, yarn; absent: by the type's formula
  double beta_fast = 32, beta_slow = 1;                  // yarn
  double partial_rotary_factor = 1.0;                    // share of head_dim that is rotated

  bool operator==(const RopeConfig&) const = default;
};

struct ModelConfig {
  std::string architecture;  // "LlamaForCausalLM"
  std::string model_type;
  int64_t hidden_size = 0, intermediate_size = 0, layers = 0;
  int64_t heads = 0, kv_heads = 0, head_dim = 0;
  int64_t vocab_size = 0, max_position = 0;
  double rms_norm_eps = 1e-6;
  std::string activation = "silu";  // or "gelu_pytorch_tanh"
  RopeConfig rope;
  bool tie_word_embeddings = false;
  bool attention_bias =
      false;  // the file's word for q, k, v and o; what an architecture always has is its own business
  bool mlp_bias = false;
  int64_t sliding_window = 0;  // tokens a layer looks back, itself included; 0: all
  std::vector<std::string>
      layer_types;  // "full_attention" / "sliding_attention"; empty: all layers as sliding_window says
  DType dtype = DType::kBF16;  // torch_dtype / dtype
  std::optional<int64_t> bos_token_id, pad_token_id;
  std::vector<int64_t> eos_token_ids;
  bool quantized = false;  // holds quantization_config (or compression_config)

  int64_t rotated_dims() const;  // of each head: even, at most head_dim
};

// The first of `architectures`. Throws Error(kInvalid) when there is none.
std::string architecture_name(const Json& config, const std::string& where);

// Checks every value (reliability C2, C4): no zero heads, whole head groups, even head_dim, sane sizes. Fields that only
// some architectures have are read when present; whether the architecture is known is not decided here.
// Throws Error(kInvalid, kUnsupported).
ModelConfig parse_model_config(const Json& config, const std::string& where);

struct GenerationConfig {
  bool do_sample = false;
  double temperature = 1.0, top_p = 1.0;
  int64_t top_k = 0;  // 0: no limit
  double min_p = 0;
  double repetition_penalty = 1.0;
  std::vector<int64_t> eos_token_ids;  // of generation_config.json, else of config.json
};
// The defaults above where the file or a field is absent. Throws Error(kInvalid) for values that mean nothing.
GenerationConfig read_generation_config(const std::filesystem::path& folder, const ModelConfig& model);
GenerationConfig parse_generation_config(const Json& config, const std::string& where,
                                         const ModelConfig& model);

}  // namespace roundel
