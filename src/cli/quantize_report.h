// What `quantize` shows of a finished job: a table, JSON, an HTML page, and the perplexity of what was written.
#pragma once
#include <filesystem>
#include <optional>
#include <string>

#include "base/json.h"
#include "eval/perplexity.h"
#include "quantize/quantize_job.h"

namespace roundel::cli {

// Beside the job's own report.
struct QuantizeContext {
  std::string source, output, request;
  uint64_t peak_memory = 0;  // bytes, of the job alone
  bool calibrated = false;
  std::string data;       // describe(CalibrationData), "" without
  std::string eval_text;  // the file of `eval`
  EvalParams eval_params;
  std::optional<EvalResult> eval;  // of the output, the source its baseline
};

// One line for each scheme and algorithm; the modules themselves are in the JSON.
std::string quantize_text(const QuantizeReport& report, const QuantizeContext& context);
Json quantize_json(const QuantizeReport& report, const Plan& plan, const QuantizeContext& context);
// Writes the page.
void write_html_report(const std::filesystem::path& file, const QuantizeReport& report, const Plan& plan,
                       const QuantizeContext& context);

// Perplexity of the folder `output` on a text, and KL divergence from `source`.
EvalResult evaluate_output(const std::string& output, const std::string& source, const std::string& text,
                           const EvalParams& params, int threads);

}  // namespace roundel::cli
