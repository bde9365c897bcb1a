// Model folders that tests make: any tensors in F32 or BF16 with a config.json, and a model that is a table of bigrams.
#pragma once
#include <cmath>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/json.h"
#include "checkpoint/safetensors.h"

namespace roundel {

struct TinyTensor {
  std::string name;
  Shape shape;
  std::vector<float> values;
};

inline void write_tiny_folder(const std::filesystem::path& folder, const Json& config,
                              const std::vector<TinyTensor>& tensors, DType dtype = DType::kF32) {
  std::filesystem::create_directories(folder);
  std::vector<TensorSpec> specs;
  for (const TinyTensor& t : tensors) specs.push_back({t.name, dtype, t.shape});
  std::string bytes = make_safetensors_header(specs, {{"format", "pt"}});
  for (const TinyTensor& t : tensors) {
    std::string part(t.values.size() * dtype_size(dtype), '\0');
    narrow_from_float(dtype, t.values.data(), part.data(), t.values.size());
    bytes += part;
  }
  write_text_file(folder / "model.safetensors", bytes);
  write_text_file(folder / "config.json", dump_json(config));
}

inline Json tiny_config(int64_t hidden, int64_t vocab) {
  return {{"architectures", {"LlamaForCausalLM"}},
          {"model_type", "llama"},
          {"hidden_size", hidden},
          {"intermediate_size", hidden},
          {"num_hidden_layers", 1},
          {"num_attention_heads", 1},
          {"head_dim", hidden},
          {"vocab_size", vocab},
          {"max_position_embeddings", 64},
          {"rms_norm_eps", 1e-12},
          {"dtype", "float32"}};
}

// A Llama of one layer whose next token depends on the current one only: logit of `next` after `token` is
// table[token][next]. Attention and MLP add nothing; the embedding of token t is a unit vector, which the last norm, whose
// gain is 1 / sqrt(hidden), leaves one (up to the last bits); the head is the table.
inline std::vector<TinyTensor> bigram_tensors(const std::vector<std::vector<double>>& table,
                                              int64_t hidden = 8) {
  const int64_t vocab = static_cast<int64_t>(table.size());
  const size_t square = static_cast<size_t>(hidden * hidden);
  std::vector<float> embedding(static_cast<size_t>(vocab * hidden)), head(embedding);
  for (int64_t t = 0; t < vocab; ++t) {
    embedding[static_cast<size_t>(t * hidden + t)] = 1;
    for (int64_t next = 0; next < vocab; ++next)
      head[static_cast<size_t>(next * hidden + t)] =
          static_cast<float>(table[static_cast<size_t>(t)][static_cast<size_t>(next)]);
  }
  const std::vector<float> gain(static_cast<size_t>(hidden), 1.0f / std::sqrt(static_cast<float>(hidden)));
  std::vector<TinyTensor> tensors = {{"model.embed_tokens.weight", {vocab, hidden}, embedding},
                                     {"model.norm.weight", {hidden}, gain},
                                     {"lm_head.weight", {vocab, hidden}, head}};
  const std::string layer = "model.layers.0.";
  for (const char* name : {"input_layernorm", "post_attention_layernorm"})
    tensors.push_back(
        {layer + name + ".weight", {hidden}, std::vector<float>(static_cast<size_t>(hidden), 1.0f)});
  for (const char* name : {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
                           "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"})
    tensors.push_back({layer + name + ".weight", {hidden, hidden}, std::vector<float>(square, 0.0f)});
  return tensors;
}

}  // namespace roundel
