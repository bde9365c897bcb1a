// Picks the next token from logits.
//
//   int32_t id = sample(logits, {.temperature = 0.8, .top_p = 0.95, .seed = 1}, history, step);
#pragma once
#include <cstdint>
#include <span>

#include "kernels/api/device_ops.h"

namespace roundel {

struct SamplingParams {
  double temperature = 0;  // 0: greedy
  double top_p = 1;        // smallest set of tokens whose probability reaches it
  int64_t top_k = 0;       // 0: no limit
  double min_p = 0;        // of what is left, tokens of at least this share of the likeliest's probability
  double repetition_penalty = 1;  // of tokens in the history (Keskar et al. 2019)
  uint64_t seed = 0;
};

// Same logits, history, seed and step: same token. Ties go to the lower id. Changes `logits`. On a GPU
// kernels/cuda/sm80/draw.cu does the same.
int32_t sample(std::span<float> logits, const SamplingParams& params, std::span<const int32_t> history,
               uint64_t step);

// The same for a GPU, `step` of the first token.
DrawRow draw_row(const SamplingParams& params, uint64_t step);

}  // namespace roundel
