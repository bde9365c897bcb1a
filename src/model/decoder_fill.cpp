#include "model/weight_filler.h"

namespace roundel {

void fill_decoder(Decoder& d, const ModelFiles& files, const Plan& plan, ThreadPool& pool) {
  WeightFiller filler(files, plan, pool);
  d.for_each_linear([&](std::unique_ptr<Linear>& linear) {
    if (linear) filler.fill(*linear);
  });
  d.final_norm = filler.vector("model.norm.weight");
  for (size_t i = 0; i < d.layers.size(); ++i) {
    const std::string p = "model.layers." + std::to_string(i) + ".";
    DecoderLayer& layer = d.layers[i];
    layer.input_norm = filler.vector(p + "input_layernorm.weight");
    layer.post_norm = filler.vector(p + "post_attention_layernorm.weight");
    if (d.traits.qk_norm) {
      layer.q_norm = filler.vector(p + "self_attn.q_norm.weight");
      layer.k_norm = filler.vector(p + "self_attn.k_norm.weight");
    }
    layer.kv = filler.kv_quantizer(p + "self_attn.");
  }
}

}  // namespace roundel
