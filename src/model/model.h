// Model: a decoder whose weights are packed for their kernels; tokens in, hidden states and logits out.
//
//   ModelFiles files = open_model(folder);
//   std::unique_ptr<Model> model = Model::load(files, files.stored_plan, pool);
//   KvCache cache = model->make_cache(1);
//   model->forward({{.slot = 0, .tokens = ids}}, cache, hidden, pool);        // hidden: (T, model->hidden_ld())
//   model->logits(hidden, T, logits, vocab, pool);                            // logits: (T, vocab)
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "linear/linear.h"
#include "model/model_files.h"
#include "nn/kv_cache.h"

namespace roundel {

class Device;
class ThreadPool;

// New tokens of one sequence; they continue what its cache slot holds.
struct SequenceStep {
  int64_t slot = 0;
  std::span<const int32_t> tokens;
  // When a prompt comes in pieces: the tokens that the slot will hold after its last piece, which choose the frequencies of
  // longrope and dynamic. 0: this step is the last.
  int64_t prompt_end = 0;
};

// How the next token of a sequence is drawn on a GPU; history: the tokens before the step's own, for penalties.
struct TokenChoice {
  DrawRow draw;
  std::span<const int32_t> history;
};

// What a module was packed for, for `plan` and `bench`.
struct ModuleReport {
  std::string name, kernel;
  size_t packed_bytes = 0;
};

// Multiplications and additions, each counted.
struct ProductRate {
  const char* kind = "";             // of numbers: BF16, E4M3, int8
  double operations_per_second = 0;  // of one large product
  double operations_per_token = 0;   // of a prompt, in the linears of the layers
};

class Model {
 public:
  // Builds the model without storage, then streams the weights in: stored codes, dense rows, or dense rows through the
  // encoder where `plan` quantizes a dense checkpoint. Never holds more than one chunk of float weights.
  // cache_folder: of packed weights (model/packed_cache.h); empty: none.
  static std::unique_ptr<Model> load(const ModelFiles& files, const Plan& plan, ThreadPool& pool,
                                     const std::filesystem::path& cache_folder = {});
  // The same on a GPU: weights are packed there, and forward, logits and next_logits run there.
  static std::unique_ptr<Model> load(const ModelFiles& files, const Plan& plan, ThreadPool& pool,
                                     std::unique_ptr<Device> device);
  ~Model();

  const ModelConfig& config() const;
  KvCache make_cache(int64_t slots) const;
  void set_kv_type(KvType type);  // of caches made later, and before any: kBF16, the default, or kF32
  int64_t hidden_ld() const;      // floats between the rows of hidden states
  // Whether a cache filled for `a` tokens may be continued to a prompt of `b`: not where longrope or dynamic change between.
  bool same_rotation(int64_t a, int64_t b) const;

  // Runs the new tokens of all steps through the decoder. hidden receives the states after the last norm, the steps'
  // tokens one after another: (sum of tokens, hidden_size), rows hidden_ld() apart, padding zero; null: only the cache is
  // wanted. Token ids must be below vocab_size.
  void forward(std::span<const SequenceStep> steps, KvCache& cache, float* hidden, ThreadPool& pool) const;
  // logits (rows, vocab_size) of hidden states, rows ldl apart.
  void logits(const float* hidden, int64_t rows, float* out, int64_t ldl, ThreadPool& pool) const;

  // forward(), then the logits after each step's last token: (steps, vocab_size), rows ldl apart. On a GPU one token for
  // each of up to 64 sequences is one recorded graph.
  void next_logits(std::span<const SequenceStep> steps, KvCache& cache, float* out, int64_t ldl,
                   ThreadPool& pool) const;

  // next_logits() of one token for each step, then of the most likely next token of each (the lower id of equals), and so
  // on: `count` new tokens of each sequence into out (count, steps). On a GPU the tokens stay there between steps, and
  // nothing waits for the host.
  void decode_greedy(std::span<const SequenceStep> steps, KvCache& cache, int64_t count, int32_t* out,
                     ThreadPool& pool) const;

  // The same, each token drawn as choices[i] says (a random number for each step: draw.step, draw.step + 1, ...); the
  // logits stay on the GPU. Only where draws_tokens().
  void decode_drawn(std::span<const SequenceStep> steps, std::span<const TokenChoice> choices, KvCache& cache,
                    int64_t count, int32_t* out) const;
  bool draws_tokens(int64_t sequences) const;

  // Tokens of a prompt that go through forward() at once: bounds the memory of the activations.
  int64_t prompt_chunk() const;
  const Device* device() const;  // null on the CPU
  // bytes/s that the GPU reads from its memory, measured now.
  double device_read_bandwidth() const;
  // The GPU's speed in one large product of the kind that most of a prompt's work is, measured now.
  ProductRate device_product_rate() const;
  size_t weight_bytes() const;     // packed weights, all modules
  size_t bytes_per_token() const;  // what one decode step must read of them
  // Of the linears that every token of a prompt goes through: a product and its addition are two. On the CPU.
  double operations_per_token() const;
  std::vector<ModuleReport> modules() const;

 private:
  struct Impl;
  explicit Model(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace roundel
