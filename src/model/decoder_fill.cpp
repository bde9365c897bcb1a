#include <cmath>
#include <optional>

#include "base/thread_pool.h"
#include "model/packed_cache.h"
#include "model/weight_filler.h"

namespace roundel {
namespace {

void fill_vectors(DecoderLayer& layer, const ModelFiles& files, int64_t index, WeightFiller& filler) {
  const std::string p = "model.layers." + std::to_string(index) + ".";
  layer.input_norm = read_vector(files, p + "input_layernorm.weight");
  layer.post_norm = read_vector(files, p + "post_attention_layernorm.weight");
  if (files.traits.qk_norm) {
    layer.q_norm = read_vector(files, p + "self_attn.q_norm.weight");
    layer.k_norm = read_vector(files, p + "self_attn.k_norm.weight");
  }
  layer.kv = filler.kv_quantizer(p + "self_attn.");
}

}  // namespace

std::vector<float> read_vector(const ModelFiles& files, const std::string& name) {
  const TensorSpec* spec = files.checkpoint.find(name);
  CHECK(spec != nullptr);
  std::vector<uint8_t> raw(spec->bytes());
  files.checkpoint.read(*spec, 0, raw.data(), raw.size());
  std::vector<float> values(spec->elements());
  widen_to_float(spec->dtype, raw.data(), values.data(), values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    if (!std::isfinite(values[i])) {
      log_warn("{}: value {} is {}", name, i, values[i]);
      break;
    }
  }
  return values;
}

void fill_layer(DecoderLayer& layer, const ModelFiles& files, const Plan& plan, int64_t index,
                ThreadPool& pool) {
  WeightFiller filler(files, plan, pool);
  layer.for_each_linear([&](std::unique_ptr<Linear>& linear) {
    if (linear) filler.fill(*linear);
  });
  fill_vectors(layer, files, index, filler);
}

void fill_decoder(Decoder& d, const ModelFiles& files, const Plan& plan, ThreadPool& pool,
                  const std::filesystem::path& cache_folder) {
  std::vector<Linear*> linears;
  d.for_each_linear([&](std::unique_ptr<Linear>& linear) {
    if (linear) linears.push_back(linear.get());
  });
  std::optional<PackedCache> cache;
  if (!cache_folder.empty()) {
    cache.emplace(cache_folder, files, linears);
    d.packed = cache->map();
  }
  WeightFiller filler(files, plan, pool);
  for (Linear* linear : linears) filler.fill(*linear, d.packed != nullptr);
  if (cache && !d.packed) cache->write();
  d.final_norm = read_vector(files, "model.norm.weight");
  for (size_t i = 0; i < d.layers.size(); ++i)
    fill_vectors(d.layers[i], files, static_cast<int64_t>(i), filler);
}

}  // namespace roundel
