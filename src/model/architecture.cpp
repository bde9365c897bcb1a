#include "model/architecture.h"

#include "base/nearest.h"

namespace roundel {

extern const Architecture kLlama, kMistral, kQwen2, kQwen3, kPhi3;

const std::vector<const Architecture*>& architectures() {
  static const std::vector<const Architecture*> list = {&kLlama, &kMistral, &kQwen2, &kQwen3, &kPhi3};
  return list;
}

const Architecture& find_architecture(const Json& config, const std::string& where) {
  const std::string name = architecture_name(config, where);
  std::string known;
  for (const Architecture* a : architectures()) {
    if (a->name == name) return *a;
    known += (known.empty() ? "" : ", ") + std::string(a->name);
  }
  fail(ErrorCode::kUnsupported, "{}: architecture {} is not supported; supported are {}", where, name, known);
}

std::vector<SmoothPair> default_smooth_pairs(const DecoderTraits& traits) {
  const bool qkv = traits.merged_qkv, gate_up = traits.merged_gate_up;
  using Names = std::vector<std::string>;
  return {
      {"input_layernorm",
       qkv ? Names{"self_attn.qkv_proj"} : Names{"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"},
       true},
      {qkv ? "self_attn.qkv_proj" : "self_attn.v_proj", {"self_attn.o_proj"}, false},
      {"post_attention_layernorm",
       gate_up ? Names{"mlp.gate_up_proj"} : Names{"mlp.gate_proj", "mlp.up_proj"}, true},
      {gate_up ? "mlp.gate_up_proj" : "mlp.up_proj", {"mlp.down_proj"}, false}};
}

namespace {

class LayoutBuilder {
 public:
  LayoutBuilder(const DecoderTraits& traits, const ModelConfig& config) : traits_(traits), config_(config) {}

  ModelLayout build() {
    const int64_t hidden = config_.hidden_size;
    layout_.modules.push_back(
        {"model.embed_tokens", "Embedding", config_.vocab_size, hidden, config_.dtype, ""});
    for (int64_t i = 0; i < config_.layers; ++i) layer("model.layers." + std::to_string(i) + ".");
    vector("model.norm.weight", hidden);
    if (!config_.tie_word_embeddings) linear("lm_head", config_.vocab_size, hidden, false, "");
    return std::move(layout_);
  }

 private:
  void linear(const std::string& name, int64_t rows, int64_t cols, bool bias, const std::string& fused) {
    layout_.modules.push_back({name, "Linear", rows, cols, config_.dtype, fused});
    if (bias) vector(name + ".bias", rows);
  }
  void vector(const std::string& name, int64_t size) { layout_.vectors.push_back({name, size}); }

  void layer(const std::string& p) {
    const int64_t hidden = config_.hidden_size, inter = config_.intermediate_size;
    const int64_t q = config_.heads * config_.head_dim, kv = config_.kv_heads * config_.head_dim;
    const std::string a = p + "self_attn.", m = p + "mlp.";
    vector(p + "input_layernorm.weight", hidden);
    if (traits_.merged_qkv) {
      linear(a + "qkv_proj", q + 2 * kv, hidden, traits_.qkv_bias, "");
    } else {
      linear(a + "q_proj", q, hidden, traits_.qkv_bias, a + "qkv_proj");
      linear(a + "k_proj", kv, hidden, traits_.qkv_bias, a + "qkv_proj");
      linear(a + "v_proj", kv, hidden, traits_.qkv_bias, a + "qkv_proj");
    }
    if (traits_.qk_norm) {
      vector(a + "q_norm.weight", config_.head_dim);
      vector(a + "k_norm.weight", config_.head_dim);
    }
    linear(a + "o_proj", hidden, q, traits_.o_bias, "");
    vector(p + "post_attention_layernorm.weight", hidden);
    if (traits_.merged_gate_up) {
      linear(m + "gate_up_proj", 2 * inter, hidden, traits_.mlp_bias, "");
    } else {
      linear(m + "gate_proj", inter, hidden, traits_.mlp_bias, m + "gate_up_proj");
      linear(m + "up_proj", inter, hidden, traits_.mlp_bias, m + "gate_up_proj");
    }
    linear(m + "down_proj", hidden, inter, traits_.mlp_bias, "");
  }

  const DecoderTraits& traits_;
  const ModelConfig& config_;
  ModelLayout layout_;
};

}  // namespace

ModelLayout make_layout(const DecoderTraits& traits, const ModelConfig& config) {
  return LayoutBuilder(traits, config).build();
}

}  // namespace roundel
