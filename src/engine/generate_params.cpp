#include "engine/generate_params.h"

#include "checkpoint/model_config.h"

namespace roundel {

GenerateParams generate_params(const LoadedModel& loaded, int64_t max_tokens, const SamplingChoice& choice) {
  constexpr int64_t kMostTokens = 1 << 24, kLargestTopK = 1 << 30;
  if (max_tokens < 1 || max_tokens > kMostTokens)
    fail(ErrorCode::kInvalid, "max_tokens is {}, expected 1 to {}", max_tokens, kMostTokens);
  // Written so that NaN is refused too.
  if (choice.temperature && !(*choice.temperature >= 0 && *choice.temperature <= 100))
    fail(ErrorCode::kInvalid, "temperature is {}, expected 0 to 100", *choice.temperature);
  if (choice.top_p && !(*choice.top_p >= 0 && *choice.top_p <= 1))
    fail(ErrorCode::kInvalid, "top_p is {}, expected 0 to 1", *choice.top_p);
  if (choice.min_p && !(*choice.min_p >= 0 && *choice.min_p <= 1))
    fail(ErrorCode::kInvalid, "min_p is {}, expected 0 to 1", *choice.min_p);
  if (choice.top_k && (*choice.top_k < 0 || *choice.top_k > kLargestTopK))
    fail(ErrorCode::kInvalid, "top_k is {}, expected 0 to {}", *choice.top_k, kLargestTopK);

  const ModelFiles& files = *loaded.files;
  const GenerationConfig own = read_generation_config(files.checkpoint.folder(), files.config);
  const SamplingParams greedy;
  GenerateParams p;
  p.max_tokens = max_tokens;
  p.stop_ids = own.eos_token_ids;
  p.sampling.temperature = choice.temperature.value_or(own.do_sample ? own.temperature : greedy.temperature);
  p.sampling.top_p = choice.top_p.value_or(own.do_sample ? own.top_p : greedy.top_p);
  p.sampling.top_k = choice.top_k.value_or(own.do_sample ? own.top_k : greedy.top_k);
  p.sampling.min_p = choice.min_p.value_or(own.do_sample ? own.min_p : greedy.min_p);
  p.sampling.repetition_penalty = own.repetition_penalty;
  p.sampling.seed = choice.seed;
  return p;
}

std::vector<int32_t> encode_prompt(const LoadedModel& loaded, const Tokenizer& tokenizer,
                                   const std::string& text) {
  std::vector<int32_t> ids = tokenizer.encode(text, {.add_special = true});
  const auto& begin = loaded.files->config.bos_token_id;
  if (ids.empty() && begin) ids.push_back(static_cast<int32_t>(*begin));
  return ids;
}

}  // namespace roundel
