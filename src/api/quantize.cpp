// plan() and quantize() of roundel.h.
#include "quantize/quantize_job.h"

#include "api/request.h"
#include "base/log.h"
#include "base/process.h"
#include "base/thread_pool.h"
#include "model/plan_report.h"

namespace roundel::api {

PlanRequest request_of(const Quantization& how) {
  PlanText text;
  text.scheme = how.scheme;
  text.group_size = how.group_size;
  text.rules = how.rules;
  text.ignore = how.ignore;
  text.no_default_ignore = !how.ignore_lm_head;
  text.on_indivisible = how.on_indivisible;
  return plan_request(text, how.recipe);
}

int checked_threads(int threads) {
  if (threads < 0 || threads > 1024) fail(ErrorCode::kInvalid, "threads is {}, expected 0 to 1024", threads);
  return threads;
}

PlanReport plan(const std::filesystem::path& folder, const Quantization& how) {
  const ModelFiles files = open_model(folder);
  PlanResult result;
  if (how.empty())
    result.plan = files.stored_plan;
  else
    result = plan_model(files, request_of(how));
  const roundel::PlanReport numbers = report_plan(result.plan);
  PlanReport report;
  for (size_t i = 0; i < numbers.rows.size(); ++i) {
    const PlanRow& row = numbers.rows[i];
    const PlanEntry& e = result.plan.entries[i];
    report.modules.push_back({e.module.name, e.module.rows, e.module.cols, row.scheme, row.format, row.kernel,
                              e.note, static_cast<uint64_t>(row.bytes)});
  }
  report.total_bytes = static_cast<uint64_t>(numbers.total_bytes);
  report.bits_per_weight = numbers.bits_per_weight;
  for (const Problem& p : result.problems.list())
    report.problems.push_back((p.where.empty() ? "" : p.where + ": ") + p.message);
  report.warnings = files.warnings;
  report.warnings.insert(report.warnings.end(), result.warnings.begin(), result.warnings.end());
  return report;
}

QuantizeReport quantize(const std::filesystem::path& source, const std::filesystem::path& destination,
                        const Quantization& how, const QuantizeOptions& options) {
  constexpr uint64_t kSmallestShard = 1'000'000;
  if (options.max_shard_bytes < kSmallestShard)
    fail(ErrorCode::kInvalid, "max_shard_bytes is {}, expected at least {}", options.max_shard_bytes,
         kSmallestShard);
  const PlanRequest request = request_of(how);
  const ModelFiles files = open_model(source);
  for (const std::string& w : files.warnings) log_warn("{}", w);
  const PlanResult planned = plan_model(files, request);
  for (const std::string& w : planned.warnings) log_warn("{}", w);
  planned.problems.throw_if_any("cannot quantize " + source.string() + " as asked; nothing was written");
  if (!planned.plan.any_quantized())
    fail(ErrorCode::kInvalid, "the plan quantizes nothing: every module is ignored or without a scheme");
  ThreadPool pool(checked_threads(options.threads));
  roundel::QuantizeReport done = quantize_to_disk(files, planned.plan, destination,
                                                  {.force = options.force,
                                                   .resume = options.resume,
                                                   .allow_not_finite = options.allow_nan,
                                                   .measure_error = options.measure_error,
                                                   .max_shard_bytes = options.max_shard_bytes},
                                                  pool);
  QuantizeReport report;
  for (const roundel::QuantizedModule& m : done.modules)
    report.modules.push_back({m.name, m.scheme, m.format, m.rows, m.cols,
                              m.relative_error < 0 ? std::nullopt : std::optional(m.relative_error)});
  report.skipped = std::move(done.skipped);
  report.input_bytes = done.input_bytes;
  report.output_bytes = done.output_bytes;
  report.bits_per_weight = done.bits_per_weight;
  report.model_bits_per_weight = done.model_bits_per_weight;
  report.seconds = done.seconds;
  report.resumed = done.resumed;
  return report;
}

void set_log_level(LogLevel level) {
  LogOptions options;
  options.level = level == LogLevel::kDebug  ? roundel::LogLevel::kDebug
                  : level == LogLevel::kInfo ? roundel::LogLevel::kInfo
                  : level == LogLevel::kWarn ? roundel::LogLevel::kWarn
                                             : roundel::LogLevel::kError;
  options.progress = level == LogLevel::kDebug || level == LogLevel::kInfo;
  configure_log(options);
}

void interrupt(bool on) {
  set_interrupted(on);
}

}  // namespace roundel::api
