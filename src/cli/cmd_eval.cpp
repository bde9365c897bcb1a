#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/process.h"
#include "cli/command.h"
#include "cli/options.h"
#include "eval/perplexity.h"

namespace roundel::cli {
namespace {

struct State {
  std::string path, text, baseline;
  EvalParams params;
  LoadFlags load;
  JsonOutput json;
};

Json to_json_result(const EvalResult& r, int64_t window) {
  Json json = {{"perplexity", r.perplexity},
               {"mean_nll", r.mean_nll},
               {"tokens", r.tokens},
               {"windows", r.windows},
               {"window", window},
               {"seconds", r.seconds},
               {"tokens_per_second", r.tokens_per_second},
               {"peak_rss_bytes", peak_rss_bytes()}};
  for (const char* field : {"kl_mean", "kl_p99", "top1_agreement"}) json[field] = nullptr;
  if (r.has_baseline) {
    json["kl_mean"] = r.kl_mean;
    json["kl_p99"] = r.kl_p99;
    json["top1_agreement"] = r.top1_agreement;
    json["baseline_perplexity"] = r.baseline_perplexity;
  }
  return json;
}

void run(const State& s) {
  const LoadedModel loaded = load_model(s.path, s.load.options());
  const std::string text = read_text_file(s.text, 1ull << 30);
  LoadedModel baseline;
  if (!s.baseline.empty())
    baseline =
        load_model(s.baseline,
                   {.threads = s.load.threads, .quantize = std::nullopt, .gpu = device_index(s.load.device)});
  const EvalResult r =
      evaluate_text(loaded, text, s.text, s.params, s.baseline.empty() ? nullptr : &baseline);
  s.json.write(to_json_result(r, s.params.window));
  if (s.json.only_json()) return;
  std::string out = fmt::format("perplexity {:.4f}  (mean NLL {:.6f} over {} tokens, {} windows of {})\n",
                                r.perplexity, r.mean_nll, r.tokens, r.windows, s.params.window);
  if (r.has_baseline)
    out += fmt::format(
        "against {}: perplexity {:.4f}, KL divergence mean {:.6f}, p99 {:.4f}, top-1 agreement {:.2f} %\n",
        s.baseline, r.baseline_perplexity, r.kl_mean, r.kl_p99, 100 * r.top1_agreement);
  out += fmt::format("{:.1f} s, {:.0f} tokens/s\n", r.seconds, r.tokens_per_second);
  write_stdout(out);
}

}  // namespace

void add_eval(CLI::App& app) {
  auto s = std::make_shared<State>();
  CLI::App* c = app.add_subcommand(
      "eval", "Perplexity on a text; KL divergence and top-1 agreement against a baseline");
  declare_path(*c, s->path);
  c->add_option("--text", s->text, "Text file, tokenised whole without special tokens")
      ->required()
      ->type_name("FILE");
  c->add_option("--window", s->params.window, "Tokens in a window; windows do not overlap")
      ->check(CLI::Range(int64_t{2}, int64_t{1} << 20))
      ->type_name("N")
      ->capture_default_str();
  c->add_option("--limit-windows", s->params.limit_windows, "At most so many windows")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 40))
      ->type_name("N");
  c->add_option("--every", s->params.every, "Windows 0, K, 2K, ...")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 30))
      ->type_name("K")
      ->capture_default_str();
  c->add_option("--baseline", s->baseline, "Checkpoint to compare with, usually the dense one")
      ->type_name("PATH");
  s->load.declare(*c);
  s->json.declare(*c);
  c->callback([s] { run(*s); });
}

}  // namespace roundel::cli
