#include "checkpoint/gguf/config_export.h"

#include <nlohmann/json.hpp>

namespace roundel {
namespace {

Json rope_scaling(const GgufRope& rope) {
  if (rope.type == "none") return nullptr;
  // "type" alone: Phi3Config accepts exactly these three fields.
  if (rope.type == "longrope")
    return {{"type", "longrope"}, {"short_factor", rope.short_factor}, {"long_factor", rope.long_factor}};
  Json scaling = {{"rope_type", rope.type}, {"factor", rope.factor}};
  if (rope.original_context) scaling["original_max_position_embeddings"] = *rope.original_context;
  if (rope.type == "llama3") {
    scaling["low_freq_factor"] = rope.low_freq_factor;
    scaling["high_freq_factor"] = rope.high_freq_factor;
  }
  if (rope.beta_fast) scaling["beta_fast"] = *rope.beta_fast;
  if (rope.beta_slow) scaling["beta_slow"] = *rope.beta_slow;
  return scaling;
}

Json or_null(const std::optional<int64_t>& id) {
  return id ? Json(*id) : Json();
}

}  // namespace

Json export_config(const GgufModel& model, const GgufVocab& vocab) {
  Json config = {
      {"architectures", Json::array({std::string(model.arch->hf_class)})},
      {"model_type", std::string(model.arch->hf_type)},
      {"attention_dropout", 0.0},
      {"head_dim", model.head_dim},
      {"hidden_act", "silu"},
      {"hidden_size", model.hidden},
      {"intermediate_size", model.intermediate},
      {"max_position_embeddings", model.context},
      {"num_attention_heads", model.heads},
      {"num_hidden_layers", model.layers},
      {"num_key_value_heads", model.kv_heads},
      {"rms_norm_eps", model.rms_eps},
      {"rope_scaling", rope_scaling(model.rope)},
      {"rope_theta", model.rope.theta},
      {"tie_word_embeddings", model.tied},
      {"torch_dtype", "bfloat16"},
      {"use_cache", true},
      {"vocab_size", model.vocab},
  };
  // Also where there is none: the defaults of Hugging Face's classes are ids of other vocabularies.
  config["bos_token_id"] = or_null(vocab.bos);
  config["eos_token_id"] = or_null(vocab.eos);
  config["pad_token_id"] = or_null(vocab.pad);
  if (model.arch->name == "llama" || model.arch->name == "qwen3")
    config["attention_bias"] = model.attention_bias;
  if (model.arch->name == "llama") config["mlp_bias"] = model.mlp_bias;
  if (model.arch->name == "qwen2" || model.arch->name == "qwen3") config["use_sliding_window"] = false;
  if (model.arch->name == "phi3") {
    config["original_max_position_embeddings"] = model.rope.original_context.value_or(model.context);
    config["sliding_window"] = or_null(model.sliding_window);
    config["partial_rotary_factor"] =
        static_cast<double>(model.rope.dimensions) / static_cast<double>(model.head_dim);
  }
  return config;
}

Json export_generation_config(const GgufVocab& vocab) {
  Json config = {{"_from_model_config", true}};
  if (vocab.bos) config["bos_token_id"] = *vocab.bos;
  if (vocab.stop_ids.size() == 1) config["eos_token_id"] = vocab.stop_ids[0];
  if (vocab.stop_ids.size() > 1) config["eos_token_id"] = vocab.stop_ids;
  if (vocab.pad) config["pad_token_id"] = *vocab.pad;
  return config;
}

}  // namespace roundel
