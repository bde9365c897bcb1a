// config.json and generation_config.json: what is accepted keeps the promises that model code builds on.
#include <cmath>
#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "checkpoint/model_config.h"
#include "json_mutator.h"

namespace {

using namespace roundel;

const fuzz::Words kWords = {"architectures",
                            "LlamaForCausalLM",
                            "model_type",
                            "llama",
                            "mistral",
                            "qwen2",
                            "qwen3",
                            "phi3",
                            "hidden_size",
                            "intermediate_size",
                            "num_hidden_layers",
                            "num_attention_heads",
                            "num_key_value_heads",
                            "head_dim",
                            "vocab_size",
                            "max_position_embeddings",
                            "rms_norm_eps",
                            "hidden_act",
                            "silu",
                            "swish",
                            "gelu_pytorch_tanh",
                            "rope_theta",
                            "rope_scaling",
                            "rope_parameters",
                            "rope_type",
                            "type",
                            "factor",
                            "low_freq_factor",
                            "high_freq_factor",
                            "original_max_position_embeddings",
                            "short_factor",
                            "long_factor",
                            "attention_factor",
                            "beta_fast",
                            "beta_slow",
                            "mscale",
                            "mscale_all_dim",
                            "partial_rotary_factor",
                            "default",
                            "linear",
                            "llama3",
                            "longrope",
                            "su",
                            "dynamic",
                            "yarn",
                            "sliding_window",
                            "use_sliding_window",
                            "max_window_layers",
                            "layer_types",
                            "full_attention",
                            "sliding_attention",
                            "torch_dtype",
                            "dtype",
                            "bfloat16",
                            "float16",
                            "eos_token_id",
                            "bos_token_id",
                            "pad_token_id",
                            "tie_word_embeddings",
                            "quantization_config",
                            "temperature",
                            "top_p",
                            "top_k",
                            "do_sample",
                            "repetition_penalty"};

void require(bool holds) {
  if (!holds) __builtin_trap();
}

void check_rope(const ModelConfig& c) {
  const RopeConfig& r = c.rope;
  const int64_t rotated = c.rotated_dims();
  require(rotated >= 2 && rotated % 2 == 0 && rotated <= c.head_dim);
  require(std::isfinite(r.theta) && r.theta > 1 && r.factor >= 1 && std::isfinite(r.factor));
  if (r.type == "longrope") {
    require(r.short_factor.size() == static_cast<size_t>(rotated / 2) &&
            r.long_factor.size() == r.short_factor.size());
    for (const double v : r.long_factor) require(v > 0 && std::isfinite(v));
  }
  if (r.type == "llama3" || r.type == "yarn" || r.type == "longrope") require(r.original_max_position > 1);
  if (r.type == "llama3") require(r.high_freq_factor > r.low_freq_factor && r.low_freq_factor > 0);
  if (r.type == "dynamic") require(rotated > 2);
}

}  // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  return fuzz::mutate_json_bytes(data, size, max_size, seed, kWords);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const Json json = parse_json(std::string_view(reinterpret_cast<const char*>(data), size), "config.json");
    const ModelConfig c = parse_model_config(json, "config.json");
    require(c.heads > 0 && c.kv_heads > 0 && c.heads % c.kv_heads == 0 && c.head_dim % 2 == 0);
    require(c.layers > 0 && c.vocab_size > 0 && c.hidden_size > 0 && c.rms_norm_eps > 0);
    require(c.layer_types.empty() || c.layer_types.size() == static_cast<size_t>(c.layers));
    for (const int64_t id : c.eos_token_ids) require(id >= 0);
    check_rope(c);
    const GenerationConfig g = parse_generation_config(json, "generation_config.json", c);
    require(g.temperature >= 0 && g.top_p > 0 && g.top_p <= 1 && g.top_k >= 0 && g.repetition_penalty > 0);
  } catch (const Error&) {
  }
  return 0;
}
