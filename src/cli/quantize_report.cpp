#include "cli/quantize_report.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/log.h"
#include "base/process.h"
#include "cli/table.h"
#include "eval/html_report.h"
#include "model/loaded_model.h"
#include "roundel/version.h"
#include "scheme/storage_format.h"

namespace roundel::cli {
namespace {

std::map<std::string, const CalibratedModule*> by_name(const QuantizeReport& report) {
  std::map<std::string, const CalibratedModule*> map;
  for (const CalibratedModule& m : report.calibrated) map[m.module] = &m;
  return map;
}

// What the two lists of the job's report say of one module.
struct Row {
  const QuantizedModule* module = nullptr;
  std::string algorithm = "rtn", note;
  double relative_error = -1, loss_before = -1, loss_after = -1, seconds = -1;
};

std::vector<Row> rows_of(const QuantizeReport& report, const QuantizeContext& context) {
  const auto calibrated = by_name(report);
  std::vector<Row> rows;
  for (const QuantizedModule& m : report.modules) {
    Row row{.module = &m, .relative_error = m.relative_error};
    if (const auto it = calibrated.find(m.name); it != calibrated.end()) {
      const CalibratedModule& c = *it->second;
      row.algorithm = c.algorithm;
      row.note = c.note;
      if (c.relative_error >= 0) row.relative_error = c.relative_error;
      row.loss_before = c.loss_before;
      row.loss_after = c.loss_after;
      row.seconds = c.seconds;
    } else if (context.calibrated && module_place(m.name).layer < 0) {
      row.note = "outside the decoder layers: rounded to nearest";
    } else if (context.calibrated) {
      row.algorithm = "-";
      row.note = "done before the resume";
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

// Stored bits of a weight, scales and zero points included.
double bits_of(const QuantizedModule& m, const Plan& plan) {
  const PlanEntry* entry = plan.find(m.name);
  if (!entry) return 0;
  const double weights = static_cast<double>(m.rows) * static_cast<double>(m.cols);
  return stored_bits(entry->scheme, m.rows, m.cols, entry->module.dtype).total() / weights;
}

Json measured(double v) {
  return v < 0 ? Json(nullptr) : Json(v);
}

Json eval_json(const QuantizeContext& context) {
  if (!context.eval) return nullptr;
  const EvalResult& e = *context.eval;
  return {{"text", context.eval_text},
          {"window", context.eval_params.window},
          {"windows", e.windows},
          {"tokens", e.tokens},
          {"perplexity", e.perplexity},
          {"baseline_perplexity", e.baseline_perplexity},
          {"kl_mean", e.kl_mean},
          {"kl_p99", e.kl_p99},
          {"top1_agreement", e.top1_agreement}};
}

std::string notes_text(const std::vector<Row>& rows) {
  std::vector<std::pair<std::string, std::vector<std::string>>> notes;  // note, modules
  for (const Row& row : rows) {
    if (row.note.empty()) continue;
    auto at = std::find_if(notes.begin(), notes.end(), [&](const auto& n) { return n.first == row.note; });
    if (at == notes.end()) at = notes.insert(at, {row.note, {}});
    at->second.push_back(row.module->name);
  }
  std::string text;
  constexpr size_t kNotes = 8, kNames = 3;
  for (size_t i = 0; i < std::min(kNotes, notes.size()); ++i) {
    std::vector<std::string> names = notes[i].second;
    const size_t more = names.size() - std::min(kNames, names.size());
    names.resize(names.size() - more);
    text += fmt::format("{}{}: {}\n", fmt::join(names, ", "),
                        more ? fmt::format(" and {} more modules", more) : "", notes[i].first);
  }
  if (notes.size() > kNotes)
    text += fmt::format("and {} more notes (--json has them all)\n", notes.size() - kNotes);
  return text;
}

}  // namespace

Json quantize_json(const QuantizeReport& r, const Plan& plan, const QuantizeContext& context) {
  Json modules = Json::array(), skipped = Json::array();
  for (const Row& row : rows_of(r, context)) {
    const QuantizedModule& m = *row.module;
    modules.push_back({{"name", m.name},
                       {"scheme", m.scheme},
                       {"format", m.format},
                       {"shape", {m.rows, m.cols}},
                       {"bits_per_weight", bits_of(m, plan)},
                       {"algorithm", row.algorithm},
                       {"relative_error", measured(row.relative_error)},
                       {"loss_before", measured(row.loss_before)},
                       {"loss_after", measured(row.loss_after)},
                       {"seconds", measured(row.seconds)},
                       {"note", row.note}});
  }
  for (const auto& [name, reason] : r.skipped) skipped.push_back({{"name", name}, {"reason", reason}});
  return {{"source", context.source},
          {"output", context.output},
          {"asked_for", context.request},
          {"made_with", std::string("roundel ") + kVersion},
          {"seconds", r.seconds},
          {"peak_rss_bytes", context.peak_memory},
          {"bits_per_weight", r.bits_per_weight},
          {"model_bits_per_weight", r.model_bits_per_weight},
          {"input_bytes", r.input_bytes},
          {"output_bytes", r.output_bytes},
          {"resumed", r.resumed},
          {"calibration", context.data.empty() ? Json(nullptr) : Json(context.data)},
          {"modules", modules},
          {"skipped", skipped},
          {"eval", eval_json(context)}};
}

std::string quantize_text(const QuantizeReport& r, const QuantizeContext& context) {
  struct Group {
    int64_t modules = 0;
    double weights = 0, error = 0, measured = 0;
  };
  const std::vector<Row> rows = rows_of(r, context);
  std::map<std::vector<std::string>, Group> groups;
  for (const Row& row : rows) {
    const QuantizedModule& m = *row.module;
    Group& g = groups[{m.scheme, m.format, row.algorithm}];
    g.modules += 1;
    const double weights = static_cast<double>(m.rows) * static_cast<double>(m.cols);
    g.weights += weights;
    if (row.relative_error < 0) continue;
    g.error += row.relative_error * weights;
    g.measured += weights;
  }
  Table table({"scheme", "format", "algorithm", "modules", "weights", "relative error"});
  for (const auto& [key, g] : groups)
    table.add({key[0], key[1], key[2], std::to_string(g.modules), fmt::format("{:.4g} M", g.weights / 1e6),
               g.measured == g.weights ? fmt::format("{:.5f}", g.error / g.weights) : "-"});
  std::string text = table.text() + notes_text(rows);
  if (!r.skipped.empty()) {
    text += "not quantized:";
    for (size_t i = 0; i < r.skipped.size() && i < 8; ++i)
      text += fmt::format(" {} ({})", r.skipped[i].first, r.skipped[i].second);
    text += r.skipped.size() > 8 ? fmt::format(" and {} more\n", r.skipped.size() - 8) : "\n";
  }
  if (!context.data.empty()) text += "calibrated with " + context.data + "\n";
  text += fmt::format(
      "{}: {} -> {}, {:.3f} bits per weight ({:.3f} of the whole model), {:.1f} s, peak memory {}\n",
      context.output, format_bytes(r.input_bytes), format_bytes(r.output_bytes), r.bits_per_weight,
      r.model_bits_per_weight, r.seconds, format_bytes(context.peak_memory));
  if (context.eval)
    text += fmt::format(
        "{}: perplexity {:.4f}, dense {:.4f}; KL divergence mean {:.6f}, p99 {:.4f}, top-1 {:.2f} %\n",
        context.eval_text, context.eval->perplexity, context.eval->baseline_perplexity, context.eval->kl_mean,
        context.eval->kl_p99, 100 * context.eval->top1_agreement);
  return text;
}

void write_html_report(const std::filesystem::path& file, const QuantizeReport& r, const Plan& plan,
                       const QuantizeContext& context) {
  QuantReport page{.title = "Quantization of " + context.source};
  page.facts = {{"source", context.source},
                {"output", context.output},
                {"asked for", context.request},
                {"size", format_bytes(r.input_bytes) + " to " + format_bytes(r.output_bytes)},
                {"bits per weight", fmt::format("{:.3f} of the quantized modules, {:.3f} of the whole model",
                                                r.bits_per_weight, r.model_bits_per_weight)},
                {"time", fmt::format("{:.1f} s{}", r.seconds, r.resumed ? ", after a resume" : "")},
                {"peak memory", format_bytes(context.peak_memory)},
                {"calibration", context.data.empty() ? "none" : context.data},
                {"made with", std::string("roundel ") + kVersion}};
  for (const Row& row : rows_of(r, context)) {
    const QuantizedModule& m = *row.module;
    page.modules.push_back({.name = m.name,
                            .scheme = m.scheme,
                            .algorithm = row.algorithm,
                            .note = row.note,
                            .rows = m.rows,
                            .cols = m.cols,
                            .bits = bits_of(m, plan),
                            .relative_error = row.relative_error,
                            .loss_before = row.loss_before,
                            .loss_after = row.loss_after,
                            .seconds = row.seconds});
  }
  page.skipped = r.skipped;
  if (context.eval) {
    const EvalResult& e = *context.eval;
    page.eval = ReportEval{.text = context.eval_text,
                           .windows = e.windows,
                           .window = context.eval_params.window,
                           .tokens = e.tokens,
                           .perplexity = e.perplexity,
                           .baseline_perplexity = e.baseline_perplexity,
                           .kl_mean = e.kl_mean,
                           .kl_p99 = e.kl_p99,
                           .top1_agreement = e.top1_agreement};
  }
  write_text_file(file, html_report(page));
}

EvalResult evaluate_output(const std::string& output, const std::string& source, const std::string& text,
                           const EvalParams& params, int threads) {
  const LoadedModel quantized = load_model(output, {.threads = threads, .quantize = std::nullopt});
  const LoadedModel dense = load_model(source, {.threads = threads, .quantize = std::nullopt});
  const std::vector<int32_t> ids = load_tokenizer(*quantized.files).encode(read_text_file(text, 1ull << 30));
  return evaluate(quantized, ids, params, &dense);
}

}  // namespace roundel::cli
