#include "model/layer_ops.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "base/numeric.h"
#include "base/thread_pool.h"

namespace roundel {

Activations::Activations(int64_t row_count, int64_t col_count) {
  reshape(row_count, col_count);
}

void Activations::reshape(int64_t row_count, int64_t col_count) {
  rows = row_count;
  cols = col_count;
  ld = round_up(cols, kColumnUnit);
  const size_t bytes = static_cast<size_t>(rows * ld) * 4;
  if (data.size() < bytes) data = Buffer(bytes);
  if (ld == cols) return;
  for (int64_t t = 0; t < rows; ++t) std::memset(row(t) + cols, 0, static_cast<size_t>(ld - cols) * 4);
}

LayerOps::LayerOps(const ModelConfig& config, ThreadPool& pool)
    : c_(config),
      pool_(pool),
      ops_(vector_ops()),
      attention_(attention_kernel()),
      silu_(config.activation == "silu") {}

template <class F>
void LayerOps::each_token(int64_t tokens, F&& f) const {
  pool_.parallel_for(tokens, 1, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) f(t);
  });
}

void LayerOps::normalize(const Activations& x, const std::vector<float>& gain, Activations& out) const {
  each_token(x.rows, [&](int64_t t) { normalize_row(x.row(t), gain, out.row(t)); });
}

void LayerOps::normalize_row(const float* x, const std::vector<float>& gain, float* y) const {
  ops_.rms_norm(x, gain.data(), c_.hidden_size, static_cast<float>(c_.rms_norm_eps), y);
}

LinearInput LayerOps::normalized(const Activations& x, const std::vector<float>& gain,
                                 Activations& room) const {
  return {[this, &x, &gain](int64_t t, float* y) { normalize_row(x.row(t), gain, y); }, x.rows,
          c_.hidden_size, room.ld, room.data.as<float>()};
}

void LayerOps::add(Activations& x, const Activations& delta) const {
  each_token(x.rows, [&](int64_t t) { ops_.add(x.row(t), delta.row(t), c_.hidden_size); });
}

void LayerOps::qkv(const DecoderLayer& layer, LinearInput&& input, Activations& out) const {
  float* y = out.data.as<float>();
  if (layer.qkv) {
    layer.qkv->forward(input, y, out.ld, pool_);
    return;
  }
  layer.q->forward(input, y, out.ld, pool_);
  layer.k->forward(input, y + q_cols(), out.ld, pool_);
  layer.v->forward(input, y + q_cols() + kv_cols(), out.ld, pool_);
}

void LayerOps::rotate_and_store(const DecoderLayer& layer, std::span<const TokenSpan> spans, KvCache& cache,
                                int64_t index, Activations& qkv) const {
  pool_.parallel_for(qkv.rows, 1, [&](int64_t begin, int64_t end) {
    auto span = std::upper_bound(spans.begin(), spans.end(), begin,
                                 [](int64_t row, const TokenSpan& s) { return row < s.first + s.tokens; });
    for (int64_t row = begin; row < end; ++row) {
      while (row >= span->first + span->tokens) ++span;
      rotate_token(layer, *span, cache, index, row - span->first, qkv.row(row));
    }
  });
}

void LayerOps::rotate_token(const DecoderLayer& layer, const TokenSpan& span, KvCache& cache, int64_t index,
                            int64_t t, float* row) const {
  const int64_t d = c_.head_dim, position = cache.length(span.slot) + t;
  const RopeAngles& angles = *span.angles;
  const auto eps = static_cast<float>(c_.rms_norm_eps);
  const float* cos = angles.cos.data() + t * angles.half;
  const float* sin = angles.sin.data() + t * angles.half;
  for (int64_t h = 0; h < c_.heads + c_.kv_heads; ++h) {
    float* head = row + h * d;
    const std::vector<float>& norm = h < c_.heads ? layer.q_norm : layer.k_norm;
    if (!norm.empty()) ops_.rms_norm(head, norm.data(), d, eps, head);
    ops_.rope(head, cos, sin, angles.half);
  }
  if (cache.shape().type == KvType::kF32)
    store_token<float>(layer, span, cache, index, position, row);
  else
    store_token<uint16_t>(layer, span, cache, index, position, row);
}

template <class T>
void LayerOps::store_token(const DecoderLayer& layer, const TokenSpan& span, KvCache& cache, int64_t index,
                           int64_t position, const float* row) const {
  const int64_t d = c_.head_dim, stride = cache.stride(span.slot);
  T* keys = cache.keys<T>(span.slot, index) + position * d;
  T* values = cache.values<T>(span.slot, index) + position * d;
  for (int64_t h = 0; h < c_.kv_heads; ++h) {
    store(layer.kv, layer.kv.key_scale, row + q_cols() + h * d, keys + h * stride);
    store(layer.kv, layer.kv.value_scale, row + q_cols() + kv_cols() + h * d, values + h * stride);
  }
}

void LayerOps::round_kv(const KvQuantizer& kv, float scale, const float* from, int64_t n, float* to) const {
  if (kv.is_float)
    ops_.fake_quantize_e4m3(from, n, scale, to);
  else
    ops_.fake_quantize_int(from, n, kv.bits, scale, to);
}

void LayerOps::store(const KvQuantizer& kv, float scale, const float* from, float* to) const {
  if (scale > 0)
    round_kv(kv, scale, from, c_.head_dim, to);
  else
    std::memcpy(to, from, static_cast<size_t>(c_.head_dim) * 4);
}

void LayerOps::store(const KvQuantizer& kv, float scale, const float* from, uint16_t* to) const {
  if (scale <= 0) {
    for (int64_t i = 0; i < c_.head_dim; ++i) to[i] = float_to_bf16(from[i]);
    return;
  }
  std::array<float, 64> values;
  for (int64_t at = 0; at < c_.head_dim; at += 64) {
    const int64_t n = std::min<int64_t>(64, c_.head_dim - at);
    round_kv(kv, scale, from + at, n, values.data());
    for (int64_t i = 0; i < n; ++i) to[at + i] = float_to_bf16(values[static_cast<size_t>(i)] / scale);
  }
}

void LayerOps::attend(const DecoderLayer& layer, std::span<const TokenSpan> spans, KvCache& cache,
                      int64_t index, const Activations& qkv, Activations& attended) const {
  std::vector<AttentionArgs> sequences(spans.size());
  for (size_t i = 0; i < spans.size(); ++i) {
    const TokenSpan& span = spans[i];
    AttentionArgs& a = sequences[i];
    a.tokens = span.tokens;
    a.start = cache.length(span.slot);
    a.heads = c_.heads;
    a.kv_heads = c_.kv_heads;
    a.head_dim = c_.head_dim;
    a.scale = 1.0f / std::sqrt(static_cast<float>(c_.head_dim));
    a.window = layer.window;
    a.q = qkv.row(span.first);
    a.ldq = qkv.ld;
    a.kv_bf16 = cache.shape().type == KvType::kBF16;
    if (a.kv_bf16) {
      a.k = cache.keys<uint16_t>(span.slot, index);
      a.v = cache.values<uint16_t>(span.slot, index);
      if (layer.kv.key_scale > 0) a.scale *= layer.kv.key_scale, a.value_scale = layer.kv.value_scale;
    } else {
      a.k = cache.keys<float>(span.slot, index);
      a.v = cache.values<float>(span.slot, index);
    }
    a.kv_stride = cache.stride(span.slot);
    a.out = attended.row(span.first);
    a.ldo = attended.ld;
  }
  attention_.run_all(sequences.data(), static_cast<int64_t>(sequences.size()), pool_);
}

void LayerOps::gate_up(const DecoderLayer& layer, LinearInput&& input, Activations& out) const {
  float* y = out.data.as<float>();
  if (layer.gate_up) {
    layer.gate_up->forward(input, y, out.ld, pool_);
    return;
  }
  layer.gate->forward(input, y, out.ld, pool_);
  layer.up->forward(input, y + c_.intermediate_size, out.ld, pool_);
}

void LayerOps::activate(const Activations& gate_up, Activations& out) const {
  each_token(gate_up.rows, [&](int64_t t) { activate_row(gate_up.row(t), out.row(t)); });
}

void LayerOps::activate_row(const float* gate_up, float* y) const {
  const int64_t inter = c_.intermediate_size;
  (silu_ ? ops_.silu_mul : ops_.gelu_mul)(gate_up, gate_up + inter, inter, y);
}

LinearInput LayerOps::activated(const Activations& gate_up, Activations& room) const {
  return {[this, &gate_up](int64_t t, float* y) { activate_row(gate_up.row(t), y); }, gate_up.rows,
          c_.intermediate_size, room.ld, room.data.as<float>()};
}

}  // namespace roundel
