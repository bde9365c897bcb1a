#include "eval/html_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>

#include "eval/svg_plot.h"

namespace roundel {
namespace {

constexpr const char* kStyle = R"(
:root { color-scheme: light; }
body { font: 15px/1.5 system-ui, sans-serif; color: #22262b; background: #fff; max-width: 1180px;
       margin: 0 auto; padding: 24px 20px 60px; }
h1 { font-size: 24px; margin: 0 0 4px; } h2 { font-size: 18px; margin: 34px 0 8px; }
p { margin: 6px 0; max-width: 78ch; } .quiet { color: #5b636d; }
table { border-collapse: collapse; font-size: 13px; font-variant-numeric: tabular-nums; }
th, td { padding: 3px 12px 3px 0; text-align: left; vertical-align: top; border-bottom: 1px solid #e3e6ea; }
th { font-weight: 600; } td.n, th.n { text-align: right; }
.facts th { white-space: nowrap; font-weight: normal; color: #5b636d; } .facts td { overflow-wrap: anywhere; }
.plots { display: flex; flex-wrap: wrap; gap: 20px; } figure { margin: 0; }
figcaption { font-size: 13px; color: #5b636d; max-width: 560px; }
svg { max-width: 100%; height: auto; } .wide { overflow-x: auto; }
summary { cursor: pointer; margin: 8px 0; }
)";

// The kinds in the order of a layer; others after them.
int kind_rank(const std::string& kind) {
  constexpr const char* kOrder[] = {"q_proj",    "k_proj",  "v_proj",       "qkv_proj", "o_proj",
                                    "gate_proj", "up_proj", "gate_up_proj", "down_proj"};
  for (size_t i = 0; i < std::size(kOrder); ++i)
    if (kind == kOrder[i]) return static_cast<int>(i);
  return 100;
}

bool in_attention(const std::string& kind) {
  return kind_rank(kind) <= 4;
}

struct ByRank {
  bool operator()(const std::string& a, const std::string& b) const {
    return kind_rank(a) != kind_rank(b) ? kind_rank(a) < kind_rank(b) : a < b;
  }
};
using Kinds = std::map<std::string, std::vector<const ReportModule*>, ByRank>;
using Measure = double (*)(const ReportModule&);

double relative_error(const ReportModule& m) {
  return m.relative_error;
}
double loss_after(const ReportModule& m) {
  return m.loss_after;
}

struct Range {
  double mean = 0, low = 0, high = 0;
  size_t count = 0;
};

Range range_of(const std::vector<const ReportModule*>& modules, Measure measure) {
  Range r;
  for (const ReportModule* m : modules) {
    const double v = measure(*m);
    if (v < 0) continue;
    r.low = r.count ? std::min(r.low, v) : v;
    r.high = r.count ? std::max(r.high, v) : v;
    r.mean += v;
    ++r.count;
  }
  if (r.count) r.mean /= static_cast<double>(r.count);
  return r;
}

class Page {
 public:
  explicit Page(const QuantReport& report) : report_(report) {
    for (const ReportModule& m : report.modules) kinds_[module_place(m.name).kind].push_back(&m);
  }

  std::string write() {
    out_ = fmt::format(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" "
        "content=\"width=device-width, initial-scale=1\">\n<title>{0}</title>\n<style>{1}</style>\n"
        "</head>\n<body>\n<h1>{0}</h1>\n",
        escape_html(report_.title), kStyle);
    facts();
    if (report_.eval) evaluation(*report_.eval);
    depth("Error of the weights by depth", relative_error, "relative error",
          "Relative error of a weight matrix: the square root of the sum of squared differences between "
          "written and "
          "original weights, over that of the squared weights.",
          false);
    depth("Error of the outputs by depth", loss_after, "output error (log scale)",
          "Mean squared error of what the module puts out for the calibration tokens, over the mean square "
          "of its "
          "outputs.",
          true);
    by_kind();
    bits();
    modules();
    skipped();
    return out_ + "</body>\n</html>\n";
  }

 private:
  void facts() {
    out_ += "<table class=\"facts\">\n";
    for (const auto& [name, value] : report_.facts)
      out_ += fmt::format("<tr><th>{}</th><td>{}</td></tr>\n", escape_html(name), escape_html(value));
    out_ += "</table>\n";
  }

  void figure(const std::string& svg, const std::string& caption) {
    if (!svg.empty())
      out_ += "<figure>\n" + svg + "<figcaption>" + escape_html(caption) + "</figcaption></figure>\n";
  }

  void evaluation(const ReportEval& e) {
    out_ += fmt::format(
        "<h2>Perplexity and KL divergence</h2>\n<p class=\"quiet\">On {}: {} windows of {} tokens, {} "
        "predictions.</p>\n<div class=\"plots\">\n",
        escape_html(e.text), e.windows, e.window, e.tokens);
    figure(bar_plot({.title = "Perplexity of the dense and the quantized model", .x_label = "perplexity"},
                    {{.name = "dense",
                      .value = e.baseline_perplexity,
                      .label = fmt::format("{:.3f}", e.baseline_perplexity),
                      .colour = 6},
                     {.name = "quantized",
                      .value = e.perplexity,
                      .label = fmt::format("{:.3f} ({:+.2f} %)", e.perplexity,
                                           100 * (e.perplexity / e.baseline_perplexity - 1)),
                      .colour = 0}}),
           "Perplexity; lower is better.");
    figure(bar_plot(
               {.title = "KL divergence from the dense model", .x_label = "KL divergence, nats"},
               {{.name = "mean", .value = e.kl_mean, .label = fmt::format("{:.5f}", e.kl_mean), .colour = 0},
                {.name = "99 %", .value = e.kl_p99, .label = fmt::format("{:.4f}", e.kl_p99), .colour = 0}}),
           "KL divergence of the quantized model from the dense one, mean and 99th percentile over tokens.");
    out_ += fmt::format(
        "</div>\n<p>The quantized model's most likely token is the dense model's for {:.2f} % of the "
        "tokens.</p>\n",
        100 * e.top1_agreement);
  }

  std::vector<PlotSeries> series(Measure measure, bool attention, bool positive) const {
    std::vector<PlotSeries> list;
    for (const auto& [kind, modules] : kinds_) {
      if (in_attention(kind) != attention || list.size() == 8) continue;
      PlotSeries s{kind, {}};
      for (const ReportModule* m : modules) {
        const int layer = module_place(m->name).layer;
        const double value = measure(*m);
        if (layer >= 0 && (positive ? value > 0 : value >= 0)) s.points.emplace_back(layer, value);
      }
      std::sort(s.points.begin(), s.points.end());
      if (!s.points.empty()) list.push_back(std::move(s));
    }
    return list;
  }

  void depth(const char* heading, Measure measure, const char* label, const char* caption, bool log) {
    const std::vector<PlotSeries> attention = series(measure, true, log), rest = series(measure, false, log);
    if (attention.empty() && rest.empty()) return;
    double most = 0;
    for (const auto* list : {&attention, &rest})
      for (const PlotSeries& s : *list)
        for (const auto& [x, y] : s.points) most = std::max(most, y);
    out_ += fmt::format("<h2>{}</h2>\n<p class=\"quiet\">{}</p>\n<div class=\"plots\">\n", heading, caption);
    const PlotText text{.title = heading, .x_label = "layer", .y_label = label, .log_y = log, .y_max = most};
    figure(line_plot(text, attention), "Attention.");
    figure(line_plot(text, rest), "MLP and others.");
    out_ += "</div>\n";
  }

  void by_kind() {
    std::vector<PlotBar> errors, losses;
    for (const auto& [kind, modules] : kinds_) {
      if (const Range r = range_of(modules, relative_error); r.count)
        errors.push_back({.name = kind,
                          .value = r.mean,
                          .label = fmt::format("{:.4f}", r.mean),
                          .low = r.low,
                          .high = r.high});
      const Range before = range_of(modules, [](const ReportModule& m) { return m.loss_before; });
      const Range after = range_of(modules, loss_after);
      if (!before.count || !after.count) continue;
      losses.push_back(
          {.name = kind, .value = before.mean, .label = fmt::format("{:.3g}", before.mean), .colour = 6});
      losses.push_back({.name = "", .value = after.mean, .label = fmt::format("{:.3g}", after.mean)});
    }
    if (errors.empty() && losses.empty()) return;
    out_ += "<h2>Error by kind of module</h2>\n<div class=\"plots\">\n";
    figure(bar_plot({.title = "Relative error by kind of module", .x_label = "relative error of the weights"},
                    errors),
           "Mean over the layers, with the range from the best to the worst layer.");
    figure(bar_plot({.title = "Output error by kind of module, rounded to nearest and as written",
                     .x_label = "output error"},
                    losses, {{"rounded", 6}, {"written", 0}}),
           "Mean output error over the layers: with the same inputs rounded to nearest, and as written.");
    out_ += "</div>\n";
  }

  void bits() {
    std::vector<PlotBar> bars;
    std::vector<std::string> schemes;
    for (const auto& [kind, modules] : kinds_) {
      std::map<std::string, Range> by_scheme;
      for (const ReportModule* m : modules) {
        Range& r = by_scheme[m->scheme];
        r.mean += m->bits;
        ++r.count;
      }
      for (const auto& [scheme, r] : by_scheme) {
        auto at = std::find(schemes.begin(), schemes.end(), scheme);
        const int colour = static_cast<int>(at - schemes.begin());
        if (at == schemes.end()) schemes.push_back(scheme);
        const double mean = r.mean / static_cast<double>(r.count);
        bars.push_back({.name = kind, .value = mean, .label = fmt::format("{:.3f}", mean), .colour = colour});
      }
    }
    if (bars.empty()) return;
    std::vector<std::pair<std::string, int>> legend;
    for (size_t i = 0; i < schemes.size() && i < 3; ++i) legend.emplace_back(schemes[i], static_cast<int>(i));
    out_ += "<h2>Bits per weight</h2>\n<div class=\"plots\">\n";
    figure(bar_plot({.title = "Bits per weight by kind of module", .x_label = "bits per weight"}, bars,
                    schemes.size() > 1 ? legend : decltype(legend){}),
           "Stored bits of a weight, scales and zero points included" +
               (schemes.size() == 1 ? ": " + schemes.front() + "." : "; a bar for each scheme of a kind."));
    out_ += "</div>\n";
  }

  static std::string cell(double v, const char* format = "{:.5f}") {
    return "<td class=\"n\">" + (v < 0 ? std::string("-") : fmt::format(fmt::runtime(format), v)) + "</td>";
  }

  void modules() {
    out_ += fmt::format(
        "<h2>Modules</h2>\n<details{}><summary>{} modules</summary>\n<div class=\"wide\"><table>\n"
        "<tr><th>module</th><th>scheme</th><th>algorithm</th><th class=\"n\">shape</th><th "
        "class=\"n\">bits</th><th class=\"n\">relative error</th><th class=\"n\">output error, "
        "rounded</th><th class=\"n\">as written</th><th class=\"n\">seconds</th><th>note</th></tr>\n",
        report_.modules.size() <= 40 ? " open" : "", report_.modules.size());
    for (const ReportModule& m : report_.modules)
      out_ += fmt::format(
          "<tr><td>{}</td><td>{}</td><td>{}</td><td class=\"n\">{} x {}</td>{}{}{}{}{}<td>{}</td></tr>\n",
          escape_html(m.name), escape_html(m.scheme), escape_html(m.algorithm), m.rows, m.cols,
          cell(m.bits, "{:.3f}"), cell(m.relative_error), cell(m.loss_before, "{:.3e}"),
          cell(m.loss_after, "{:.3e}"), cell(m.seconds, "{:.2f}"), escape_html(m.note));
    out_ += "</table></div></details>\n";
  }

  void skipped() {
    if (report_.skipped.empty()) return;
    out_ += "<h2>Not quantized</h2>\n<table>\n<tr><th>module</th><th>why</th></tr>\n";
    for (const auto& [name, reason] : report_.skipped)
      out_ += fmt::format("<tr><td>{}</td><td>{}</td></tr>\n", escape_html(name), escape_html(reason));
    out_ += "</table>\n";
  }

  const QuantReport& report_;
  Kinds kinds_;
  std::string out_;
};

}  // namespace

ModulePlace module_place(const std::string& name) {
  ModulePlace place;
  place.kind = name.substr(name.rfind('.') + 1);
  for (size_t at = 0; at < name.size();) {
    const size_t end = std::min(name.find('.', at), name.size());
    int layer = 0;
    const auto [stop, error] = std::from_chars(name.data() + at, name.data() + end, layer);
    if (error == std::errc() && stop == name.data() + end && layer >= 0) {
      place.layer = layer;
      break;
    }
    at = end + 1;
  }
  return place;
}

std::string html_report(const QuantReport& report) {
  return Page(report).write();
}

}  // namespace roundel
