// The decoder itself: blocks of attention and gated MLP over packed linears. For model/, and for calibration, which builds
// and runs one layer at a time; everybody else sees Model.
//
//   Decoder decoder = build_decoder(files, plan);
//   fill_decoder(decoder, files, plan, pool);
//   decoder.forward(steps, cache, hidden, pool);
#pragma once
#include <filesystem>
#include <memory>
#include <vector>

#include "base/mapped_file.h"
#include "linear/linear.h"
#include "model/architecture.h"
#include "model/model.h"
#include "nn/kv_cache.h"
#include "nn/rope.h"

namespace roundel {

// A fixed quantizer of keys or values on their way into the cache; scale 0: none.
struct KvQuantizer {
  float key_scale = 0, value_scale = 0;
  int bits = 8;
  bool is_float = true;
};

struct DecoderLayer {
  std::vector<float> input_norm, post_norm;  // (hidden)
  std::vector<float> q_norm, k_norm;         // (head_dim) or empty
  std::unique_ptr<Linear> q, k, v, qkv, o;   // q, k, v or qkv
  std::unique_ptr<Linear> gate, up, gate_up, down;
  KvQuantizer kv;
  int64_t window = 0;  // sliding attention window; 0: all
  template <class F>
  void for_each_linear(F&& f) {
    for (auto* p : {&q, &k, &v, &qkv, &o, &gate, &up, &gate_up, &down}) f(*p);
  }
};

struct Decoder {
  std::shared_ptr<const MappedFile> packed;  // what the linears read, when it came from a cache
  ModelConfig config;
  DecoderTraits traits;
  std::unique_ptr<Linear> embedding;  // also the head when the embeddings are tied
  std::unique_ptr<Linear> head;       // null when tied
  std::vector<DecoderLayer> layers;
  std::vector<float> final_norm;
  std::unique_ptr<Rope> rope;

  void forward(std::span<const SequenceStep> steps, KvCache& cache, float* hidden, ThreadPool& pool) const;
  const Linear& output_head() const { return head ? *head : *embedding; }
  // Every linear with the name of its module.
  template <class F>
  void for_each_linear(F&& f) {
    f(embedding);
    for (DecoderLayer& l : layers) l.for_each_linear(f);
    f(head);
  }
};

std::unique_ptr<Rope> make_rope(const ModelConfig& config);
// The tokens that a layer looks back, itself included; 0: all.
int64_t layer_window(const ModelConfig& config, int64_t layer);

// The decoder with all its linears constructed for the plan, weights not yet filled.
Decoder build_decoder(const ModelFiles& files, const Plan& plan);
// One layer of it, linears constructed for the plan, nothing filled.
DecoderLayer build_layer(const ModelFiles& files, const Plan& plan, int64_t index);
// A norm's gain or a bias as floats. The tensor exists; a value that is not finite is a warning.
std::vector<float> read_vector(const ModelFiles& files, const std::string& name);
// Streams every weight in. With a cache folder (model/packed_cache.h) packed weights are mapped from there, or written to
// it.
void fill_layer(DecoderLayer& layer, const ModelFiles& files, const Plan& plan, int64_t index,
                ThreadPool& pool);
void fill_decoder(Decoder& decoder, const ModelFiles& files, const Plan& plan, ThreadPool& pool,
                  const std::filesystem::path& cache_folder = {});

}  // namespace roundel
