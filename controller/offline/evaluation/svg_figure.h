#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace espalier::cli {

// A figure of panels side by side, as SVG text that browsers and papers take as it is.

struct BarPanel {
  std::string title;
  std::string x_label;
  std::vector<std::string> groups;  // along the x axis
  // By series and group; none where there is nothing to show.
  std::vector<std::vector<std::optional<double>>> values;
};

// Points on two logarithmic axes, joined by lines in the order of x.
struct LinePanel {
  std::string title;
  std::string x_label;
  std::vector<std::vector<std::pair<double, double>>> points;  // by series; both above 0
};

struct Series {
  std::string title;       // in the legend
  std::size_t colour = 0;  // of kSeriesColours: the same in all figures that belong together
};
inline constexpr std::size_t kSeriesColours = 8;

struct Figure {
  std::string title;
  std::string y_label;
  std::vector<Series> series;
  std::vector<BarPanel> bars;
  std::vector<LinePanel> lines;
};

std::string FormatSvg(const Figure& figure);

}  // namespace espalier::cli
