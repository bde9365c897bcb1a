// Mistral 7B and its kin.
#include "model/architecture.h"

namespace roundel {

static DecoderTraits traits(const ModelConfig&) {
  return {};
}

extern const Architecture kMistral = {"MistralForCausalLM", "Mistral 7B and its kin", traits};

}  // namespace roundel
