#include "model/decoder.h"

namespace roundel {
namespace {

std::unique_ptr<Linear> make_linear(const Plan& plan, const std::string& name) {
  const PlanEntry* entry = plan.find(name);
  CHECK(entry != nullptr);
  const ModuleInfo& m = entry->module;
  return std::make_unique<Linear>(LinearSpec{name, m.rows, m.cols, entry->scheme, m.dtype});
}

RopeSettings rope_settings(const ModelConfig& config) {
  const RopeConfig& r = config.rope;
  RopeSettings s;
  s.type = r.type;
  s.theta = r.theta;
  s.factor = r.factor;
  s.low_freq_factor = r.low_freq_factor;
  s.high_freq_factor = r.high_freq_factor;
  s.original_max_position = r.original_max_position > 0 ? r.original_max_position : config.max_position;
  s.short_factor = r.short_factor;
  s.long_factor = r.long_factor;
  s.attention_factor = r.attention_factor.value_or(0);
  s.beta_fast = r.beta_fast;
  s.beta_slow = r.beta_slow;
  s.rotated = static_cast<int64_t>(static_cast<double>(config.head_dim) * r.partial_rotary_factor) / 2 * 2;
  s.max_position = config.max_position;
  return s;
}

}  // namespace

std::unique_ptr<Rope> make_rope(const ModelConfig& config) {
  return std::make_unique<Rope>(rope_settings(config));
}

DecoderLayer build_layer(const ModelFiles& files, const Plan& plan, int64_t index) {
  const std::string p = "model.layers." + std::to_string(index) + ".";
  DecoderLayer layer;
  if (files.traits.merged_qkv) {
    layer.qkv = make_linear(plan, p + "self_attn.qkv_proj");
  } else {
    layer.q = make_linear(plan, p + "self_attn.q_proj");
    layer.k = make_linear(plan, p + "self_attn.k_proj");
    layer.v = make_linear(plan, p + "self_attn.v_proj");
  }
  layer.o = make_linear(plan, p + "self_attn.o_proj");
  if (files.traits.merged_gate_up) {
    layer.gate_up = make_linear(plan, p + "mlp.gate_up_proj");
  } else {
    layer.gate = make_linear(plan, p + "mlp.gate_proj");
    layer.up = make_linear(plan, p + "mlp.up_proj");
  }
  layer.down = make_linear(plan, p + "mlp.down_proj");
  layer.window = layer_window(files.config, index);
  return layer;
}

int64_t layer_window(const ModelConfig& config, int64_t layer) {
  const auto& types = config.layer_types;
  const bool slides = types.empty() || types[static_cast<size_t>(layer)] == "sliding_attention";
  return slides ? config.sliding_window : 0;
}

Decoder build_decoder(const ModelFiles& files, const Plan& plan) {
  Decoder d;
  d.config = files.config;
  d.traits = files.traits;
  d.rope = make_rope(files.config);
  d.embedding = make_linear(plan, "model.embed_tokens");
  for (int64_t i = 0; i < files.config.layers; ++i) d.layers.push_back(build_layer(files, plan, i));
  if (!files.config.tie_word_embeddings) d.head = make_linear(plan, "lm_head");
  return d;
}

}  // namespace roundel
