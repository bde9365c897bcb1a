#include "quantize/calibration/layer_runner.h"

#include <cstring>

#include "base/thread_pool.h"

namespace roundel {
namespace {

void check_samples(const std::vector<std::vector<int32_t>>& samples, const ModelConfig& config) {
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
}

}  // namespace

Activations copy_activations(const Activations& from) {
  Activations to(from.rows, from.cols);
  if (!from.data.empty()) std::memcpy(to.data.data(), from.data.data(), from.data.size());
  return to;
}

SampleState SampleState::copy() const {
  SampleState s;
  s.x = copy_activations(x);
  s.input = copy_activations(input);
  return s;
}

LayerRunner::LayerRunner(const ModelFiles& files, const std::vector<std::vector<int32_t>>& samples,
                         ThreadPool& pool)
    : files_(files),
      pool_(pool),
      ops_(files.config, pool),
      rope_(make_rope(files.config)),
      cache_({1, files.config.kv_heads, files.config.head_dim}, 1) {
  check_samples(samples, files.config);
  const TensorSpec* embedding = files.checkpoint.find("model.embed_tokens.weight");
  CHECK(embedding != nullptr);
  const int64_t hidden = files.config.hidden_size;
  const size_t row_bytes = static_cast<size_t>(hidden) * dtype_size(embedding->dtype);
  for (const std::vector<int32_t>& ids : samples) {
    SampleState s;
    s.x = Activations(static_cast<int64_t>(ids.size()), hidden);
    pool.parallel_for(s.x.rows, 16, [&](int64_t begin, int64_t end) {
      std::vector<uint8_t> row(row_bytes);
      for (int64_t t = begin; t < end; ++t) {
        const auto id = static_cast<uint64_t>(ids[static_cast<size_t>(t)]);
        files.checkpoint.read(*embedding, id * row_bytes, row.data(), row_bytes);
        widen_to_float(embedding->dtype, row.data(), s.x.row(t), static_cast<size_t>(hidden));
      }
    });
    samples_.push_back(std::move(s));
  }
}

const RopeAngles& LayerRunner::angles(int64_t tokens) {
  const auto it = angles_.find(tokens);
  if (it != angles_.end()) return it->second;
  return angles_.emplace(tokens, rope_->angles(0, tokens)).first->second;
}

void LayerRunner::begin(const DecoderLayer& layer, SampleState& s) {
  s.input = Activations(s.x.rows, s.x.cols);
  ops_.normalize(s.x, layer.input_norm, s.input);
}

void LayerRunner::attention(const DecoderLayer& layer, const Activations& input, Activations* attended) {
  Activations qkv(input.rows, ops_.q_cols() + 2 * ops_.kv_cols());
  ops_.qkv(layer, input, qkv);
  cache_.clear(0);
  cache_.reserve(0, input.rows);
  const TokenSpan span{0, 0, input.rows, &angles(input.rows)};
  ops_.rotate_and_store(layer, span, cache_, 0, qkv);
  if (!attended) return;
  *attended = Activations(input.rows, ops_.q_cols());
  ops_.attend(layer, span, cache_, 0, qkv, *attended);
}

void LayerRunner::keys_values(const DecoderLayer& layer, const SampleState& s,
                              FunctionRef<void(const KeysValues&)> f) {
  attention(layer, s.input, nullptr);
  const KvShape& shape = cache_.shape();
  f({cache_.keys(0, 0), cache_.values(0, 0), shape.kv_heads, s.input.rows, shape.head_dim, cache_.stride(0)});
}

void LayerRunner::add_linear(const Linear& linear, SampleState& s) {
  Activations delta(s.x.rows, s.x.cols);
  LinearInput input = s.input.input();
  linear.forward(input, delta.row(0), delta.ld, pool_);
  ops_.add(s.x, delta);
}

void LayerRunner::advance(Stage stage, const DecoderLayer& layer, SampleState& s) {
  switch (stage) {
    case Stage::kQkv: {
      Activations attended;
      attention(layer, s.input, &attended);
      s.input = std::move(attended);
      return;
    }
    case Stage::kO:
      add_linear(*layer.o, s);
      s.input = Activations(s.x.rows, s.x.cols);
      ops_.normalize(s.x, layer.post_norm, s.input);
      return;
    case Stage::kGateUp: {
      Activations gate_up(s.x.rows, 2 * files_.config.intermediate_size);
      ops_.gate_up(layer, s.input, gate_up);
      s.input = Activations(s.x.rows, files_.config.intermediate_size);
      ops_.activate(gate_up, s.input);
      return;
    }
    case Stage::kDown:
      add_linear(*layer.down, s);
      s.input = Activations();
      return;
  }
}

void LayerRunner::run(const DecoderLayer& layer, SampleState& s) {
  begin(layer, s);
  for (const Stage stage : kStages) advance(stage, layer, s);
}

}  // namespace roundel
