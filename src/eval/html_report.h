// What a quantization did, as one HTML page: facts, plots (inline SVG) and a table of modules. It needs no network, no
// script and no other file.
//
//   QuantReport report{.title = "W4A16 of SmolLM2", .modules = {...}};
//   write_text_file("report.html", html_report(report));
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace roundel {

struct ReportModule {
  std::string name, scheme, algorithm, note;
  int64_t rows = 0, cols = 0;
  double bits = 0;  // stored, a weight, scales and zero points included
  // sqrt(sum (w - q)^2 / sum w^2); -1 in this and the next: not measured
  double relative_error = -1;
  double loss_before = -1, loss_after = -1;  // of the outputs: rounded to nearest, and as written
  double seconds = -1;
};

struct ReportEval {
  std::string text;  // the file
  int64_t windows = 0, window = 0, tokens = 0;
  double perplexity = 0, baseline_perplexity = 0;  // quantized, dense
  double kl_mean = 0, kl_p99 = 0, top1_agreement = 0;
};

struct QuantReport {
  std::string title;
  std::vector<std::pair<std::string, std::string>> facts;  // name, value; shown in this order
  std::vector<ReportModule> modules;
  std::vector<std::pair<std::string, std::string>> skipped;  // name, reason
  std::optional<ReportEval> eval;
};

std::string html_report(const QuantReport& report);

// "model.layers.7.mlp.up_proj": layer 7, kind "up_proj". Without a number in the name the layer is -1.
struct ModulePlace {
  int layer = -1;
  std::string kind;
};
ModulePlace module_place(const std::string& name);

}  // namespace roundel
