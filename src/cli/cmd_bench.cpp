#include <nlohmann/json.hpp>

#include "base/log.h"
#include "base/process.h"
#include "cli/command.h"
#include "cli/options.h"
#include "engine/benchmark.h"

namespace roundel::cli {
namespace {

struct State {
  std::string path;
  BenchmarkParams params;
  SamplingChoice choice;
  LoadFlags load;
  JsonOutput json;
};

// What the linears of prompts reach of the fastest products there are.
std::string share_of_rate(const BenchmarkResult& r, bool on_gpu) {
  if (r.int8_peak > 0)
    return fmt::format("; {:.0f} % of the int8 peak ({:.0f} GOP/s measured)", 100 * r.prefill_share,
                       r.int8_peak / 1e9);
  if (r.product_rate.operations_per_second <= 0)
    return on_gpu && r.median.prefill_tokens_per_second > 0
               ? "; the GPU has no room left to measure a large product"
               : "";
  return fmt::format("; its linears {:.0f} TFLOP/s, {:.0f} % of a large {} product ({:.0f} TFLOP/s measured)",
                     r.prefill_share * r.product_rate.operations_per_second / 1e12, 100 * r.prefill_share,
                     r.product_rate.kind, r.product_rate.operations_per_second / 1e12);
}

// 0: not measured.
Json number_or_null(double value) {
  return value > 0 ? Json(value) : Json(nullptr);
}

void run(const State& s) {
  const LoadedModel loaded = load_model(s.path, s.load.options());
  const uint64_t load_peak = peak_rss_bytes();
  const Device* gpu = loaded.model->device();
  const size_t gpu_load_peak = gpu ? gpu->peak_allocated() : 0;
  BenchmarkParams params = s.params;
  // Greedy unless asked: the model's own generation_config is not used.
  params.sampling.temperature = s.choice.temperature.value_or(0);
  params.sampling.top_p = s.choice.top_p.value_or(1);
  params.sampling.top_k = s.choice.top_k.value_or(0);
  params.sampling.min_p = s.choice.min_p.value_or(0);
  params.sampling.seed = s.choice.seed;
  const BenchmarkResult r = run_benchmark(loaded, params);
  Json samples = Json::array();
  for (const BenchmarkSample& x : r.samples)
    samples.push_back({{"prefill_tokens_per_second", x.prefill_tokens_per_second},
                       {"decode_tokens_per_second", x.decode_tokens_per_second}});
  const size_t per_token = loaded.model->bytes_per_token();
  s.json.write({{"prefill_tokens_per_second", r.median.prefill_tokens_per_second},
                {"decode_tokens_per_second", r.median.decode_tokens_per_second},
                {"load_seconds", loaded.load_seconds},
                {"peak_rss_bytes", load_peak},
                {"gpu_peak_bytes_loading", gpu ? Json(gpu_load_peak) : Json(nullptr)},
                {"gpu_peak_bytes", gpu ? Json(r.gpu_peak_bytes) : Json(nullptr)},
                {"batch", s.params.batch},
                {"prompt_tokens", s.params.prompt_tokens},
                {"decode_tokens", s.params.decode_tokens},
                {"threads", loaded.pool->size()},
                {"weight_bytes", loaded.model->weight_bytes()},
                {"bytes_per_token", per_token},
                {"read_bandwidth_bytes_per_second", r.read_bandwidth},
                {"decode_share_of_read_bound", r.decode_share},
                {"product_operations_per_second", number_or_null(r.product_rate.operations_per_second)},
                {"int8_peak_operations_per_second", number_or_null(r.int8_peak)},
                {"prefill_share_of_peak", number_or_null(r.prefill_share)},
                {"samples", samples}});
  if (s.json.only_json()) return;
  write_stdout(
      fmt::format("load {:.2f} s, weights {}, peak memory {}, {} threads\n", loaded.load_seconds,
                  format_bytes(loaded.model->weight_bytes()), format_bytes(load_peak), loaded.pool->size()) +
      (gpu ? fmt::format("GPU memory allocated: {} at most while loading, {} with cache and activations\n",
                         format_bytes(gpu_load_peak), format_bytes(r.gpu_peak_bytes))
           : "") +
      fmt::format("prompt {} tokens: {:.1f} tokens/s{}\n", s.params.prompt_tokens,
                  r.median.prefill_tokens_per_second, share_of_rate(r, gpu != nullptr)) +
      fmt::format("decode {} tokens, batch {}: {:.1f} tokens/s; {} read a token, {:.0f} % of the "
                  "read bound ({:.1f} GB/s measured)\n",
                  s.params.decode_tokens, s.params.batch, r.median.decode_tokens_per_second,
                  format_bytes(per_token), 100 * r.decode_share, r.read_bandwidth / 1e9));
}

}  // namespace

void add_bench(CLI::App& app) {
  auto s = std::make_shared<State>();
  CLI::App* c = app.add_subcommand(
      "bench", "Speed: prompt processing and decoding, medians, share of the memory-read bound");
  declare_path(*c, s->path);
  c->add_option("--prompt-tokens", s->params.prompt_tokens, "Tokens of each prompt")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 20))
      ->type_name("N")
      ->capture_default_str();
  c->add_option("--decode-tokens", s->params.decode_tokens, "Tokens to decode")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 20))
      ->type_name("N")
      ->capture_default_str();
  c->add_option("--batch", s->params.batch, "Sequences at once")
      ->check(CLI::Range(int64_t{1}, int64_t{4096}))
      ->type_name("N")
      ->capture_default_str();
  c->add_option("--repeat", s->params.repeat, "Measured rounds, after one warm-up; the median is reported")
      ->check(CLI::Range(int64_t{1}, int64_t{1000}))
      ->type_name("N")
      ->capture_default_str();
  declare_sampling(*c, s->choice);
  s->load.declare(*c);
  s->json.declare(*c);
  c->callback([s] { run(*s); });
}

}  // namespace roundel::cli
