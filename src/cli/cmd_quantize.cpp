#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/log.h"
#include "base/process.h"
#include "base/thread_pool.h"
#include "cli/calibration_flags.h"
#include "cli/command.h"
#include "cli/options.h"
#include "cli/plan_table.h"
#include "cli/quantize_report.h"
#include "model/loaded_model.h"
#include "quantize/quantize_job.h"
#include "quantize/recipe_plan.h"

namespace roundel::cli {
namespace {

struct State {
  std::string source, out, recipe, report, report_text;
  QuantFlags quant;
  CalibrationFlags calibration;
  QuantizeOptions options;
  EvalParams eval{.limit_windows = 32};
  int threads = 0;
  bool dry_run = false;
  double max_shard_gb = 5;
  JsonOutput json;
};

Recipe recipe_of(const State& s, const CLI::App& command) {
  if (s.recipe.empty()) return s.calibration.recipe(s.quant);
  if (s.calibration.names_algorithm())
    fail(ErrorCode::kUsage, "--recipe says what to do; --algorithm, --smooth and --kv-cache exclude it");
  return recipe_file(s.recipe, s.quant, command);
}

// Everything about the reports that can be wrong before hours of work.
void check_reports(const State& s) {
  if (s.report_text.empty() && s.report.empty()) return;
  if (s.report.empty() && s.json.to.empty())
    fail(ErrorCode::kUsage,
         "--report-text measures for a report, and there is none: add --report FILE or --json FILE");
  if (!s.report_text.empty()) File::open_read(s.report_text);
  if (s.report.empty()) return;
  const std::filesystem::path file = s.report, folder = file.has_parent_path() ? file.parent_path() : ".";
  if (std::filesystem::is_directory(file))
    fail(ErrorCode::kUsage, "--report {}: a folder, expected a file", s.report);
  if (!std::filesystem::is_directory(folder))
    fail(ErrorCode::kNotFound, "--report {}: there is no folder {}", s.report, folder.string());
}

// That the text can be measured at all is known before the work; a window is no longer than the model's positions.
void check_report_text(State& s, const ModelFiles& files) {
  if (s.report_text.empty() || s.dry_run) return;
  s.eval.window = std::min(s.eval.window, files.config.max_position);
  const size_t tokens = load_tokenizer(files).encode(read_text_file(s.report_text, 1ull << 30)).size();
  if (tokens < static_cast<size_t>(s.eval.window))
    fail(ErrorCode::kInvalid, "--report-text {}: {} tokens, fewer than one window of {}: give a longer text",
         s.report_text, tokens, s.eval.window);
}

// The samples and steps of a calibrated job.
Calibration prepare(const State& s, const ModelFiles& files, std::vector<CalibrationStep> steps,
                    std::string* described) {
  const Tokenizer tokenizer = load_tokenizer(files);
  CalibrationData data = read_calibration_data(s.calibration.source(), tokenizer,
                                               {.vocab_size = files.config.vocab_size,
                                                .max_position = files.config.max_position,
                                                .template_folder = files.checkpoint.folder()});
  *described = describe(data);
  log_info("calibration: {}", *described);
  Calibration c;
  c.steps = std::move(steps);
  c.samples_text = calibration_record(data);
  c.samples = std::move(data.samples);
  c.propagate_error = s.calibration.sequential == "on";
  c.max_memory = static_cast<uint64_t>(s.calibration.max_memory_gb * 1e9);
  c.spill_above = available_memory_bytes() / 2;
  return c;
}

// The flags that say what was asked for.
std::string request_text(const State& s) {
  if (!s.recipe.empty()) return "--recipe " + s.recipe;
  const PlanText& plan = s.quant.text;
  std::string text = plan.scheme.empty() ? "" : "--scheme " + plan.scheme;
  if (plan.group_size != 0) text += fmt::format(" --group-size {}", plan.group_size);
  for (const std::string& rule : plan.rules) text += " --rule '" + rule + "'";
  for (const std::string& name : plan.ignore) text += " --ignore '" + name + "'";
  if (plan.no_default_ignore) text += " --no-default-ignore";
  text += " --algorithm " + s.calibration.algorithm;
  if (!s.quant.rotate.empty()) text += " --rotate " + s.quant.rotate;
  if (!s.calibration.smooth.empty()) text += " --smooth " + s.calibration.smooth;
  if (!s.calibration.kv_cache.empty()) text += " --kv-cache " + s.calibration.kv_cache;
  if (s.calibration.sequential == "off") text += " --sequential off";
  return text;
}

void require_calibration(const State& s, const RecipePlan& plan) {
  if (!plan.needs_calibration.empty() && s.calibration.calib.empty())
    fail(ErrorCode::kUsage,
         "{} needs calibration data: give a text with --calib FILE (and --samples, --seq-len)",
         plan.needs_calibration);
  if (plan.needs_calibration.empty() && !s.calibration.calib.empty())
    log_warn("--calib {} is not used: rounding to nearest without static activations needs no data",
             s.calibration.calib);
}

void write_results(State& s, const Plan& plan, const QuantizeReport& report, QuantizeContext& context) {
  if (!s.report_text.empty()) {
    context.eval_text = s.report_text;
    context.eval_params = s.eval;
    context.eval = evaluate_output(s.out, s.source, s.report_text, s.eval, s.threads);
  }
  s.json.write(quantize_json(report, plan, context));
  if (!s.report.empty()) write_html_report(s.report, report, plan, context);
  if (!s.json.only_json()) write_stdout(quantize_text(report, plan, context));
}

void run(State& s, const CLI::App& command) {
  if (s.out.empty() && !s.dry_run) fail(ErrorCode::kUsage, "say where to write: -o DIR (or --dry-run)");
  const Recipe recipe = recipe_of(s, command);
  check_reports(s);
  return_freed_buffers();
  ModelFiles files = open_model(s.source, rotation_of(recipe));
  for (const std::string& w : files.warnings) log_warn("{}", w);
  check_report_text(s, files);
  RecipePlan plan = plan_recipe(files, recipe);
  for (const std::string& w : plan.result.warnings) log_warn("{}", w);
  plan.result.problems.throw_if_any("cannot quantize " + s.source + " as asked; nothing was written");
  if (!plan.result.plan.any_quantized() && !plan.result.plan.kv_cache)
    fail(ErrorCode::kInvalid, "the plan quantizes nothing: every module is ignored or without a scheme");
  if (s.dry_run) {
    s.json.write(plan_json(plan.result));
    if (!s.json.only_json()) write_stdout(plan_text(plan.result.plan, false));
    return;
  }
  require_calibration(s, plan);
  QuantizeContext context{.source = s.source, .output = s.out, .request = request_text(s)};
  std::optional<Calibration> calibration;
  if (!plan.needs_calibration.empty()) calibration = prepare(s, files, std::move(plan.steps), &context.data);
  context.calibrated = calibration.has_value();
  if (!calibration) files.stored_plan = {};  // all dense, and as long as the new one
  s.options.calibration = calibration ? &*calibration : nullptr;
  s.options.max_shard_bytes = static_cast<uint64_t>(s.max_shard_gb * 1e9);
  QuantizeReport report;
  {
    ThreadPool pool(s.threads);
    report = quantize_to_disk(files, plan.result.plan, s.out, s.options, pool);
    context.peak_memory = peak_rss_bytes();
  }
  write_results(s, plan.result.plan, report, context);
}

void declare_reports(CLI::App& c, State& s) {
  c.add_option("--report", s.report, "Also write an HTML page with plots and a table of modules")
      ->type_name("FILE");
  c.add_option("--report-text", s.report_text,
               "Measure perplexity of the result, and KL divergence from SRC, on this text for the report")
      ->type_name("FILE");
  c.add_option("--report-windows", s.eval.limit_windows, "Windows of 512 tokens measured, at most (0: all)")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 40))
      ->type_name("N")
      ->capture_default_str();
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
  s->calibration.declare(*c);
  c->add_flag("--resume", s->options.resume, "Take up an interrupted run of the same job");
  c->add_flag("--force", s->options.force, "Replace an existing checkpoint at DST");
  c->add_flag("--dry-run", s->dry_run, "Show the plan and stop");
  c->add_flag("--allow-nan", s->options.allow_not_finite, "Go on when weights hold NaN or infinities");
  c->add_flag("--measure-error", s->options.measure_error,
              "Relative error of every module (in --json and --report; on with them)");
  c->add_option("--max-shard-gb", s->max_shard_gb, "Size of an output file in GB")
      ->check(CLI::Range(0.001, 1000.0))
      ->type_name("GB")
      ->capture_default_str();
  c->add_option("--threads", s->threads, "Threads (default: one for each usable core)")
      ->check(CLI::Range(1, 1024))
      ->type_name("N");
  declare_reports(*c, *s);
  s->json.declare(*c);
  c->callback([s, c] {
    s->calibration.check(*c);
    if (!s->json.to.empty() || !s->report.empty()) s->options.measure_error = true;
    run(*s, *c);
  });
}

}  // namespace roundel::cli
