#include <nlohmann/json.hpp>

#include "base/log.h"
#include "base/process.h"
#include "base/thread_pool.h"
#include "cli/command.h"
#include "cli/options.h"
#include "cli/plan_table.h"
#include "cli/table.h"
#include "quantize/quantize_job.h"

namespace roundel::cli {
namespace {

struct State {
  std::string source, out, recipe, algorithm = "rtn", calib;
  QuantFlags quant;
  QuantizeOptions options;
  int threads = 0;
  bool dry_run = false;
  double max_shard_gb = 5;
  JsonOutput json;
};

PlanRequest request_of(const State& s) {
  if (s.algorithm != "rtn")
    fail(ErrorCode::kUnsupported, "--algorithm {}: not supported yet; supported is rtn", s.algorithm);
  if (!s.calib.empty())
    fail(ErrorCode::kUnsupported, "--calib: no supported scheme or algorithm uses calibration data yet");
  return s.quant.request("--scheme", s.recipe);
}

Json report_json(const QuantizeReport& r) {
  Json modules = Json::array(), skipped = Json::array();
  for (const QuantizedModule& m : r.modules) {
    Json module = {{"name", m.name}, {"scheme", m.scheme}, {"format", m.format}, {"shape", {m.rows, m.cols}}};
    module["relative_error"] = m.relative_error < 0 ? Json(nullptr) : Json(m.relative_error);
    modules.push_back(module);
  }
  for (const auto& [name, reason] : r.skipped) skipped.push_back({{"name", name}, {"reason", reason}});
  return {{"seconds", r.seconds},
          {"peak_rss_bytes", peak_rss_bytes()},
          {"bits_per_weight", r.bits_per_weight},
          {"model_bits_per_weight", r.model_bits_per_weight},
          {"input_bytes", r.input_bytes},
          {"output_bytes", r.output_bytes},
          {"resumed", r.resumed},
          {"modules", modules},
          {"skipped", skipped}};
}

// One line for each scheme; the modules themselves are in --json.
std::string report_text(const State& s, const QuantizeReport& r) {
  struct Group {
    int64_t modules = 0;
    double weights = 0, error = 0;
  };
  std::map<std::string, Group> groups;
  for (const QuantizedModule& m : r.modules) {
    Group& g = groups[m.scheme + "|" + m.format];
    g.modules += 1;
    const double weights = static_cast<double>(m.rows) * static_cast<double>(m.cols);
    g.weights += weights;
    g.error += std::max(m.relative_error, 0.0) * weights;
  }
  Table table({"scheme", "format", "modules", "weights", "relative error"});
  for (const auto& [key, g] : groups) {
    const size_t bar = key.find('|');
    table.add({key.substr(0, bar), key.substr(bar + 1), std::to_string(g.modules),
               fmt::format("{:.4g} M", g.weights / 1e6),
               s.options.measure_error && !r.resumed ? fmt::format("{:.5f}", g.error / g.weights) : "-"});
  }
  std::string text = table.text();
  if (!r.skipped.empty()) {
    text += "not quantized:";
    for (size_t i = 0; i < r.skipped.size() && i < 8; ++i)
      text += fmt::format(" {} ({})", r.skipped[i].first, r.skipped[i].second);
    text += r.skipped.size() > 8 ? fmt::format(" and {} more\n", r.skipped.size() - 8) : "\n";
  }
  text += fmt::format(
      "{}: {} -> {}, {:.3f} bits per weight ({:.3f} of the whole model), {:.1f} s, peak memory {}\n", s.out,
      format_bytes(r.input_bytes), format_bytes(r.output_bytes), r.bits_per_weight, r.model_bits_per_weight,
      r.seconds, format_bytes(peak_rss_bytes()));
  return text;
}

void run(State& s) {
  if (s.out.empty() && !s.dry_run) fail(ErrorCode::kUsage, "say where to write: -o DIR (or --dry-run)");
  const PlanRequest request = request_of(s);
  return_freed_buffers();
  ModelFiles files = open_model(s.source);
  for (const std::string& w : files.warnings) log_warn("{}", w);
  PlanResult result = plan_model(files, request);
  files.stored_plan = {};  // all dense, and as long as the new one
  for (const std::string& w : result.warnings) log_warn("{}", w);
  result.problems.throw_if_any("cannot quantize " + s.source + " as asked; nothing was written");
  if (!result.plan.any_quantized())
    fail(ErrorCode::kInvalid, "the plan quantizes nothing: every module is ignored or without a scheme");
  if (s.dry_run) {
    s.json.write(plan_json(result));
    if (!s.json.only_json()) write_stdout(plan_text(result.plan, false));
    return;
  }
  s.options.max_shard_bytes = static_cast<uint64_t>(s.max_shard_gb * 1e9);
  ThreadPool pool(s.threads);
  const QuantizeReport report = quantize_to_disk(files, result.plan, s.out, s.options, pool);
  s.json.write(report_json(report));
  if (!s.json.only_json()) write_stdout(report_text(s, report));
}

}  // namespace

void add_quantize(CLI::App& app) {
  auto s = std::make_shared<State>();
  CLI::App* c = app.add_subcommand("quantize", "Quantize a checkpoint to disk (compressed-tensors)");
  declare_path(*c, s->source, "SRC", "Dense checkpoint folder (BF16, F16 or F32)");
  c->add_option("-o,--output", s->out, "Folder to write; must not exist yet")->type_name("DST");
  s->quant.declare(*c, "--scheme");
  c->add_option("--recipe", s->recipe,
                "llm-compressor recipe (YAML, JSON, Markdown front matter) instead of flags")
      ->type_name("FILE");
  c->add_option("--algorithm", s->algorithm, "rtn (round to nearest)")
      ->type_name("NAME")
      ->capture_default_str();
  c->add_option("--calib", s->calib, "Calibration text; no supported scheme uses it yet")->type_name("FILE");
  c->add_flag("--resume", s->options.resume, "Take up an interrupted run of the same job");
  c->add_flag("--force", s->options.force, "Replace an existing checkpoint at DST");
  c->add_flag("--dry-run", s->dry_run, "Show the plan and stop");
  c->add_flag("--allow-nan", s->options.allow_not_finite, "Go on when weights hold NaN or infinities");
  c->add_flag("--measure-error", s->options.measure_error,
              "Relative error of every module (in --json; on with it)");
  c->add_option("--max-shard-gb", s->max_shard_gb, "Size of an output file in GB")
      ->check(CLI::Range(0.001, 1000.0))
      ->type_name("GB")
      ->capture_default_str();
  c->add_option("--threads", s->threads, "Threads (default: one for each usable core)")
      ->check(CLI::Range(1, 1024))
      ->type_name("N");
  s->json.declare(*c);
  c->callback([s] {
    if (!s->json.to.empty()) s->options.measure_error = true;
    run(*s);
  });
}

}  // namespace roundel::cli
