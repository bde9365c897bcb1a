#include <cstring>

#include "base/thread_pool.h"
#include "model/decoder.h"
#include "model/layer_ops.h"

namespace roundel {
namespace {

// One forward pass: the activations of all tokens and the loop over layers.
class Pass {
 public:
  Pass(const Decoder& decoder, std::span<const SequenceStep> steps, KvCache& cache, ThreadPool& pool)
      : d_(decoder),
        c_(decoder.config),
        steps_(steps),
        cache_(cache),
        pool_(pool),
        ops_(decoder.config, pool),
        tokens_(count(steps)),
        x_(tokens_, c_.hidden_size),
        normed_(tokens_, c_.hidden_size),
        qkv_(tokens_, ops_.q_cols() + 2 * ops_.kv_cols()),
        attended_(tokens_, ops_.q_cols()),
        gate_up_(tokens_, 2 * c_.intermediate_size),
        mlp_(tokens_, c_.intermediate_size),
        delta_(tokens_, c_.hidden_size) {}

  void run(float* hidden) {
    embed();
    make_spans();
    for (size_t i = 0; i < d_.layers.size(); ++i) {
      attention_block(d_.layers[i], static_cast<int64_t>(i));
      mlp_block(d_.layers[i]);
    }
    for (const TokenSpan& s : spans_) cache_.set_length(s.slot, cache_.length(s.slot) + s.tokens);
    if (!hidden) return;
    ops_.normalize(x_, d_.final_norm, normed_);
    std::memcpy(hidden, normed_.row(0), static_cast<size_t>(tokens_ * normed_.ld) * 4);
  }

 private:
  static int64_t ssize(const SequenceStep& s) { return static_cast<int64_t>(s.tokens.size()); }
  static int64_t count(std::span<const SequenceStep> steps) {
    int64_t n = 0;
    for (const SequenceStep& s : steps) n += ssize(s);
    return n;
  }

  void embed() {
    std::vector<int32_t> ids;
    ids.reserve(static_cast<size_t>(tokens_));
    for (const SequenceStep& s : steps_) ids.insert(ids.end(), s.tokens.begin(), s.tokens.end());
    pool_.parallel_for(tokens_, 1, [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) d_.embedding->read_row(ids[static_cast<size_t>(t)], x_.row(t));
    });
  }

  void make_spans() {
    int64_t first = 0;
    angles_.reserve(steps_.size());
    for (const SequenceStep& s : steps_) {
      cache_.reserve(s.slot, cache_.length(s.slot) + ssize(s));
      const int64_t start = cache_.length(s.slot);
      angles_.push_back(d_.rope->angles(start, ssize(s), std::max(s.prompt_end, start + ssize(s))));
      spans_.push_back({s.slot, first, ssize(s), &angles_.back()});
      first += ssize(s);
    }
  }

  void attention_block(const DecoderLayer& layer, int64_t index) {
    ops_.qkv(layer, ops_.normalized(x_, layer.input_norm, normed_), qkv_);
    ops_.rotate_and_store(layer, spans_, cache_, index, qkv_);
    ops_.attend(layer, spans_, cache_, index, qkv_, attended_);
    add_linear(*layer.o, attended_.input());
  }

  void mlp_block(const DecoderLayer& layer) {
    ops_.gate_up(layer, ops_.normalized(x_, layer.post_norm, normed_), gate_up_);
    add_linear(*layer.down, ops_.activated(gate_up_, mlp_));
  }

  // x += linear(input)
  void add_linear(const Linear& linear, LinearInput&& input) {
    linear.forward(input, delta_.data.as<float>(), delta_.ld, pool_);
    ops_.add(x_, delta_);
  }

  const Decoder& d_;
  const ModelConfig& c_;
  std::span<const SequenceStep> steps_;
  KvCache& cache_;
  ThreadPool& pool_;
  LayerOps ops_;
  int64_t tokens_;
  Activations x_, normed_, qkv_, attended_, gate_up_, mlp_, delta_;
  std::vector<RopeAngles> angles_;
  std::vector<TokenSpan> spans_;
};

}  // namespace

void Decoder::forward(std::span<const SequenceStep> steps, KvCache& cache, float* hidden,
                      ThreadPool& pool) const {
  Pass(*this, steps, cache, pool).run(hidden);
}

}  // namespace roundel
