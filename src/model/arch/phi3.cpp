// Phi-3, Phi-3.5, Phi-4-mini.
#include "model/architecture.h"

namespace roundel {

static DecoderTraits traits(const ModelConfig&) {
  return {.merged_qkv = true, .merged_gate_up = true};
}

extern const Architecture kPhi3 = {"Phi3ForCausalLM", "Phi-3, Phi-3.5, Phi-4-mini", traits};

}  // namespace roundel
