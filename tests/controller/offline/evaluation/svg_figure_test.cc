#include "controller/offline/evaluation/svg_figure.h"

#include <gtest/gtest.h>

#include <boost/property_tree/xml_parser.hpp>
#include <cmath>
#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

namespace espalier::cli {
namespace {

using Xml = boost::property_tree::ptree;

// Throws, and so fails the test, where the text is not well-formed.
Xml Parse(const Figure& figure) {
  std::istringstream text(FormatSvg(figure));
  Xml document;
  boost::property_tree::read_xml(text, document);
  return document.get_child("svg");
}

double Attribute(const Xml& element, const std::string& name) {
  return element.get<double>("<xmlattr>." + name);
}

std::vector<Xml> ElementsOf(const Xml& svg, const std::string& tag) {
  std::vector<Xml> elements;
  for (const auto& [name, element] : svg) {
    if (name == tag) elements.push_back(element);
  }
  return elements;
}

// Bars and dots by what their tip says: "greedy: 3.5".
std::vector<Xml> MarksOf(const Xml& svg, const std::string& tag, const std::string& series) {
  std::vector<Xml> marks;
  for (const Xml& element : ElementsOf(svg, tag)) {
    if (element.get("title", "").starts_with(series + ": ")) marks.push_back(element);
  }
  return marks;
}

std::vector<std::string> TextsOf(const Xml& svg) {
  std::vector<std::string> texts;
  for (const Xml& text : ElementsOf(svg, "text")) texts.push_back(text.data());
  return texts;
}

bool Contains(const std::vector<std::string>& texts, const std::string& text) {
  return std::ranges::find(texts, text) != texts.end();
}

void ExpectAllInside(const Xml& svg) {
  const double width = Attribute(svg, "width");
  const double height = Attribute(svg, "height");
  for (const Xml& rect : ElementsOf(svg, "rect")) {
    const double x = rect.get("<xmlattr>.x", 0.0);
    const double y = rect.get("<xmlattr>.y", 0.0);
    EXPECT_GE(x, 0);
    EXPECT_GE(y, 0);
    EXPECT_LE(x + Attribute(rect, "width"), width);
    EXPECT_LE(y + Attribute(rect, "height"), height);
  }
  for (const Xml& circle : ElementsOf(svg, "circle")) {
    EXPECT_GE(Attribute(circle, "cx"), 0);
    EXPECT_LE(Attribute(circle, "cx"), width);
    EXPECT_GE(Attribute(circle, "cy"), 0);
    EXPECT_LE(Attribute(circle, "cy"), height);
  }
  for (const Xml& text : ElementsOf(svg, "text")) {
    EXPECT_GE(Attribute(text, "x"), 0) << text.data();
    EXPECT_LE(Attribute(text, "x"), width) << text.data();
    EXPECT_LE(Attribute(text, "y"), height) << text.data();
  }
}

TEST(SvgFigure, DrawsEveryBarInProportionUnderItsAxis) {
  Figure figure{
      .title = "a & b <c>", .y_label = "seconds > 0", .series = {{"greedy", 2}, {"\"ideal\"", 5}}};
  for (const double most : {0.35, 1.0, 4.1067, 9.99, 12345.0}) {
    figure.bars = {{.title = "first & last",
                    .x_label = "jobs",
                    .groups = {"1", "2", "<3>"},
                    .values = {{most, most / 2, std::nullopt}, {most / 3, 0.0, most / 100}}}};
    SCOPED_TRACE(most);
    const Xml svg = Parse(figure);
    ExpectAllInside(svg);
    const auto texts = TextsOf(svg);
    for (const char* text :
         {"a & b <c>", "seconds > 0", "first & last", "jobs", "<3>", "greedy", "\"ideal\"", "0"}) {
      EXPECT_TRUE(Contains(texts, text)) << text;
    }
    // The tick at the axis's top is not below the greatest value.
    double top = 0;
    for (const std::string& text : texts) top = std::max(top, std::strtod(text.c_str(), nullptr));
    EXPECT_GE(top, most * 0.9999);

    const auto greedy = MarksOf(svg, "rect", "greedy");
    const auto ideal = MarksOf(svg, "rect", "\"ideal\"");
    ASSERT_EQ(greedy.size(), 2U);
    ASSERT_EQ(ideal.size(), 3U);
    const double height = Attribute(greedy[0], "height");
    EXPECT_GT(height, 60);
    EXPECT_NEAR(Attribute(greedy[1], "height"), height / 2, 0.2);
    EXPECT_NEAR(Attribute(ideal[0], "height"), height / 3, 0.2);
    EXPECT_NEAR(Attribute(ideal[1], "height"), 0, 0.2);
    const double floor = Attribute(greedy[0], "y") + height;
    for (const Xml& bar : ideal) {
      EXPECT_NEAR(Attribute(bar, "y") + Attribute(bar, "height"), floor, 0.2);
    }
    EXPECT_LT(Attribute(greedy[0], "x") + Attribute(greedy[0], "width"), Attribute(ideal[0], "x"));
  }
}

TEST(SvgFigure, PlacesPointsOnLogarithmicAxes) {
  Figure figure{.title = "t", .y_label = "us", .series = {{"s", 0}}};
  figure.lines = {
      {.title = "p", .x_label = "flows", .points = {{{1000, 100}, {10, 1}, {100, 10}}}}};
  const Xml svg = Parse(figure);
  ExpectAllInside(svg);
  const auto dots = MarksOf(svg, "circle", "s");  // in the order of x
  ASSERT_EQ(dots.size(), 3U);
  for (const char* axis : {"cx", "cy"}) {
    const double first = Attribute(dots[0], axis);
    const double last = Attribute(dots[2], axis);
    EXPECT_NEAR(Attribute(dots[1], axis), (first + last) / 2, 0.2);
    EXPECT_GT(std::abs(last - first), 100);
  }
  for (const char* tick : {"10", "100", "1000", "1"}) EXPECT_TRUE(Contains(TextsOf(svg), tick));
}

TEST(SvgFigure, WrapsItsLegend) {
  Figure figure{.title = "t", .y_label = "y", .series = {}};
  for (int i = 0; i < 8; ++i) {
    figure.series.push_back({"a scheme with a long name " + std::to_string(i), 0});
  }
  figure.lines = {{.title = "p", .x_label = "x", .points = {{{1, 1}}}}};
  const Xml svg = Parse(figure);
  ExpectAllInside(svg);
  // Entries of one row do not overlap (a character is up to 7 wide), and rows lie below another.
  double last_x = -1000;
  double last_y = 0;
  int rows = 0;
  for (const Xml& text : ElementsOf(svg, "text")) {
    if (!text.data().starts_with("a scheme")) continue;
    const double x = Attribute(text, "x");
    const double y = Attribute(text, "y");
    EXPECT_LE(x + 7.0 * 27, Attribute(svg, "width"));
    if (y == last_y) {
      EXPECT_GE(x - last_x, 7 * 27 + 17);
    } else {
      EXPECT_GE(y - last_y, 14);
      ++rows;
    }
    last_x = x;
    last_y = y;
  }
  EXPECT_GT(rows, 1);
}

TEST(SvgFigure, CopesWithNothingToShow) {
  Figure figure{.title = "t", .y_label = "y", .series = {{"s", 0}}};
  ExpectAllInside(Parse(figure));
  figure.bars = {{.title = "p", .x_label = "x", .groups = {"a"}, .values = {{std::nullopt}}},
                 {.title = "q", .x_label = "x", .groups = {"a"}, .values = {{0.0}}}};
  figure.lines = {{.title = "r", .x_label = "x", .points = {{}}},
                  {.title = "one", .x_label = "x", .points = {{{5, 5}}}}};
  const Xml svg = Parse(figure);
  ExpectAllInside(svg);
  EXPECT_EQ(FormatSvg(figure).find("nan"), std::string::npos);
  EXPECT_EQ(FormatSvg(figure).find("inf"), std::string::npos);
}

}  // namespace
}  // namespace espalier::cli
