// Perplexity of a text, and how far a model is from a baseline: KL divergence and top-1 agreement.
//
// Protocol: non-overlapping windows of N tokens, the incomplete last one left out; every K-th window; perplexity =
// exp(mean negative log-likelihood of tokens 2..N of each window), log-softmax in float with double sums. KL divergence is
// KL(baseline || model) in nats at the same positions.
//
//   EvalResult r = evaluate(loaded, ids, {.window = 512, .every = 8}, &baseline);
#pragma once
#include <cstdint>
#include <span>
#include <string>

#include "model/loaded_model.h"

namespace roundel {

struct EvalParams {
  int64_t window = 512;
  int64_t every = 1;
  int64_t limit_windows = 0;  // 0: all
};

struct EvalResult {
  double perplexity = 0, mean_nll = 0;
  int64_t tokens = 0;  // predicted
  int64_t windows = 0;
  double seconds = 0, tokens_per_second = 0;  // of the model alone, tokens read
  bool has_baseline = false;
  double baseline_perplexity = 0;
  double kl_mean = 0, kl_p99 = 0, top1_agreement = 0;
};

// Error(kInvalid) when the parameters are out of range, the text has fewer tokens than one window, or the window is longer
// than the model's positions.
EvalResult evaluate(const LoadedModel& loaded, std::span<const int32_t> ids, const EvalParams& params,
                    const LoadedModel* baseline = nullptr);

// The same for a text, tokenised whole without special tokens. Error(kInvalid) when the baseline's tokenizer gives other
// tokens for it. `name` is the text's, for messages.
EvalResult evaluate_text(const LoadedModel& loaded, const std::string& text, const std::string& name,
                         const EvalParams& params, const LoadedModel* baseline = nullptr);

}  // namespace roundel
