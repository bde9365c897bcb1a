// From what a caller says to what a Generator needs: sampling with the model's own defaults, a prompt as tokens.
//
//   Generator(loaded, tokenizer).run(encode_prompt(loaded, tokenizer, text), generate_params(loaded, 64, {.seed = 1}), {});
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/generate.h"

namespace roundel {

// What is left open is as generation_config.json says where that samples, else greedy.
struct SamplingChoice {
  std::optional<double> temperature;  // 0 to 100; 0: greedy
  std::optional<double> top_p;        // 0 to 1
  std::optional<int64_t> top_k;       // 0: no limit
  uint64_t seed = 0;
  std::optional<double> min_p;  // 0 to 1
};

// With the model's stop tokens and repetition penalty. Error(kInvalid) for numbers out of their range.
GenerateParams generate_params(const LoadedModel& loaded, int64_t max_tokens, const SamplingChoice& choice);

// The text with the special tokens that the tokenizer adds; only the begin token when that is all there is.
std::vector<int32_t> encode_prompt(const LoadedModel& loaded, const Tokenizer& tokenizer,
                                   const std::string& text);

}  // namespace roundel
