// What a GGUF file says about its model: architecture and sizes, checked against each other. The architectures that are
// imported are one row each in model.cpp.
//
//   GgufModel model = read_gguf_model(file);     // model.arch->hf_class == "LlamaForCausalLM"
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "checkpoint/gguf/reader.h"
#include "checkpoint/gguf/rope.h"

namespace roundel {

struct GgufArchitecture {
  std::string_view name;      // general.architecture, also the prefix of the metadata keys
  std::string_view hf_class;  // "Qwen2ForCausalLM"
  std::string_view hf_type;   // model_type
  bool permuted;              // rows of q and k are stored in the order of llama.cpp's rotary embedding
  bool merged;                // one tensor for q, k, v and one for gate, up
  bool qkv_bias;              // always; where false, llama may have biases of its own
  bool qk_norm;
};

struct GgufModel {
  const GgufArchitecture* arch = nullptr;
  int64_t hidden = 0, intermediate = 0, layers = 0;
  int64_t heads = 0, kv_heads = 0, head_dim = 0;
  int64_t vocab = 0, context = 0;
  double rms_eps = 0;
  bool tied = false;                      // no output.weight: the embedding is used
  bool attention_bias = false;            // llama with biases of q, k, v and o
  bool mlp_bias = false;                  // llama with biases of gate, up and down
  std::optional<int64_t> sliding_window;  // phi3
  GgufRope rope;
};

// Throws Error(kUnsupported) for an architecture, or a property of one, that is not imported, naming it; Error(kInvalid)
// for sizes that cannot be.
GgufModel read_gguf_model(const GgufFile& file, const ByteSource& bytes);

// A float of the file as the decimal number that was meant: 9.99999974738e-06 -> 1e-05.
double shortest_decimal(double float32_value);

}  // namespace roundel
