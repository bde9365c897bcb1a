#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/thread_pool.h"
#include "model/decoder.h"

namespace roundel {
namespace {

// A matrix of activations (rows, cols), rows padded to kColumnUnit; the padding is zero and stays zero.
struct Activations {
  Activations(int64_t row_count, int64_t col_count)
      : rows(row_count),
        cols(col_count),
        ld(round_up(col_count, kColumnUnit)),
        data(static_cast<size_t>(row_count * ld) * 4) {
    if (ld == cols) return;
    for (int64_t t = 0; t < rows; ++t) std::memset(row(t) + cols, 0, static_cast<size_t>(ld - cols) * 4);
  }
  float* row(int64_t t) { return data.as<float>() + t * ld; }
  LinearInput input() { return {data.as<float>(), rows, cols, ld}; }
  int64_t rows, cols, ld;
  Buffer data;
};

// One forward pass: the activations of all tokens and the loop over layers.
class Pass {
 public:
  Pass(const Decoder& decoder, std::span<const SequenceStep> steps, KvCache& cache, ThreadPool& pool)
      : d_(decoder),
        c_(decoder.config),
        steps_(steps),
        cache_(cache),
        pool_(pool),
        ops_(vector_ops()),
        tokens_(count(steps)),
        q_cols_(c_.heads * c_.head_dim),
        kv_cols_(c_.kv_heads * c_.head_dim),
        x_(tokens_, c_.hidden_size),
        normed_(tokens_, c_.hidden_size),
        qkv_(tokens_, q_cols_ + 2 * kv_cols_),
        attended_(tokens_, q_cols_),
        gate_up_(tokens_, 2 * c_.intermediate_size),
        mlp_(tokens_, c_.intermediate_size),
        delta_(tokens_, c_.hidden_size) {}

  void run(float* hidden) {
    embed();
    make_angles();
    for (size_t i = 0; i < d_.layers.size(); ++i) {
      attention_block(d_.layers[i], static_cast<int64_t>(i));
      mlp_block(d_.layers[i]);
    }
    for (const SequenceStep& s : steps_) cache_.set_length(s.slot, cache_.length(s.slot) + ssize(s));
    const int64_t ld = x_.ld;
    each_token([&](int64_t t) {
      ops_.rms_norm(x_.row(t), d_.final_norm.data(), c_.hidden_size, eps(), hidden + t * ld);
      std::memset(hidden + t * ld + c_.hidden_size, 0, static_cast<size_t>(ld - c_.hidden_size) * 4);
    });
  }

 private:
  static int64_t ssize(const SequenceStep& s) { return static_cast<int64_t>(s.tokens.size()); }
  static int64_t count(std::span<const SequenceStep> steps) {
    int64_t n = 0;
    for (const SequenceStep& s : steps) n += ssize(s);
    return n;
  }
  float eps() const { return static_cast<float>(c_.rms_norm_eps); }

  template <class F>
  void each_token(F&& f) {
    pool_.parallel_for(tokens_, 1, [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) f(t);
    });
  }

  void embed() {
    std::vector<int32_t> ids;
    ids.reserve(static_cast<size_t>(tokens_));
    for (const SequenceStep& s : steps_) ids.insert(ids.end(), s.tokens.begin(), s.tokens.end());
    each_token([&](int64_t t) { d_.embedding->read_row(ids[static_cast<size_t>(t)], x_.row(t)); });
  }

  void make_angles() {
    for (const SequenceStep& s : steps_) {
      cache_.reserve(s.slot, cache_.length(s.slot) + ssize(s));
      const int64_t start = cache_.length(s.slot);
      angles_.push_back(d_.rope->angles(start, ssize(s), std::max(s.prompt_end, start + ssize(s))));
    }
  }

  void attention_block(const DecoderLayer& layer, int64_t index) {
    normalize(layer.input_norm);
    LinearInput input = normed_.input();
    float* qkv = qkv_.data.as<float>();
    if (layer.qkv) {
      layer.qkv->forward(input, qkv, qkv_.ld, pool_);
    } else {
      layer.q->forward(input, qkv, qkv_.ld, pool_);
      layer.k->forward(input, qkv + q_cols_, qkv_.ld, pool_);
      layer.v->forward(input, qkv + q_cols_ + kv_cols_, qkv_.ld, pool_);
    }
    int64_t first = 0;
    for (size_t s = 0; s < steps_.size(); ++s) {
      rotate_and_store(layer, index, steps_[s], angles_[s], first);
      attend(layer, index, steps_[s], first);
      first += ssize(steps_[s]);
    }
    LinearInput attended = attended_.input();
    layer.o->forward(attended, delta_.data.as<float>(), delta_.ld, pool_);
    add_delta();
  }

  // Head norms and rotation of queries and keys; keys and values go into the cache.
  void rotate_and_store(const DecoderLayer& layer, int64_t index, const SequenceStep& step,
                        const RopeAngles& angles, int64_t first) {
    const int64_t d = c_.head_dim, start = cache_.length(step.slot), stride = cache_.stride(step.slot);
    float* keys = cache_.keys(step.slot, index);
    float* values = cache_.values(step.slot, index);
    pool_.parallel_for(ssize(step), 1, [&](int64_t begin, int64_t end) {
      for (int64_t t = begin; t < end; ++t) {
        float* row = qkv_.row(first + t);
        const float* cos = angles.cos.data() + t * angles.half;
        const float* sin = angles.sin.data() + t * angles.half;
        for (int64_t h = 0; h < c_.heads + c_.kv_heads; ++h) {
          float* head = row + h * d;
          const std::vector<float>& norm = h < c_.heads ? layer.q_norm : layer.k_norm;
          if (!norm.empty()) ops_.rms_norm(head, norm.data(), d, eps(), head);
          ops_.rope(head, cos, sin, angles.half);
        }
        for (int64_t h = 0; h < c_.kv_heads; ++h) {
          store(layer.kv, layer.kv.key_scale, row + q_cols_ + h * d, keys + h * stride + (start + t) * d);
          store(layer.kv, layer.kv.value_scale, row + q_cols_ + kv_cols_ + h * d,
                values + h * stride + (start + t) * d);
        }
      }
    });
  }

  void store(const KvQuantizer& kv, float scale, const float* from, float* to) {
    if (scale <= 0) {
      std::memcpy(to, from, static_cast<size_t>(c_.head_dim) * 4);
    } else if (kv.is_float) {
      ops_.fake_quantize_e4m3(from, c_.head_dim, scale, to);
    } else {
      ops_.fake_quantize_int(from, c_.head_dim, kv.bits, scale, to);
    }
  }

  void attend(const DecoderLayer& layer, int64_t index, const SequenceStep& step, int64_t first) {
    AttentionArgs a;
    a.tokens = ssize(step);
    a.start = cache_.length(step.slot);
    a.heads = c_.heads;
    a.kv_heads = c_.kv_heads;
    a.head_dim = c_.head_dim;
    a.scale = 1.0f / std::sqrt(static_cast<float>(c_.head_dim));
    a.window = layer.window;
    a.q = qkv_.row(first);
    a.ldq = qkv_.ld;
    a.k = cache_.keys(step.slot, index);
    a.v = cache_.values(step.slot, index);
    a.kv_stride = cache_.stride(step.slot);
    a.out = attended_.row(first);
    a.ldo = attended_.ld;
    attention_kernel().run(a, pool_);
  }

  void mlp_block(const DecoderLayer& layer) {
    normalize(layer.post_norm);
    LinearInput input = normed_.input();
    const int64_t inter = c_.intermediate_size;
    float* gate_up = gate_up_.data.as<float>();
    if (layer.gate_up) {
      layer.gate_up->forward(input, gate_up, gate_up_.ld, pool_);
    } else {
      layer.gate->forward(input, gate_up, gate_up_.ld, pool_);
      layer.up->forward(input, gate_up + inter, gate_up_.ld, pool_);
    }
    const bool silu = c_.activation == "silu";
    each_token([&](int64_t t) {
      const float* row = gate_up_.row(t);
      (silu ? ops_.silu_mul : ops_.gelu_mul)(row, row + inter, inter, mlp_.row(t));
    });
    LinearInput activated = mlp_.input();
    layer.down->forward(activated, delta_.data.as<float>(), delta_.ld, pool_);
    add_delta();
  }

  void normalize(const std::vector<float>& gain) {
    each_token(
        [&](int64_t t) { ops_.rms_norm(x_.row(t), gain.data(), c_.hidden_size, eps(), normed_.row(t)); });
  }
  void add_delta() {
    each_token([&](int64_t t) { ops_.add(x_.row(t), delta_.row(t), c_.hidden_size); });
  }

  const Decoder& d_;
  const ModelConfig& c_;
  std::span<const SequenceStep> steps_;
  KvCache& cache_;
  ThreadPool& pool_;
  const VectorOps& ops_;
  int64_t tokens_, q_cols_, kv_cols_;
  Activations x_, normed_, qkv_, attended_, gate_up_, mlp_, delta_;
  std::vector<RopeAngles> angles_;
};

}  // namespace

void Decoder::forward(std::span<const SequenceStep> steps, KvCache& cache, float* hidden,
                      ThreadPool& pool) const {
  Pass(*this, steps, cache, pool).run(hidden);
}

}  // namespace roundel
