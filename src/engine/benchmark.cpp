#include "engine/benchmark.h"

#include <algorithm>
#include <numeric>
#include <span>

#include "base/log.h"
#include "base/process.h"
#include "base/rng.h"
#include "kernels/list.h"

namespace roundel {
namespace {

double median_of(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

// Sums 512 MiB with all threads, several streams each; the best of five passes.
double measure_read_bandwidth(ThreadPool& pool) {
  constexpr int64_t kBytes = 512ll << 20, kPiece = 4 << 20;
  Buffer buffer(kBytes, true);
  const int64_t pieces = kBytes / kPiece;
  std::vector<uint64_t> sums(static_cast<size_t>(pieces));
  double best = 0;
  for (int pass = 0; pass < 5; ++pass) {
    const double start = seconds_now();
    pool.parallel_for(pieces, 1, [&](int64_t begin, int64_t end) {
      for (int64_t p = begin; p < end; ++p) {
        const uint64_t* x = buffer.as<uint64_t>() + p * (kPiece / 8);
        constexpr int64_t kStreams = 8, kStride = kPiece / 8 / kStreams;
        uint64_t sum[kStreams] = {};
        for (int64_t i = 0; i < kStride; i += 8)
          for (int64_t s = 0; s < kStreams; ++s)
            for (int64_t j = 0; j < 8; ++j) sum[s] += x[s * kStride + i + j];
        sums[static_cast<size_t>(p)] = std::accumulate(sum, sum + kStreams, uint64_t{0});
      }
    });
    best = std::max(best, static_cast<double>(kBytes) / (seconds_now() - start));
  }
  CHECK(std::accumulate(sums.begin(), sums.end(), uint64_t{0}) == 0);
  return best;
}

// The best of a few passes over all threads.
double measure_int8_peak(ThreadPool& pool) {
  const Int8Peak* peak = int8_peak();
  if (!peak) return 0;
  double best = 0;
  for (int pass = 0; pass < 50; ++pass) {
    const double start = seconds_now();
    pool.parallel_for(pool.size(), 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) peak->run();
    });
    best = std::max(best, peak->operations * pool.size() / (seconds_now() - start));
  }
  return best;
}

class Runner {
 public:
  Runner(const LoadedModel& loaded, const BenchmarkParams& params)
      : model_(*loaded.model), pool_(*loaded.pool), params_(params), cache_(model_.make_cache(params.batch)) {
    const uint64_t vocab = static_cast<uint64_t>(model_.config().vocab_size);
    ids_.resize(static_cast<size_t>(params.prompt_tokens + params.decode_tokens + 1));
    for (size_t i = 0; i < ids_.size(); ++i) ids_[i] = static_cast<int32_t>(random_u64(1, i) % vocab);
    for (int64_t b = 0; b < params.batch; ++b)
      cache_.reserve(b, params.prompt_tokens + params.decode_tokens + 1);
    logits_.resize(static_cast<size_t>(params.batch) * vocab);
  }

  BenchmarkSample round() {
    for (int64_t b = 0; b < params_.batch; ++b) cache_.clear(b);
    BenchmarkSample s;
    double start = seconds_now();
    for (int64_t b = 0; b < params_.batch; ++b) prefill(b);
    const double prefill_seconds = seconds_now() - start;
    const double batch = static_cast<double>(params_.batch);
    if (params_.prompt_tokens > 0)
      s.prefill_tokens_per_second = static_cast<double>(params_.prompt_tokens) * batch / prefill_seconds;
    start = seconds_now();
    for (int64_t i = 0; i < params_.decode_tokens; i += kDecodeRun)
      decode(params_.prompt_tokens + i, std::min(kDecodeRun, params_.decode_tokens - i));
    if (params_.decode_tokens > 0)
      s.decode_tokens_per_second =
          static_cast<double>(params_.decode_tokens) * batch / (seconds_now() - start);
    return s;
  }

 private:
  void prefill(int64_t slot) {
    const std::span<const int32_t> all(ids_.data(), static_cast<size_t>(params_.prompt_tokens));
    const size_t chunk = static_cast<size_t>(model_.prompt_chunk());
    for (size_t at = 0; at < all.size(); at += chunk) {
      throw_if_interrupted();
      const SequenceStep step{slot, all.subspan(at, std::min(chunk, all.size() - at)),
                              static_cast<int64_t>(all.size())};
      if (at + step.tokens.size() < all.size())
        model_.forward({&step, 1}, cache_, nullptr, pool_);
      else
        model_.next_logits({&step, 1}, cache_, logits_.data(), model_.config().vocab_size, pool_);
    }
  }
  // Each token is the most likely after the one before; every run begins with a known one.
  void decode(int64_t position, int64_t count) {
    throw_if_interrupted();
    std::vector<SequenceStep> steps;
    for (int64_t b = 0; b < params_.batch; ++b)
      steps.push_back({b, {&ids_[static_cast<size_t>(position)], 1}});
    picked_.resize(static_cast<size_t>(count * params_.batch));
    const SamplingParams& s = params_.sampling;
    if (s.temperature <= 0) {
      model_.decode_greedy(steps, cache_, count, picked_.data(), pool_);
    } else if (model_.draws_tokens(params_.batch)) {
      const std::vector<TokenChoice> choices(steps.size(),
                                             {draw_row(s, static_cast<uint64_t>(position)), {}});
      model_.decode_drawn(steps, choices, cache_, count, picked_.data());
    } else {
      for (int64_t i = 0; i < count; ++i) draw_one(steps, position + i, picked_.data() + i * params_.batch);
    }
  }
  void draw_one(std::vector<SequenceStep>& steps, int64_t position, int32_t* out) {
    const size_t vocab = static_cast<size_t>(model_.config().vocab_size);
    model_.next_logits(steps, cache_, logits_.data(), model_.config().vocab_size, pool_);
    for (size_t b = 0; b < steps.size(); ++b) {
      out[b] = sample(std::span(logits_).subspan(b * vocab, vocab), params_.sampling, {},
                      static_cast<uint64_t>(position));
      steps[b].tokens = {out + b, 1};
    }
  }
  static constexpr int64_t kDecodeRun = 32;

  const Model& model_;
  ThreadPool& pool_;
  const BenchmarkParams& params_;
  KvCache cache_;
  std::vector<int32_t> ids_, picked_;
  std::vector<float> logits_;
};

// A comparison, not the benchmark: a GPU that is nearly full goes without it.
ProductRate product_rate_if_it_fits(const Model& model) {
  try {
    return model.device_product_rate();
  } catch (const Error& e) {
    if (e.code() != ErrorCode::kLimit) throw;
    log_debug("the rate of a large product was not measured: {}", e.what());
    return {};
  }
}

}  // namespace

BenchmarkResult run_benchmark(const LoadedModel& loaded, const BenchmarkParams& params) {
  const int64_t positions = loaded.model->config().max_position;
  if (params.prompt_tokens + params.decode_tokens > positions)
    fail(ErrorCode::kInvalid, "{} prompt and {} decode tokens, the model has {} positions",
         params.prompt_tokens, params.decode_tokens, positions);
  BenchmarkResult result;
  const Device* gpu = loaded.model->device();
  if (!gpu) {
    result.read_bandwidth = measure_read_bandwidth(*loaded.pool);
    result.int8_peak = measure_int8_peak(*loaded.pool);
  }
  Runner runner(loaded, params);
  runner.round();
  std::vector<double> prefill, decode;
  for (int64_t i = 0; i < params.repeat; ++i) {
    result.samples.push_back(runner.round());
    prefill.push_back(result.samples.back().prefill_tokens_per_second);
    decode.push_back(result.samples.back().decode_tokens_per_second);
  }
  if (gpu) {  // what is measured of the machine itself takes memory of its own
    result.gpu_peak_bytes = gpu->peak_allocated();
    result.read_bandwidth = loaded.model->device_read_bandwidth();
  }
  result.median = {median_of(prefill), median_of(decode)};
  result.decode_share = result.median.decode_tokens_per_second / static_cast<double>(params.batch) *
                        static_cast<double>(loaded.model->bytes_per_token()) / result.read_bandwidth;
  if (gpu && params.prompt_tokens > 0) {
    result.product_rate = product_rate_if_it_fits(*loaded.model);
    if (result.product_rate.operations_per_second > 0)
      result.prefill_share = result.median.prefill_tokens_per_second *
                             result.product_rate.operations_per_token /
                             result.product_rate.operations_per_second;
  } else if (result.int8_peak > 0) {
    result.prefill_share =
        result.median.prefill_tokens_per_second * loaded.model->operations_per_token() / result.int8_peak;
  }
  return result;
}

}  // namespace roundel
