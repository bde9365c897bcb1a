#include "eval/svg_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/utf8.h"

namespace roundel {
namespace {

// Told apart by people with the usual colour blindnesses, on white (after Okabe and Ito).
constexpr const char* kColours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                    "#8a6d00", "#56b4e9", "#444444", "#a04000"};
constexpr int kColourCount = 8;
constexpr const char* kGrid = "#e3e6ea";
constexpr const char* kInk = "#33383f";

const char* colour(int i) {
  return kColours[i % kColourCount];
}

// 1, 2 or 5 times a power of ten: about `count` steps over `range`.
double nice_step(double range, int count) {
  const double raw = range / count, power = std::pow(10.0, std::floor(std::log10(raw)));
  for (const double m : {1.0, 2.0, 5.0})
    if (raw <= m * power * 1.0001) return m * power;
  return 10 * power;
}

std::string number(double v) {
  if (v != 0 && (std::abs(v) < 1e-3 || std::abs(v) >= 1e6)) return fmt::format("{:.0e}", v);
  return fmt::format("{:.6g}", v);
}

// A value axis: where ticks are and where a value lies, 0 to 1.
class Axis {
 public:
  Axis(double low, double high, bool log) : log_(log) {
    if (log_) {
      low_ = std::floor(std::log10(low));
      high_ = std::max(std::ceil(std::log10(high)), low_ + 1);
      const int step = std::max(1, static_cast<int>((high_ - low_) / 6));
      for (double e = low_; e <= high_ + 1e-9; e += step) ticks_.push_back(std::pow(10.0, e));
      return;
    }
    const double step = nice_step(std::max(high - low, 1e-30), 5);
    low_ = std::floor(low / step) * step;
    high_ = std::ceil(high / step - 1e-9) * step;
    if (high_ <= low_) high_ = low_ + step;
    for (int i = 0; low_ + i * step <= high_ + step * 1e-6; ++i) ticks_.push_back(low_ + i * step);
  }
  double at(double v) const { return ((log_ ? std::log10(v) : v) - low_) / (high_ - low_); }
  const std::vector<double>& ticks() const { return ticks_; }

 private:
  bool log_;
  double low_ = 0, high_ = 1;
  std::vector<double> ticks_;
};

std::string marker(int kind, double x, double y, const char* fill) {
  switch (kind % 4) {
    case 0:
      return fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\" fill=\"{}\"/>", x, y, fill);
    case 1:
      return fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"5.5\" height=\"5.5\" fill=\"{}\"/>",
                         x - 2.75, y - 2.75, fill);
    case 2:
      return fmt::format("<path d=\"M{:.1f} {:.1f}l3.6 6.2h-7.2z\" fill=\"{}\"/>", x, y - 3.9, fill);
    default:
      return fmt::format("<path d=\"M{:.1f} {:.1f}l3.8 3.8-3.8 3.8-3.8-3.8z\" fill=\"{}\"/>", x, y - 3.8,
                         fill);
  }
}

std::string open_svg(double width, double height, const std::string& title) {
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" "
      "height=\"{1:.0f}\" role=\"img\" font-family=\"sans-serif\" font-size=\"12\" fill=\"{2}\">"
      "<title>{3}</title>\n",
      width, height, kInk, escape_html(title));
}

std::string words(double x, double y, const char* anchor, const std::string& text) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", x, y, anchor,
                     escape_html(text));
}

std::string line(double x1, double y1, double x2, double y2, const char* stroke) {
  return fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\"/>\n", x1,
                     y1, x2, y2, stroke);
}

class LinePlot {
 public:
  LinePlot(const PlotText& text, const std::vector<PlotSeries>& series) : text_(text), series_(series) {}

  std::string draw() {
    if (!measure()) return "";
    svg_ = open_svg(kWidth, kHeight, text_.title);
    draw_axes();
    for (size_t i = 0; i < series_.size(); ++i) draw_series(static_cast<int>(i));
    draw_legend();
    return svg_ + "</svg>\n";
  }

 private:
  static constexpr double kWidth = 560, kHeight = 300, kLeft = 62, kRight = 14, kTop = 34, kBottom = 44;

  bool measure() {
    bool any = false;
    for (const PlotSeries& s : series_)
      for (const auto& [x, y] : s.points) {
        x_low_ = any ? std::min(x_low_, x) : x;
        x_high_ = any ? std::max(x_high_, x) : x;
        y_low_ = any ? std::min(y_low_, y) : y;
        y_high_ = any ? std::max(y_high_, y) : y;
        any = true;
      }
    return any;
  }

  double x_at(double x) const {
    const double range = std::max(x_high_ - x_low_, 1.0);
    return kLeft + 8 + (kWidth - kLeft - kRight - 16) * (x - x_low_) / range;
  }
  double y_at(double y) const { return kHeight - kBottom - (kHeight - kTop - kBottom) * axis_.at(y); }

  void draw_axes() {
    axis_ = text_.log_y ? Axis(y_low_, y_high_, true) : Axis(0, std::max(y_high_, text_.y_max), false);
    for (const double tick : axis_.ticks()) {
      svg_ += line(kLeft, y_at(tick), kWidth - kRight, y_at(tick), kGrid);
      svg_ += words(kLeft - 8, y_at(tick) + 4, "end", number(tick));
    }
    const double step = std::max(1.0, nice_step(std::max(x_high_ - x_low_, 1.0), 10));
    for (double x = std::ceil(x_low_ / step) * step; x <= x_high_ + 1e-9; x += step)
      svg_ += words(x_at(x), kHeight - kBottom + 18, "middle", number(x));
    svg_ += words((kLeft + kWidth - kRight) / 2, kHeight - 8, "middle", text_.x_label);
    svg_ += words(kLeft, 14, "start", text_.y_label);
  }

  void draw_series(int i) {
    const PlotSeries& s = series_[static_cast<size_t>(i)];
    std::string path, marks;
    for (const auto& [x, y] : s.points) {
      path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : "L", x_at(x), y_at(y));
      marks += fmt::format("<g>{}<title>{} {}: {}</title></g>", marker(i, x_at(x), y_at(y), colour(i)),
                           escape_html(s.name), number(x), number(y));
    }
    svg_ += fmt::format("<path d=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"1.6\"/>{}\n", path,
                        colour(i), marks);
  }

  void draw_legend() {
    double x = kWidth - kRight;
    for (size_t i = series_.size(); i-- > 0;) {
      x -= 22 + 7.2 * static_cast<double>(series_[i].name.size());
      svg_ += marker(static_cast<int>(i), x + 4, 10, colour(static_cast<int>(i)));
      svg_ += words(x + 12, 14, "start", series_[i].name);
    }
  }

  const PlotText& text_;
  const std::vector<PlotSeries>& series_;
  double x_low_ = 0, x_high_ = 0, y_low_ = 0, y_high_ = 0;
  Axis axis_{0, 1, false};
  std::string svg_;
};

}  // namespace

std::string escape_html(const std::string& text) {
  std::string out;
  for (const char c : replace_invalid_utf8(text)) {
    if (c == '&') {
      out += "&amp;";
    } else if (c == '<') {
      out += "&lt;";
    } else if (c == '>') {
      out += "&gt;";
    } else if (c == '"') {
      out += "&quot;";
    } else if (static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t') {
      out += ' ';
    } else {
      out += c;
    }
  }
  return out;
}

std::string line_plot(const PlotText& text, const std::vector<PlotSeries>& series) {
  return LinePlot(text, series).draw();
}

std::string bar_plot(const PlotText& text, const std::vector<PlotBar>& bars,
                     const std::vector<std::pair<std::string, int>>& legend) {
  if (bars.empty()) return "";
  constexpr double kWidth = 560, kRow = 22, kTop = 26, kBottom = 26, kRight = 96;
  size_t longest = 4;
  double most = 0;
  for (const PlotBar& b : bars) {
    longest = std::max(longest, b.name.size());
    most = std::max({most, b.value, b.high});
  }
  const double left = std::min(220.0, 14 + 7.2 * static_cast<double>(longest));
  const double height = kTop + kBottom + kRow * static_cast<double>(bars.size());
  const Axis axis(0, most > 0 ? most : 1, false);
  const auto x_at = [&](double v) { return left + (kWidth - left - kRight) * axis.at(v); };
  std::string svg = open_svg(kWidth, height, text.title);
  for (const double tick : axis.ticks()) {
    svg += line(x_at(tick), kTop - 4, x_at(tick), height - kBottom, kGrid);
    svg += words(x_at(tick), height - kBottom + 16, "middle", number(tick));
  }
  svg += words(left, 14, "start", text.x_label);
  double key = kWidth - 10;
  for (size_t i = legend.size(); i-- > 0;) {
    key -= 22 + 7.2 * static_cast<double>(legend[i].first.size());
    svg += marker(1, key + 4, 10, colour(legend[i].second)) + words(key + 12, 14, "start", legend[i].first);
  }
  for (size_t i = 0; i < bars.size(); ++i) {
    const PlotBar& b = bars[i];
    const double y = kTop + kRow * static_cast<double>(i);
    svg += words(left - 8, y + 14, "end", b.name);
    svg += fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"14\" fill=\"{}\"/>\n", left,
                       y + 3, std::max(0.0, x_at(b.value) - left), colour(b.colour));
    if (b.high > b.low) {
      svg += line(x_at(b.low), y + 10, x_at(b.high), y + 10, kInk);
      svg += line(x_at(b.low), y + 6, x_at(b.low), y + 14, kInk) +
             line(x_at(b.high), y + 6, x_at(b.high), y + 14, kInk);
    }
    svg += words(x_at(std::max(b.value, b.high)) + 6, y + 14, "start", b.label);
  }
  return svg + "</svg>\n";
}

}  // namespace roundel
