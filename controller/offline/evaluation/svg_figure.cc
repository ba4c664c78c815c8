#include "controller/offline/evaluation/svg_figure.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <string_view>

#include "common/base/check.h"

namespace espalier::cli {
namespace {

// Okabe and Ito's colours, which stay apart for colour-blind eyes.
constexpr std::array<std::string_view, kSeriesColours> kColours = {
    "#999999", "#E69F00", "#56B4E9", "#009E73", "#0072B2", "#CC79A7", "#D55E00", "#222222"};
constexpr double kPanelWidth = 330;
constexpr double kPanelHeight = 240;
constexpr double kLeft = 62;  // of a panel, for its axis
constexpr double kBottom = 48;
constexpr double kTitle = 38;  // height of the figure's title
constexpr double kLegendRow = 20;
constexpr double kCharacter = 7;  // width in the legend, about
constexpr double kPanelTop = 26;
constexpr double kRight = 14;
constexpr int kPanelsARow = 3;

std::string Escape(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '&') escaped += "&amp;";
    if (c == '<') escaped += "&lt;";
    if (c == '>') escaped += "&gt;";
    if (c != '&' && c != '<' && c != '>') escaped += c;
  }
  return escaped;
}

// 1, 2, 2.5 or 5 times a power of ten, so that about five of them fill the range.
double ChooseStep(double range) {
  const double raw = range / 5;
  const double magnitude = std::pow(10.0, std::floor(std::log10(raw)));
  for (const double factor : {1.0, 2.0, 2.5, 5.0}) {
    if (raw <= factor * magnitude) return factor * magnitude;
  }
  return 10 * magnitude;
}

// The plane of one panel, and the text that is drawn on it.
class Canvas {
 public:
  explicit Canvas(std::string& text) : text_(text) {}

  void Text(double x, double y, std::string_view text, std::string_view anchor = "middle",
            int size = 12, std::string_view extra = "") {
    fmt::format_to(std::back_inserter(text_),
                   "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\" font-size=\"{}\"{}>{}"
                   "</text>\n",
                   x, y, anchor, size, extra, Escape(text));
  }
  void Line(double x1, double y1, double x2, double y2, std::string_view colour) {
    fmt::format_to(std::back_inserter(text_),
                   "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" "
                   "stroke=\"{}\"/>\n",
                   x1, y1, x2, y2, colour);
  }
  void Box(double x, double y, double width, double height, std::string_view colour,
           std::string_view tip) {
    fmt::format_to(std::back_inserter(text_),
                   "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" "
                   "fill=\"{}\"><title>{}</title></rect>\n",
                   x, y, width, height, colour, Escape(tip));
  }
  void Dot(double x, double y, std::string_view colour, std::string_view tip) {
    fmt::format_to(std::back_inserter(text_),
                   "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\" fill=\"{}\"><title>{}</title>"
                   "</circle>\n",
                   x, y, colour, Escape(tip));
  }

 private:
  std::string& text_;
};

std::string_view ColourOf(const Series& series) { return kColours[series.colour]; }

// Where a panel's plane lies.
struct Plane {
  double x0 = 0;  // left
  double y0 = 0;  // bottom
  double width = 0;
  double height = kPanelHeight - kBottom - kPanelTop;
};

// Where everything is: the title, rows of the legend, rows of panels.
struct Layout {
  struct Entry {  // of the legend
    double x = 0;
    double y = 0;
  };

  explicit Layout(const Figure& figure) {
    const std::size_t panels = figure.bars.size() + figure.lines.size();
    // A panel of its own has the room of two: the legend needs it.
    if (panels <= 1) panel_width = 2 * kPanelWidth;
    const std::size_t columns = std::clamp<std::size_t>(panels, 1, kPanelsARow);
    width = panel_width * static_cast<double>(columns);
    double x = 10;
    double y = kTitle;
    for (const Series& series : figure.series) {
      const double entry = 36 + kCharacter * static_cast<double>(series.title.size());
      if (x + entry > width && x > 10) {
        x = 10;
        y += kLegendRow;
      }
      legend.push_back({x, y});
      x += entry;
    }
    top = y + kLegendRow + 12;
    const std::size_t rows = (panels + kPanelsARow - 1) / kPanelsARow;
    height = top + kPanelHeight * static_cast<double>(rows);
  }

  Plane PlaneOf(std::size_t panel) const {
    const auto row = static_cast<double>(panel / kPanelsARow);
    const auto column = static_cast<double>(panel % kPanelsARow);
    return {.x0 = column * panel_width + kLeft,
            .y0 = top + (row + 1) * kPanelHeight - kBottom,
            .width = panel_width - kLeft - kRight};
  }

  double width = 0;
  double height = 0;
  double top = 0;  // of the panels
  double panel_width = kPanelWidth;
  std::vector<Entry> legend;  // by series
};

void DrawFrame(Canvas& canvas, const Plane& plane, std::string_view title, std::string_view x_label,
               std::string_view y_label) {
  const double middle = plane.x0 + plane.width / 2;
  canvas.Text(middle, plane.y0 - plane.height - 9, title, "middle", 13);
  canvas.Text(middle, plane.y0 + 37, x_label);
  const double x = plane.x0 - 46;
  const double y = plane.y0 - plane.height / 2;
  canvas.Text(x, y, y_label, "middle", 12,
              fmt::format(" transform=\"rotate(-90 {:.1f} {:.1f})\"", x, y));
  canvas.Line(plane.x0, plane.y0, plane.x0 + plane.width, plane.y0, "#444");
  canvas.Line(plane.x0, plane.y0, plane.x0, plane.y0 - plane.height, "#444");
}

void DrawBars(Canvas& canvas, const Plane& plane, const BarPanel& panel, const Figure& figure) {
  double most = 0;
  for (const auto& series : panel.values) {
    for (const auto& value : series) most = std::max(most, value.value_or(0));
  }
  if (most <= 0) most = 1;
  const double step = ChooseStep(most);
  const double top = std::ceil(most / step) * step;
  for (double tick = 0; tick <= top * 1.0001; tick += step) {
    const double y = plane.y0 - plane.height * tick / top;
    if (tick > 0) canvas.Line(plane.x0, y, plane.x0 + plane.width, y, "#ddd");
    canvas.Text(plane.x0 - 6, y + 4, fmt::format("{:.4g}", tick), "end", 11);
  }
  DrawFrame(canvas, plane, panel.title, panel.x_label, figure.y_label);
  const double group_width = plane.width / static_cast<double>(panel.groups.size());
  const double bar_width = group_width * 0.84 / static_cast<double>(figure.series.size());
  for (std::size_t g = 0; g < panel.groups.size(); ++g) {
    const double begin = plane.x0 + group_width * (static_cast<double>(g) + 0.08);
    canvas.Text(plane.x0 + group_width * (static_cast<double>(g) + 0.5), plane.y0 + 17,
                panel.groups[g]);
    for (std::size_t s = 0; s < panel.values.size(); ++s) {
      if (!panel.values[s][g]) continue;
      const double height = plane.height * *panel.values[s][g] / top;
      canvas.Box(begin + bar_width * static_cast<double>(s), plane.y0 - height, bar_width * 0.92,
                 height, ColourOf(figure.series[s]),
                 fmt::format("{}: {:.4g}", figure.series[s].title, *panel.values[s][g]));
    }
  }
}

// A logarithmic axis from a power of ten to a power of ten.
struct LogAxis {
  double low = 0;  // exponents
  double high = 1;

  double Place(double value) const { return (std::log10(value) - low) / (high - low); }
};

LogAxis FitAxis(const LinePanel& panel, double std::pair<double, double>::*side) {
  double least = 1e300;
  double most = 0;
  for (const auto& series : panel.points) {
    for (const auto& point : series) {
      least = std::min(least, point.*side);
      most = std::max(most, point.*side);
    }
  }
  if (most <= 0) return {};
  const double low = std::floor(std::log10(least));
  return {low, std::max(std::ceil(std::log10(most)), low + 1)};
}

std::string FormatPower(double exponent) {
  return exponent < -2 || exponent > 4 ? fmt::format("1e{:.0f}", exponent)
                                       : fmt::format("{:g}", std::pow(10.0, exponent));
}

void DrawLines(Canvas& canvas, const Plane& plane, const LinePanel& panel, const Figure& figure) {
  const LogAxis x_axis = FitAxis(panel, &std::pair<double, double>::first);
  const LogAxis y_axis = FitAxis(panel, &std::pair<double, double>::second);
  for (double tick = y_axis.low; tick <= y_axis.high; tick += 1) {
    const double y = plane.y0 - plane.height * (tick - y_axis.low) / (y_axis.high - y_axis.low);
    canvas.Line(plane.x0, y, plane.x0 + plane.width, y, "#ddd");
    canvas.Text(plane.x0 - 6, y + 4, FormatPower(tick), "end", 11);
  }
  for (double tick = x_axis.low; tick <= x_axis.high; tick += 1) {
    const double x = plane.x0 + plane.width * (tick - x_axis.low) / (x_axis.high - x_axis.low);
    canvas.Text(x, plane.y0 + 17, FormatPower(tick), "middle", 11);
  }
  DrawFrame(canvas, plane, panel.title, panel.x_label, figure.y_label);
  for (std::size_t s = 0; s < panel.points.size(); ++s) {
    auto points = panel.points[s];
    std::ranges::sort(points);
    for (std::size_t i = 0; i < points.size(); ++i) {
      const double x = plane.x0 + plane.width * x_axis.Place(points[i].first);
      const double y = plane.y0 - plane.height * y_axis.Place(points[i].second);
      canvas.Dot(x, y, ColourOf(figure.series[s]),
                 fmt::format("{}: {:.4g}, {:.4g}", figure.series[s].title, points[i].first,
                             points[i].second));
      if (i == 0) continue;
      canvas.Line(plane.x0 + plane.width * x_axis.Place(points[i - 1].first),
                  plane.y0 - plane.height * y_axis.Place(points[i - 1].second), x, y,
                  ColourOf(figure.series[s]));
    }
  }
}

}  // namespace

std::string FormatSvg(const Figure& figure) {
  for (const Series& series : figure.series) ESPALIER_CHECK(series.colour < kSeriesColours);
  const Layout layout(figure);
  std::string text = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
      "viewBox=\"0 0 {0:.0f} {1:.0f}\" font-family=\"sans-serif\">\n"
      "<rect width=\"{0:.0f}\" height=\"{1:.0f}\" fill=\"white\"/>\n",
      layout.width, layout.height);
  Canvas canvas(text);
  canvas.Text(layout.width / 2, 24, figure.title, "middle", 16);
  for (std::size_t s = 0; s < figure.series.size(); ++s) {
    const auto [x, y] = layout.legend[s];
    canvas.Box(x, y, 12, 12, ColourOf(figure.series[s]), figure.series[s].title);
    canvas.Text(x + 17, y + 10, figure.series[s].title, "start", 12);
  }
  std::size_t panel = 0;
  for (const BarPanel& bars : figure.bars) {
    DrawBars(canvas, layout.PlaneOf(panel++), bars, figure);
  }
  for (const LinePanel& lines : figure.lines) {
    DrawLines(canvas, layout.PlaneOf(panel++), lines, figure);
  }
  return text + "</svg>\n";
}

}  // namespace espalier::cli
