// Text generation for one sequence, and the conversation of `chat`.
//
//   Generator generator(loaded, tokenizer);
//   GenerateResult r = generator.run(ids, {.max_tokens = 64}, [](const std::string& piece) { std::cout << piece; });
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "engine/sampler.h"
#include "model/loaded_model.h"
#include "text/tokenizer.h"

namespace roundel {

struct GenerateParams {
  int64_t max_tokens = 128;
  SamplingParams sampling;
  std::vector<int64_t> stop_ids;  // end-of-sequence tokens
};

struct GenerateResult {
  std::vector<int32_t> ids;  // new tokens, without the stop token
  std::string text;
  std::string finish;  // "stop", "length" (max_tokens) or "context" (the model's positions are used up)
  double prefill_seconds = 0, decode_seconds = 0;
};

class Generator {
 public:
  Generator(const LoadedModel& loaded, const Tokenizer& tokenizer);
  // Continues what earlier runs left in the cache when `prompt` begins with it, token for token (chat). Error(kInvalid)
  // for an empty prompt or one longer than the model's positions: nothing is cut silently.
  GenerateResult run(const std::vector<int32_t>& prompt, const GenerateParams& params,
                     const std::function<void(const std::string&)>& on_text);

 private:
  void prefill(std::span<const int32_t> tokens);
  // Keeps what the cache shares with the prompt, makes room for `more` tokens; returns how many it kept.
  size_t keep_common(const std::vector<int32_t>& prompt, int64_t more);
  // The tokens after `id`, several at once where that saves waiting (a GPU); empty: one by one, by logits. step: of the
  // first of them.
  std::vector<int32_t> decode_ahead(int32_t id, const GenerateParams& params, int64_t step);
  const LoadedModel& loaded_;
  const Tokenizer& tokenizer_;
  KvCache cache_;
  std::vector<int32_t> held_;  // tokens in the cache
  std::vector<float> logits_;
};

}  // namespace roundel
