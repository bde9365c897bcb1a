#include "model/model.h"

#include <algorithm>

#include "model/decoder.h"
#include "model/device_decoder.h"

namespace roundel {

struct Model::Impl {
  Decoder decoder;                        // on the CPU, or:
  std::unique_ptr<DeviceDecoder> device;  // on a GPU
  KvType kv_type = KvType::kBF16;
};

Model::Model(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Model::~Model() = default;

std::unique_ptr<Model> Model::load(const ModelFiles& files, const Plan& plan, ThreadPool& pool,
                                   const std::filesystem::path& cache_folder) {
  auto impl = std::make_unique<Impl>(Impl{build_decoder(files, plan), nullptr, KvType::kBF16});
  fill_decoder(impl->decoder, files, plan, pool, cache_folder);
  return std::unique_ptr<Model>(new Model(std::move(impl)));
}

std::unique_ptr<Model> Model::load(const ModelFiles& files, const Plan& plan, ThreadPool& pool,
                                   std::unique_ptr<Device> device) {
  auto impl = std::make_unique<Impl>();
  impl->device = std::make_unique<DeviceDecoder>(std::move(device), files, plan, pool);
  return std::unique_ptr<Model>(new Model(std::move(impl)));
}

const Device* Model::device() const {
  return impl_->device ? &impl_->device->device() : nullptr;
}

int64_t Model::prompt_chunk() const {
  return impl_->device ? 2048 : 512;
}

ProductRate Model::device_product_rate() const {
  CHECK(impl_->device != nullptr);
  return impl_->device->product_rate();
}

double Model::device_read_bandwidth() const {
  CHECK(impl_->device != nullptr);
  return impl_->device->read_bandwidth();
}

const ModelConfig& Model::config() const {
  if (impl_->device) return impl_->device->config();
  return impl_->decoder.config;
}

KvCache Model::make_cache(int64_t slots) const {
  const ModelConfig& c = config();
  const KvShape shape{c.layers, c.kv_heads, c.head_dim, impl_->kv_type};
  return impl_->device ? KvCache(impl_->device->kv_shape(), slots, impl_->device->device())
                       : KvCache(shape, slots);
}

void Model::set_kv_type(KvType type) {
  impl_->kv_type = type;
  if (impl_->device) impl_->device->set_kv_type(type);
}

int64_t Model::hidden_ld() const {
  return round_up(config().hidden_size, kColumnUnit);
}

bool Model::same_rotation(int64_t a, int64_t b) const {
  return (impl_->device ? impl_->device->rope() : *impl_->decoder.rope).same_frequencies(a, b);
}

void Model::forward(std::span<const SequenceStep> steps, KvCache& cache, float* hidden,
                    ThreadPool& pool) const {
  for (const SequenceStep& s : steps)
    for (const int32_t id : s.tokens) CHECK(id >= 0 && id < config().vocab_size);
  if (impl_->device) return impl_->device->forward(steps, cache, hidden);
  impl_->decoder.forward(steps, cache, hidden, pool);
}

void Model::logits(const float* hidden, int64_t rows, float* out, int64_t ldl, ThreadPool& pool) const {
  if (impl_->device) return impl_->device->logits(hidden, rows, hidden_ld(), out, ldl);
  LinearInput input(hidden, rows, config().hidden_size, hidden_ld());
  impl_->decoder.output_head().forward(input, out, ldl, pool);
}

void Model::next_logits(std::span<const SequenceStep> steps, KvCache& cache, float* out, int64_t ldl,
                        ThreadPool& pool) const {
  for (const SequenceStep& s : steps)
    for (const int32_t id : s.tokens) CHECK(id >= 0 && id < config().vocab_size);
  if (impl_->device) return impl_->device->next_logits(steps, cache, out, ldl);
  int64_t tokens = 0;
  for (const SequenceStep& s : steps) tokens += static_cast<int64_t>(s.tokens.size());
  const int64_t ld = hidden_ld();
  std::vector<float> hidden(static_cast<size_t>(tokens * ld));
  impl_->decoder.forward(steps, cache, hidden.data(), pool);
  int64_t row = 0, last = -1;
  for (const SequenceStep& s : steps) {  // the last rows, one after another
    last += static_cast<int64_t>(s.tokens.size());
    if (row != last) std::copy_n(hidden.data() + last * ld, ld, hidden.data() + row * ld);
    ++row;
  }
  logits(hidden.data(), row, out, ldl, pool);
}

void Model::decode_greedy(std::span<const SequenceStep> steps, KvCache& cache, int64_t count, int32_t* out,
                          ThreadPool& pool) const {
  const size_t n = steps.size(), vocab = static_cast<size_t>(config().vocab_size);
  for (const SequenceStep& s : steps) CHECK(s.tokens.size() == 1);
  if (impl_->device && impl_->device->decodes_greedy(static_cast<int64_t>(n))) {
    for (const SequenceStep& s : steps) CHECK(s.tokens[0] >= 0 && s.tokens[0] < config().vocab_size);
    return impl_->device->decode_greedy(steps, cache, count, out);
  }
  std::vector<float> rows(n * vocab);
  std::vector<SequenceStep> now(steps.begin(), steps.end());
  for (int64_t i = 0; i < count; ++i, out += n) {
    next_logits(now, cache, rows.data(), config().vocab_size, pool);
    for (size_t s = 0; s < n; ++s) {
      const float* row = rows.data() + s * vocab;
      out[s] = static_cast<int32_t>(std::max_element(row, row + vocab) - row);
      now[s].tokens = {out + s, 1};
    }
  }
}

bool Model::draws_tokens(int64_t sequences) const {
  constexpr int64_t kMostTokens = 1 << 23;  // that the kernel can order
  return impl_->device && impl_->device->decodes_greedy(sequences) && config().vocab_size <= kMostTokens;
}

void Model::decode_drawn(std::span<const SequenceStep> steps, std::span<const TokenChoice> choices,
                         KvCache& cache, int64_t count, int32_t* out) const {
  CHECK(draws_tokens(static_cast<int64_t>(steps.size())));
  for (const SequenceStep& s : steps)
    CHECK(s.tokens.size() == 1 && s.tokens[0] >= 0 && s.tokens[0] < config().vocab_size);
  impl_->device->decode_drawn(steps, choices, cache, count, out);
}

size_t Model::weight_bytes() const {
  if (impl_->device) return impl_->device->weight_bytes();
  size_t total = 0;
  impl_->decoder.for_each_linear(
      [&](const std::unique_ptr<Linear>& l) { total += l ? l->packed_bytes() : 0; });
  return total;
}

size_t Model::bytes_per_token() const {
  if (impl_->device) return impl_->device->bytes_per_token();
  const Decoder& d = impl_->decoder;
  return weight_bytes() -
         (d.head ? d.embedding->packed_bytes() : 0);  // an untied embedding is read one row at a time
}

double Model::operations_per_token() const {
  CHECK(!impl_->device);
  double total = 0;
  for (DecoderLayer& layer : impl_->decoder.layers)
    layer.for_each_linear([&](const std::unique_ptr<Linear>& l) {
      if (l) total += 2.0 * static_cast<double>(l->spec().n) * static_cast<double>(l->spec().k);
    });
  return total;
}

std::vector<ModuleReport> Model::modules() const {
  if (impl_->device) return impl_->device->modules();
  std::vector<ModuleReport> list;
  impl_->decoder.for_each_linear([&](const std::unique_ptr<Linear>& l) {
    if (l) list.push_back({l->spec().name, l->kernel().name, l->packed_bytes()});
  });
  return list;
}

}  // namespace roundel
