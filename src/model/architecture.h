// What roundel knows of each architecture: its tensors, which of them may be quantized, which modules engines fuse.
// One file in arch/ and one row in architecture.cpp for each.
//
//   const Architecture& arch = find_architecture(json, "config.json");
//   ModelLayout layout = make_layout(arch.traits(config), config);
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/model_config.h"
#include "scheme/plan.h"

namespace roundel {

// The variations among decoder-only transformers with RMSNorm, rotary embedding and a gated MLP.
struct DecoderTraits {
  bool merged_qkv = false;      // one qkv_proj [q; k; v] instead of three
  bool merged_gate_up = false;  // one gate_up_proj [gate; up]
  bool qkv_bias = false, o_bias = false, mlp_bias = false;
  bool qk_norm = false;  // RMSNorm of every query and key head before the rotation
};

// Activations that smoothing may divide by a factor for each channel, because all that reads them is linear: the output of
// a norm, or the last rows of a linear. Names are relative to the layer: "input_layernorm", "self_attn.v_proj".
struct SmoothPair {
  std::string smooth;
  std::vector<std::string> balance;  // every linear that reads it
  bool smooth_is_norm = false;
};
std::vector<SmoothPair> default_smooth_pairs(const DecoderTraits& traits);

struct Architecture {
  std::string_view name;    // as in config.json: "LlamaForCausalLM"
  std::string_view models;  // for help and docs: "Llama 1-3.x, TinyLlama, SmolLM2"
  DecoderTraits (*traits)(const ModelConfig&);
  std::vector<SmoothPair> (*smooth_pairs)(const DecoderTraits&) = default_smooth_pairs;
};

const std::vector<const Architecture*>& architectures();
// By the first of `architectures` in config.json, before any other field is read. Throws Error(kUnsupported) listing the
// known ones, Error(kInvalid) when the file names none.
const Architecture& find_architecture(const Json& config, const std::string& where);

// A tensor that is not a weight matrix: norm gains, biases.
struct VectorParam {
  std::string name;
  int64_t size = 0;
};

struct ModelLayout {
  std::vector<ModuleInfo> modules;  // in model order: embedding, layers, lm_head (when not tied)
  std::vector<VectorParam> vectors;
};

// Names and shapes follow from the config alone; dtypes are filled in by open_model().
ModelLayout make_layout(const DecoderTraits& traits, const ModelConfig& config);

}  // namespace roundel
