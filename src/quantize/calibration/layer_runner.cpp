#include "quantize/calibration/layer_runner.h"

#include <algorithm>

#include "base/thread_pool.h"

namespace roundel {
namespace {

std::vector<int64_t> checked_tokens(const std::vector<std::vector<int32_t>>& samples,
                                    const ModelConfig& config) {
  if (samples.empty()) fail(ErrorCode::kInvalid, "calibration: there are no samples");
  for (size_t i = 0; i < samples.size(); ++i) {
    if (samples[i].empty()) fail(ErrorCode::kInvalid, "calibration: sample {} is empty", i);
    if (static_cast<int64_t>(samples[i].size()) > config.max_position)
      fail(ErrorCode::kInvalid, "calibration: sample {} has {} tokens, max_position_embeddings is {}", i,
           samples[i].size(), config.max_position);
    for (const int32_t id : samples[i])
      if (id < 0 || id >= config.vocab_size)
        fail(ErrorCode::kInvalid, "calibration: sample {} holds the token {}, vocab_size is {}", i, id,
             config.vocab_size);
  }
  return sample_tokens(samples);
}

}  // namespace

std::vector<int64_t> sample_tokens(const std::vector<std::vector<int32_t>>& samples) {
  std::vector<int64_t> tokens;
  for (const std::vector<int32_t>& s : samples) tokens.push_back(static_cast<int64_t>(s.size()));
  return tokens;
}

int64_t widest_input(const ModelConfig& config) {
  return std::max({config.hidden_size, config.heads * config.head_dim, config.intermediate_size});
}

LayerRunner::LayerRunner(const ModelFiles& files, const std::vector<std::vector<int32_t>>& samples,
                         bool on_disk, ThreadPool& pool)
    : files_(files),
      pool_(pool),
      ops_(files.config, pool),
      rope_(make_rope(files.config)),
      cache_({1, files.config.kv_heads, files.config.head_dim, KvType::kF32}, 1),
      store_(checked_tokens(samples, files.config), files.config.hidden_size, widest_input(files.config),
             on_disk) {
  const TensorSpec* embedding = files.checkpoint.find("model.embed_tokens.weight");
  CHECK(embedding != nullptr);
  const int64_t hidden = files.config.hidden_size;
  const size_t row_bytes = static_cast<size_t>(hidden) * dtype_size(embedding->dtype);
  for (size_t i = 0; i < samples.size(); ++i) {
    const std::vector<int32_t>& ids = samples[i];
    SampleState s;
    s.x = Activations(static_cast<int64_t>(ids.size()), hidden);
    if (!on_disk) s.input.reshape(s.x.rows, widest_input(files.config));  // once, for all stages
    pool.parallel_for(s.x.rows, 16, [&](int64_t begin, int64_t end) {
      std::vector<uint8_t> row(row_bytes);
      for (int64_t t = begin; t < end; ++t) {
        const auto id = static_cast<uint64_t>(ids[static_cast<size_t>(t)]);
        files.checkpoint.read(*embedding, id * row_bytes, row.data(), row_bytes);
        widen_to_float(embedding->dtype, row.data(), s.x.row(t), static_cast<size_t>(hidden));
      }
    });
    store_.visit(i, [&](SampleState& to) { to = std::move(s); });
  }
}

const RopeAngles& LayerRunner::angles(int64_t tokens) {
  const auto it = angles_.find(tokens);
  if (it != angles_.end()) return it->second;
  return angles_.emplace(tokens, rope_->angles(0, tokens, tokens)).first->second;
}

void LayerRunner::begin(const DecoderLayer& layer, SampleState& s) {
  s.input.reshape(s.x.rows, s.x.cols);
  ops_.normalize(s.x, layer.input_norm, s.input);
}

TokenSpan LayerRunner::fill_cache(const DecoderLayer& layer, const Activations& input) {
  qkv_.reshape(input.rows, ops_.q_cols() + 2 * ops_.kv_cols());
  ops_.qkv(layer, input.input(), qkv_);
  cache_.clear(0);
  cache_.reserve(0, input.rows);
  const TokenSpan span{0, 0, input.rows, &angles(input.rows)};
  ops_.rotate_and_store(layer, {&span, 1}, cache_, 0, qkv_);
  return span;
}

void LayerRunner::keys_values(const DecoderLayer& layer, const SampleState& s,
                              FunctionRef<void(const KeysValues&)> f) {
  fill_cache(layer, s.input);
  const KvShape& shape = cache_.shape();
  f({cache_.keys<float>(0, 0), cache_.values<float>(0, 0), shape.kv_heads, s.input.rows, shape.head_dim,
     cache_.stride(0)});
}

void LayerRunner::add_linear(const Linear& linear, SampleState& s) {
  delta_.reshape(s.x.rows, s.x.cols);
  LinearInput input = s.input.input();
  linear.forward(input, delta_.row(0), delta_.ld, pool_);
  ops_.add(s.x, delta_);
}

void LayerRunner::advance(Stage stage, const DecoderLayer& layer, SampleState& s) {
  switch (stage) {
    case Stage::kQkv: {
      const TokenSpan span = fill_cache(layer, s.input);
      s.input.reshape(s.x.rows, ops_.q_cols());
      ops_.attend(layer, {&span, 1}, cache_, 0, qkv_, s.input);
      return;
    }
    case Stage::kO:
      add_linear(*layer.o, s);
      s.input.reshape(s.x.rows, s.x.cols);
      ops_.normalize(s.x, layer.post_norm, s.input);
      return;
    case Stage::kGateUp:
      gate_up_.reshape(s.x.rows, 2 * files_.config.intermediate_size);
      ops_.gate_up(layer, s.input.input(), gate_up_);
      s.input.reshape(s.x.rows, files_.config.intermediate_size);
      ops_.activate(gate_up_, s.input);
      return;
    case Stage::kDown:
      add_linear(*layer.down, s);
      return;
  }
}

void LayerRunner::begin(const DecoderLayer& layer) {
  for (size_t i = 0; i < store_.size(); ++i) store_.visit(i, [&](SampleState& s) { begin(layer, s); });
}

void LayerRunner::advance(Stage stage, const DecoderLayer& layer) {
  for (size_t i = 0; i < store_.size(); ++i)
    store_.visit(i, [&](SampleState& s) { advance(stage, layer, s); });
}

void LayerRunner::run(const DecoderLayer& layer) {
  for (size_t i = 0; i < store_.size(); ++i) store_.visit(i, [&](SampleState& s) { run(layer, s); });
}

void LayerRunner::run(const DecoderLayer& layer, SampleState& s) {
  begin(layer, s);
  for (const Stage stage : kStages) advance(stage, layer, s);
}

}  // namespace roundel
