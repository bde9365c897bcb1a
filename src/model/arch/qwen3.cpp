// Qwen3 (dense).
#include "model/architecture.h"

namespace roundel {

static DecoderTraits traits(const ModelConfig& c) {
  return {.qkv_bias = c.attention_bias, .o_bias = c.attention_bias, .qk_norm = true};
}

extern const Architecture kQwen3 = {"Qwen3ForCausalLM", "Qwen3 (dense)", traits};

}  // namespace roundel
