// The decoder on a GPU: the same blocks as decoder.h over device linears. Internal to model/.
//
//   DeviceDecoder decoder(open_device(0), files, plan, pool);        // weights stream in
//   decoder.next_logits(steps, cache, out, vocab);                   // a token each: one recorded graph
#pragma once
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "linear/device_linear.h"
#include "model/decoder.h"
#include "model/model.h"

namespace roundel {

class WeightFiller;

struct DeviceLayer {
  DeviceBuffer input_norm, post_norm, q_norm, k_norm;
  std::vector<std::unique_ptr<DeviceLinear>> qkv;      // one of all three, or q, k, v
  std::vector<std::unique_ptr<DeviceLinear>> gate_up;  // one of both, alternating, or gate, up
  std::unique_ptr<DeviceLinear> o, down;
  KvQuantizer kv;
  int64_t window = 0;
};

// What the tokens of one pass need on the GPU, copied there in one piece.
struct DeviceBatch {
  int64_t tokens = 0, steps = 0;
  size_t bytes = 0;
  uint8_t* host = nullptr;  // pinned
  DeviceBuffer device;
  // Offsets of TokenInfo (tokens), cos, sin (tokens,half) float, last rows (steps) int32. Of recorded batches also
  // DrawRow (steps), the step counter, and cos, sin of the steps after the first (kRunSteps - 1,tokens,half).
  size_t cos = 0, sin = 0, last = 0, draw = 0, step = 0, next_cos = 0, next_sin = 0;
  bool recorded = false, draws = false;  // draws: tokens are drawn, not the most likely ones picked
  DeviceBuffer picked, pick_scratch;     // ids (kRunSteps,steps)
  DeviceBuffer seen;                     // bits of each row's history (DrawArgs)
  const float* device_logits = nullptr;
  float* logits = nullptr;  // pinned (steps,vocab)
  DeviceGraph graph = nullptr;
  int64_t generation = -1;  // of the workspace that the graph uses
  bool ran = false;
};

class DeviceDecoder {
 public:
  DeviceDecoder(std::unique_ptr<Device> device, const ModelFiles& files, const Plan& plan, ThreadPool& pool);
  ~DeviceDecoder();

  // As in Model.
  const Rope& rope() const { return *rope_; }
  void forward(std::span<const SequenceStep> steps, KvCache& cache, float* hidden);
  void logits(const float* hidden, int64_t rows, int64_t hidden_ld, float* out, int64_t ldl);
  void next_logits(std::span<const SequenceStep> steps, KvCache& cache, float* out, int64_t ldl);
  bool decodes_greedy(int64_t sequences) const { return sequences <= kSmallTokens; }
  void decode_greedy(std::span<const SequenceStep> steps, KvCache& cache, int64_t count, int32_t* out);
  void decode_drawn(std::span<const SequenceStep> steps, std::span<const TokenChoice> choices, KvCache& cache,
                    int64_t count, int32_t* out);
  KvShape kv_shape() const;
  void set_kv_type(KvType type) { kv_type_ = type; }  // of what is not quantized; before anything runs

  Device& device() const { return *device_; }
  double read_bandwidth();
  ProductRate product_rate();
  const ModelConfig& config() const { return config_; }
  std::vector<ModuleReport> modules() const;
  size_t weight_bytes() const;
  size_t bytes_per_token() const;

 private:
  std::vector<std::unique_ptr<DeviceLinear>> make_group(const Plan& plan, const std::string& prefix,
                                                        const std::vector<std::string>& names,
                                                        bool alternating);
  DeviceBuffer upload(const std::vector<float>& values);
  void check_room(const Plan& plan) const;
  void build(const Plan& plan);
  void fill(WeightFiller& filler);
  template <class F>
  void for_each_linear(F&& f) const;

  void reserve(DeviceBatch& batch, int64_t tokens, int64_t steps, bool recorded);
  void describe(DeviceBatch& batch, std::span<const SequenceStep> steps, KvCache& cache, int64_t run = 1);
  void upload(const DeviceBatch& batch, int64_t run);
  // One pass that ends in logits, and in the picked tokens of a recorded batch; recorded the second time.
  void queue_pass(DeviceBatch& batch);
  void queue_choice(DeviceBatch& batch);
  void run_recorded(DeviceBatch& batch);
  void decode(std::span<const SequenceStep> steps, std::span<const TokenChoice> choices, KvCache& cache,
              int64_t count, int32_t* out);
  void describe_choices(DeviceBatch& batch, std::span<const SequenceStep> steps,
                        std::span<const TokenChoice> choices);
  // f(); when it runs out of memory what the pass had taken is given back, so that a smaller one may still run.
  template <class F>
  void pass_or_give_back(F&& f);
  void read_logits(DeviceBatch& batch, float* out, int64_t ldl);
  void release(DeviceBatch& batch);
  // Queue: all layers, then the last norm of the rows wanted.
  class Pass;
  const DeviceLinear& head() const { return head_ ? *head_ : *embedding_; }
  DeviceMatrix head_logits(DeviceInput& input);

  std::unique_ptr<Device> device_;
  const DeviceOps& ops_;
  ModelConfig config_;
  DecoderTraits traits_;
  KvType kv_type_ = KvType::kBF16;
  std::unique_ptr<Rope> rope_;
  RopeTable angles_;
  DeviceStaging staging_;
  DeviceArena arena_;
  std::unique_ptr<DeviceLinear> embedding_, head_;
  std::vector<DeviceLayer> layers_;
  DeviceBuffer final_norm_, counters_;
  DeviceBatch prompt_;
  std::map<std::pair<int64_t, bool>, DeviceBatch> decode_;  // by number of sequences, and whether it draws
};

}  // namespace roundel
