// The pieces of a decoder layer, linears and what lies between them, on the activations of some tokens. The forward pass
// strings them together; calibration stops between them to look at the inputs of the linears.
//
//   LayerOps ops(config, pool);
//   ops.normalize(x, layer.input_norm, normed);
//   ops.qkv(layer, normed.input(), qkv);
//   ops.rotate_and_store(layer, spans, cache, 0, qkv);
//   ops.attend(layer, spans, cache, 0, qkv, attended);
#pragma once
#include <span>

#include "model/decoder.h"

namespace roundel {

class ThreadPool;
struct VectorOps;

// A matrix of activations (rows, cols), rows padded to kColumnUnit; the padding is zero and stays zero.
struct Activations {
  Activations() = default;
  Activations(int64_t row_count, int64_t col_count);
  // Another shape, in the same memory where it suffices. The values are lost.
  void reshape(int64_t row_count, int64_t col_count);
  float* row(int64_t t) { return data.as<float>() + t * ld; }
  const float* row(int64_t t) const { return data.as<float>() + t * ld; }
  LinearInput input() const { return {data.as<float>(), rows, cols, ld}; }
  int64_t rows = 0, cols = 0, ld = 0;
  Buffer data;
};

// The new tokens of one sequence: rows [first, first + tokens) of the activations.
struct TokenSpan {
  int64_t slot = 0, first = 0, tokens = 0;
  const RopeAngles* angles = nullptr;
};

class LayerOps {
 public:
  LayerOps(const ModelConfig& config, ThreadPool& pool);

  void normalize(const Activations& x, const std::vector<float>& gain, Activations& out) const;
  // The same as the input of linears: each row is normalized and rounded to the form that they want while in the cache.
  // `room` takes the floats where they want these. x and room outlive the input, and x stays.
  LinearInput normalized(const Activations& x, const std::vector<float>& gain, Activations& room) const;
  void add(Activations& x, const Activations& delta) const;

  // (T,hidden) -> (T, q + k + v columns)
  void qkv(const DecoderLayer& layer, LinearInput&& normed, Activations& out) const;
  // Head norms and rotation of queries and keys, in place; keys and values go into layer `index` of the cache, after what
  // the slots hold. The slots have room for them; their lengths stay. The spans' rows follow one another.
  void rotate_and_store(const DecoderLayer& layer, std::span<const TokenSpan> spans, KvCache& cache,
                        int64_t index, Activations& qkv) const;
  void attend(const DecoderLayer& layer, std::span<const TokenSpan> spans, KvCache& cache, int64_t index,
              const Activations& qkv, Activations& attended) const;

  // (T,hidden) -> (T, 2 * intermediate) -> (T,intermediate)
  void gate_up(const DecoderLayer& layer, LinearInput&& normed, Activations& out) const;
  void activate(const Activations& gate_up, Activations& out) const;
  LinearInput activated(const Activations& gate_up, Activations& room) const;  // as normalized()

  int64_t q_cols() const { return c_.heads * c_.head_dim; }
  int64_t kv_cols() const { return c_.kv_heads * c_.head_dim; }

 private:
  void normalize_row(const float* x, const std::vector<float>& gain, float* y) const;
  void activate_row(const float* gate_up, float* y) const;
  void round_kv(const KvQuantizer& kv, float scale, const float* from, int64_t n, float* to) const;
  // A head's keys or values to the cache; quantized ones as their codes where it holds bf16, which are exact.
  void store(const KvQuantizer& kv, float scale, const float* from, float* to) const;
  void store(const KvQuantizer& kv, float scale, const float* from, uint16_t* to) const;
  template <class T>
  void store_token(const DecoderLayer& layer, const TokenSpan& span, KvCache& cache, int64_t index,
                   int64_t position, const float* row) const;
  void rotate_token(const DecoderLayer& layer, const TokenSpan& span, KvCache& cache, int64_t index,
                    int64_t t, float* row) const;
  template <class F>
  void each_token(int64_t tokens, F&& f) const;

  const ModelConfig& c_;
  ThreadPool& pool_;
  const VectorOps& ops_;
  const AttentionKernel& attention_;
  bool silu_;
};

}  // namespace roundel
