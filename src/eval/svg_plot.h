// Plots as SVG text: lines over a number, and bars with names. Readable in print and without colour: every series has its
// own marker, every bar its number.
//
//   std::string svg = line_plot({.title = "...", .x_label = "layer", .y_label = "error"}, series);
#pragma once
#include <string>
#include <utility>
#include <vector>

namespace roundel {

struct PlotText {
  std::string title;  // read by screen readers, not drawn
  std::string x_label, y_label;
  bool log_y = false;  // values must be above 0
  double y_max = 0;    // 0: from the data; to give several plots the same axis
};

struct PlotSeries {
  std::string name;
  std::vector<std::pair<double, double>> points;  // by x
};

// Whole numbers on the x axis. At most 8 series; nothing to draw gives "".
std::string line_plot(const PlotText& text, const std::vector<PlotSeries>& series);

struct PlotBar {
  std::string name;
  double value = 0;
  std::string label;         // drawn at its end
  double low = 0, high = 0;  // a range drawn over the bar, when high > low
  int colour = 0;
};

// Horizontal bars from 0, in the order given. (name, colour) of `legend` explains colours; may be empty.
std::string bar_plot(const PlotText& text, const std::vector<PlotBar>& bars,
                     const std::vector<std::pair<std::string, int>>& legend = {});

std::string escape_html(const std::string& text);

}  // namespace roundel
