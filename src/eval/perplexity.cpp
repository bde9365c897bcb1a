#include "eval/perplexity.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/log.h"
#include "base/process.h"

namespace roundel {
namespace {

constexpr int64_t kHeadRows = 64;  // rows of logits at a time: bounds memory at any vocabulary

// Hidden states of a window and logits of a few of its rows.
class WindowRunner {
 public:
  explicit WindowRunner(const LoadedModel& loaded, int64_t window)
      : model_(*loaded.model), pool_(*loaded.pool), cache_(model_.make_cache(1)) {
    cache_.reserve(0, window);
    hidden_.resize(static_cast<size_t>(window * model_.hidden_ld()));
    logits_.resize(static_cast<size_t>(kHeadRows * vocab()));
  }
  int64_t vocab() const { return model_.config().vocab_size; }
  void run(std::span<const int32_t> tokens) {
    const double start = seconds_now();
    cache_.clear(0);
    for (size_t at = 0; at < tokens.size(); at += 512) {
      const SequenceStep step{0, tokens.subspan(at, std::min<size_t>(512, tokens.size() - at)),
                              static_cast<int64_t>(tokens.size())};
      model_.forward({&step, 1}, cache_, hidden_.data() + at * static_cast<size_t>(model_.hidden_ld()),
                     pool_);
    }
    seconds += seconds_now() - start;
  }
  const float* logits(int64_t row0, int64_t rows) {
    const double start = seconds_now();
    model_.logits(hidden_.data() + row0 * model_.hidden_ld(), rows, logits_.data(), vocab(), pool_);
    seconds += seconds_now() - start;
    return logits_.data();
  }
  double seconds = 0;

 private:
  const Model& model_;
  ThreadPool& pool_;
  KvCache cache_;
  std::vector<float> hidden_, logits_;
};

struct RowStats {
  double log_sum = 0;  // log of the sum of exp(logit)
  int32_t top = 0;
};

RowStats row_stats(const float* logits, int64_t n) {
  const float* top = std::max_element(logits, logits + n);
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += std::exp(logits[i] - *top);
  return {*top + std::log(sum), static_cast<int32_t>(top - logits)};
}

// sum p (log p - log q), p of the baseline.
double kl_divergence(const float* base, const RowStats& b, const float* model, const RowStats& m, int64_t n) {
  const float shift_b = static_cast<float>(b.log_sum), shift_m = static_cast<float>(m.log_sum);
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) {
    const float log_p = base[i] - shift_b;
    sum += std::exp(log_p) * (log_p - (model[i] - shift_m));
  }
  return std::max(sum, 0.0);
}

struct Totals {
  double nll = 0, base_nll = 0;
  int64_t tokens = 0, agree = 0;
  std::vector<double> kl;
};

void add_window(WindowRunner& runner, WindowRunner* base, std::span<const int32_t> tokens, ThreadPool& pool,
                Totals& totals) {
  runner.run(tokens);
  if (base) base->run(tokens);
  const int64_t targets = static_cast<int64_t>(tokens.size()) - 1, vocab = runner.vocab();
  for (int64_t row0 = 0; row0 < targets; row0 += kHeadRows) {
    const int64_t rows = std::min(kHeadRows, targets - row0);
    const float* logits = runner.logits(row0, rows);
    const float* base_logits = base ? base->logits(row0, rows) : nullptr;
    struct Row {
      double nll = 0, base_nll = 0, kl = 0;
      bool agree = false;
    };
    std::vector<Row> out(static_cast<size_t>(rows));
    pool.parallel_for(rows, 1, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        const int32_t next = tokens[static_cast<size_t>(row0 + r + 1)];
        Row& row = out[static_cast<size_t>(r)];
        const RowStats s = row_stats(logits + r * vocab, vocab);
        row.nll = s.log_sum - logits[r * vocab + next];
        if (!base_logits) continue;
        const RowStats b = row_stats(base_logits + r * vocab, vocab);
        row.base_nll = b.log_sum - base_logits[r * vocab + next];
        row.kl = kl_divergence(base_logits + r * vocab, b, logits + r * vocab, s, vocab);
        row.agree = b.top == s.top;
      }
    });
    for (const Row& row : out) {  // in order: sums do not depend on the number of threads
      totals.nll += row.nll;
      totals.base_nll += row.base_nll;
      totals.agree += row.agree;
      if (base) totals.kl.push_back(row.kl);
    }
    totals.tokens += rows;
  }
}

}  // namespace

EvalResult evaluate(const LoadedModel& loaded, std::span<const int32_t> ids, const EvalParams& params,
                    const LoadedModel* baseline) {
  const int64_t positions = loaded.model->config().max_position;
  if (params.window < 2 || params.window > positions)
    fail(ErrorCode::kInvalid, "a window of {} tokens: expected 2 to {} (max_position_embeddings)",
         params.window, positions);
  if (params.every < 1 || params.limit_windows < 0)
    fail(ErrorCode::kInvalid, "every is {} and limit_windows {}, expected at least 1 and 0", params.every,
         params.limit_windows);
  const int64_t available = static_cast<int64_t>(ids.size()) / params.window;
  if (available == 0)
    fail(ErrorCode::kInvalid, "the text has {} tokens, fewer than one window of {}: use a smaller --window",
         ids.size(), params.window);
  if (baseline && baseline->model->config().vocab_size != loaded.model->config().vocab_size)
    fail(ErrorCode::kInvalid,
         "the baseline has a vocabulary of {}, the model one of {}: they cannot be compared",
         baseline->model->config().vocab_size, loaded.model->config().vocab_size);
  int64_t windows = (available + params.every - 1) / params.every;
  if (params.limit_windows > 0) windows = std::min(windows, params.limit_windows);

  WindowRunner runner(loaded, params.window);
  std::unique_ptr<WindowRunner> base =
      baseline ? std::make_unique<WindowRunner>(*baseline, params.window) : nullptr;
  Totals totals;
  Progress progress("evaluating", static_cast<uint64_t>(windows), "windows");
  for (int64_t w = 0; w < windows; ++w) {
    throw_if_interrupted();
    const size_t first = static_cast<size_t>(w * params.every * params.window);
    add_window(runner, base.get(), ids.subspan(first, static_cast<size_t>(params.window)), *loaded.pool,
               totals);
    progress.advance(1);
  }

  EvalResult r;
  r.windows = windows;
  r.tokens = totals.tokens;
  r.mean_nll = totals.nll / static_cast<double>(totals.tokens);
  r.perplexity = std::exp(r.mean_nll);
  r.seconds = runner.seconds;
  r.tokens_per_second = static_cast<double>(windows * params.window) / runner.seconds;
  if (base) {
    r.has_baseline = true;
    r.baseline_perplexity = std::exp(totals.base_nll / static_cast<double>(totals.tokens));
    for (const double kl : totals.kl) r.kl_mean += kl / static_cast<double>(totals.kl.size());
    const size_t p99 = static_cast<size_t>(0.99 * static_cast<double>(totals.kl.size() - 1));
    std::nth_element(totals.kl.begin(), totals.kl.begin() + static_cast<std::ptrdiff_t>(p99),
                     totals.kl.end());
    r.kl_p99 = totals.kl[p99];
    r.top1_agreement = static_cast<double>(totals.agree) / static_cast<double>(totals.tokens);
  }
  return r;
}

EvalResult evaluate_text(const LoadedModel& loaded, const std::string& text, const std::string& name,
                         const EvalParams& params, const LoadedModel* baseline) {
  const std::vector<int32_t> ids = load_tokenizer(*loaded.files).encode(text);
  if (baseline && load_tokenizer(*baseline->files).encode(text) != ids)
    fail(ErrorCode::kInvalid,
         "the baseline {}: its tokenizer gives other tokens for {}: the two cannot be compared",
         baseline->files->checkpoint.folder().string(), name);
  return evaluate(loaded, ids, params, baseline);
}

}  // namespace roundel
