// Qwen2, Qwen2.5.
#include "model/architecture.h"

namespace roundel {

static DecoderTraits traits(const ModelConfig&) {
  return {.qkv_bias = true};
}

extern const Architecture kQwen2 = {"Qwen2ForCausalLM", "Qwen2, Qwen2.5", traits};

}  // namespace roundel
