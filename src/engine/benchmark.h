// Speed of a loaded model: prompt processing and decoding, as `roundel bench` reports it.
#pragma once
#include <cstdint>
#include <vector>

#include "engine/sampler.h"
#include "model/loaded_model.h"

namespace roundel {

struct BenchmarkParams {
  int64_t prompt_tokens = 512;
  int64_t decode_tokens = 128;
  int64_t batch = 1;
  int64_t repeat = 5;
  SamplingParams sampling;  // greedy, or how each new token is drawn
};

struct BenchmarkSample {
  double prefill_tokens_per_second = 0;  // all sequences together
  double decode_tokens_per_second = 0;
};

struct BenchmarkResult {
  std::vector<BenchmarkSample> samples;
  BenchmarkSample median;
  size_t gpu_peak_bytes = 0;  // of GPU memory with weights, cache and activations
  double read_bandwidth = 0;  // bytes/s that the same threads read from memory, measured in the same run
  double decode_share =
      0;  // share of that which decoding reaches: tokens/s / batch * bytes per token / bandwidth
  // Of a GPU, measured in the same run; operations_per_second is 0 where the GPU had no room for it.
  ProductRate product_rate;
  // Operations/s that the same threads multiply bytes with, from registers, measured in the same run. 0 on a GPU.
  double int8_peak = 0;
  // Share of the product rate or the int8 peak that the linears of prompts reach: tokens/s * operations per token / rate.
  double prefill_share = 0;
};

// Random token ids from a fixed seed, then decoding, greedy or as `sampling` says; a warm-up round first.
BenchmarkResult run_benchmark(const LoadedModel& loaded, const BenchmarkParams& params);

}  // namespace roundel
