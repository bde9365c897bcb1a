#include "model/model.h"

#include "model/decoder.h"

namespace roundel {

struct Model::Impl {
  Decoder decoder;
};

Model::Model(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Model::~Model() = default;

std::unique_ptr<Model> Model::load(const ModelFiles& files, const Plan& plan, ThreadPool& pool) {
  auto impl = std::make_unique<Impl>(Impl{build_decoder(files, plan)});
  fill_decoder(impl->decoder, files, plan, pool);
  return std::unique_ptr<Model>(new Model(std::move(impl)));
}

const ModelConfig& Model::config() const {
  return impl_->decoder.config;
}

KvCache Model::make_cache(int64_t slots) const {
  const ModelConfig& c = config();
  return KvCache({c.layers, c.kv_heads, c.head_dim}, slots);
}

int64_t Model::hidden_ld() const {
  return round_up(config().hidden_size, kColumnUnit);
}

bool Model::same_rotation(int64_t a, int64_t b) const {
  return impl_->decoder.rope->same_frequencies(a, b);
}

void Model::forward(std::span<const SequenceStep> steps, KvCache& cache, float* hidden,
                    ThreadPool& pool) const {
  for (const SequenceStep& s : steps)
    for (const int32_t id : s.tokens) CHECK(id >= 0 && id < config().vocab_size);
  impl_->decoder.forward(steps, cache, hidden, pool);
}

void Model::logits(const float* hidden, int64_t rows, float* out, int64_t ldl, ThreadPool& pool) const {
  LinearInput input(hidden, rows, config().hidden_size, hidden_ld());
  impl_->decoder.output_head().forward(input, out, ldl, pool);
}

size_t Model::weight_bytes() const {
  size_t total = 0;
  impl_->decoder.for_each_linear(
      [&](const std::unique_ptr<Linear>& l) { total += l ? l->packed_bytes() : 0; });
  return total;
}

size_t Model::bytes_per_token() const {
  const Decoder& d = impl_->decoder;
  return weight_bytes() -
         (d.head ? d.embedding->packed_bytes() : 0);  // an untied embedding is read one row at a time
}

std::vector<ModuleReport> Model::modules() const {
  std::vector<ModuleReport> list;
  impl_->decoder.for_each_linear([&](const std::unique_ptr<Linear>& l) {
    if (l) list.push_back({l->spec().name, l->kernel().name, l->packed_bytes()});
  });
  return list;
}

}  // namespace roundel
