// The HTML report: complete, well formed, and without anything that needs the network.
#include "eval/html_report.h"

#include <gtest/gtest.h>

#include "eval/svg_plot.h"

namespace roundel {
namespace {

QuantReport sample() {
  QuantReport r{.title = "Quantization of <a & b>"};
  r.facts = {{"source", "in"}, {"output", "out\"dir"}};
  for (int layer = 0; layer < 3; ++layer)
    for (const char* kind : {"self_attn.q_proj", "self_attn.o_proj", "mlp.down_proj"})
      r.modules.push_back({.name = "model.layers." + std::to_string(layer) + "." + kind,
                           .scheme = "W4A16 g128",
                           .algorithm = "gptq",
                           .rows = 8,
                           .cols = 128,
                           .bits = 4.125,
                           .relative_error = 0.1 * (layer + 1),
                           .loss_before = 0.01,
                           .loss_after = 0.001 * (layer + 1),
                           .seconds = 0.5});
  r.skipped = {{"lm_head", "ignored by lm_head"}};
  r.eval = ReportEval{.text = "wiki.txt",
                      .windows = 4,
                      .window = 512,
                      .tokens = 2044,
                      .perplexity = 31.5,
                      .baseline_perplexity = 30.0,
                      .kl_mean = 0.05,
                      .kl_p99 = 0.4,
                      .top1_agreement = 0.9};
  return r;
}

// Every tag of the page is closed by its own end, in order.
void expect_balanced(const std::string& html) {
  std::vector<std::string> open;
  for (size_t at = html.find('<'); at != std::string::npos; at = html.find('<', at + 1)) {
    const size_t end = html.find('>', at);
    ASSERT_NE(end, std::string::npos);
    const std::string tag = html.substr(at + 1, end - at - 1);
    if (tag[0] == '!' || tag.back() == '/') continue;
    const std::string name = tag.substr(tag[0] == '/', tag.find_first_of(" \n") - (tag[0] == '/'));
    if (name == "meta") continue;
    if (tag[0] != '/') {
      open.push_back(name);
      continue;
    }
    ASSERT_FALSE(open.empty()) << tag;
    ASSERT_EQ(open.back(), name) << html.substr(at, 80);
    open.pop_back();
  }
  EXPECT_TRUE(open.empty());
}

size_t count(const std::string& text, const std::string& part) {
  size_t n = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

TEST(HtmlReport, HoldsAllAndIsWellFormed) {
  const std::string html = html_report(sample());
  expect_balanced(html);
  EXPECT_EQ(count(html, "<svg"), 9u);  // 2 of the evaluation, 2 and 2 by depth, 2 by kind, bits
  for (const char* part : {"Quantization of &lt;a &amp; b&gt;", "out&quot;dir",
                           "model.layers.2.mlp.down_proj", "lm_head", "31.500", "90.00 %", "4.125"})
    EXPECT_NE(html.find(part), std::string::npos) << part;
}

TEST(HtmlReport, NeedsNoNetworkAndNoScript) {
  const std::string html = html_report(sample());
  for (const char* part : {"<script", "<link", "src=", "href=", "@import", "url("})
    EXPECT_EQ(html.find(part), std::string::npos) << part;
  // the only address is the name space of SVG
  EXPECT_EQ(count(html, "http"), count(html, "xmlns=\"http://www.w3.org/2000/svg\""));
}

TEST(HtmlReport, LeavesOutWhatWasNotMeasured) {
  QuantReport r = sample();
  r.eval.reset();
  for (ReportModule& m : r.modules) m.relative_error = m.loss_before = m.loss_after = m.seconds = -1;
  const std::string html = html_report(r);
  expect_balanced(html);
  EXPECT_EQ(count(html, "<svg"), 1u);  // bits only
  expect_balanced(html_report({.title = "nothing"}));
}

TEST(HtmlReport, FindsLayerAndKind) {
  EXPECT_EQ(module_place("model.layers.17.mlp.up_proj").layer, 17);
  EXPECT_EQ(module_place("model.layers.17.mlp.up_proj").kind, "up_proj");
  EXPECT_EQ(module_place("lm_head").layer, -1);
  EXPECT_EQ(module_place("lm_head").kind, "lm_head");
}

TEST(SvgPlot, DrawsPointsInsideThePicture) {
  const std::string svg =
      line_plot({.title = "t", .x_label = "layer", .y_label = "e"}, {{"a", {{0, 0.0}, {1, 0.5}, {2, 1.0}}}});
  EXPECT_EQ(count(svg, "<circle"), 4u);  // and the legend's
  const std::string log = line_plot({.title = "t", .log_y = true}, {{"a", {{0, 1e-6}, {1, 1e-2}}}});
  EXPECT_NE(log.find("1e-06"), std::string::npos);
  EXPECT_EQ(line_plot({}, {}), "");
  EXPECT_EQ(bar_plot({}, {}), "");
  EXPECT_EQ(svg.find("nan"), std::string::npos);
  EXPECT_EQ(bar_plot({.title = "t"}, {{.name = "zero", .value = 0, .label = "0"}}).find("nan"),
            std::string::npos);
}

TEST(SvgPlot, EscapesNames) {
  EXPECT_EQ(escape_html("<b> & \"c\"\x01\xff"), "&lt;b&gt; &amp; &quot;c&quot; \xEF\xBF\xBD");
}

}  // namespace
}  // namespace roundel
