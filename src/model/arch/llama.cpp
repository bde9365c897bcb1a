// Llama 1 to 3.x, TinyLlama, SmolLM2.
#include "model/architecture.h"

namespace roundel {

static DecoderTraits traits(const ModelConfig& c) {
  return {.qkv_bias = c.attention_bias, .o_bias = c.attention_bias, .mlp_bias = c.mlp_bias};
}

extern const Architecture kLlama = {"LlamaForCausalLM", "Llama 1 to 3.x, TinyLlama, SmolLM2", traits};

}  // namespace roundel
