#include "controller/offline/imports/facts/reading.h"

#include <gtest/gtest.h>

#include <tuple>
#include <utility>

namespace espalier::imports {
namespace {

TEST(Reading, ParsesRatesWithAndWithoutUnits) {
  for (const auto& [text, expected] : {std::pair("100", "100"),
                                       {"100G", "100"},
                                       {"12.5Gbps", "12.5"},
                                       {"400 GbE", "400"},
                                       {"25000M", "25"},
                                       {"25000Mbps", "25"},
                                       {"1T", "1000"},
                                       {"1.6Tb", "1600"}}) {
    const auto rate = ParseRate(text);
    ASSERT_TRUE(rate.has_value()) << text << rate.error().message;
    EXPECT_EQ(FormatGbps(*rate), expected) << text;
  }
  for (const char* text : {"", "fast", "G", "-1G", "1e2", "100GB/s", "100K", "9000000000T", "0G"}) {
    EXPECT_FALSE(ParseRate(text).has_value()) << text;
  }
  EXPECT_EQ(FormatGbps(*ParseRateIn("100000", 1'000'000)), "100");
  for (const char* text : {"", "0", "-1", "1.5", "9000000000000000000"}) {
    EXPECT_FALSE(ParseRateIn(text, 1'000'000).has_value()) << text;
  }
}

TEST(Reading, ParsesAddressesWithAndWithoutLength) {
  EXPECT_EQ(ParseInterfaceAddress("10.0.0.1/31")->ToString(), "10.0.0.1");
  EXPECT_EQ(ParseInterfaceAddress("fd00::1")->ToString(), "fd00::1");
  for (const char* text : {"", "/31", "::", "10.0.0"}) {
    EXPECT_FALSE(ParseInterfaceAddress(text).has_value()) << text;
  }
}

TEST(Reading, QuotesForeignTextAndNamesSome) {
  EXPECT_EQ(Quote("a\nb\x7f"), "\"a?b?\"");
  EXPECT_EQ(Quote(std::string(61, 'x')), "\"" + std::string(60, 'x') + "...\"");
  EXPECT_EQ(NameSome({}), "");
  EXPECT_EQ(NameSome({"a"}), "a");
  EXPECT_EQ(NameSome({"a", "b", "c"}), "a, b and c");
  EXPECT_EQ(NameSome({"a", "b", "c"}, 2), "a, b and 1 more");
  EXPECT_EQ(StemOf("x/leaf0.dc1.lldp.json"), "leaf0.dc1");
  EXPECT_EQ(StemOf("box"), "box");
}

TEST(Reading, KnowsWellFormedUtf8) {
  for (const char* text : {"", "leaf0", "b\xc3\xbc", "\xe2\x82\xac", "\xf0\x9f\x98\x80"}) {
    EXPECT_TRUE(IsUtf8(text)) << text;
  }
  for (const char* text : {"\xff", "\x80", "\xc3", "\xc0\xaf", "\xc3x", "\xe0\x80\x80",
                           "\xed\xa0\x80", "\xf0\x80\x80\x80", "\xf4\x90\x80\x80", "\xe2\x82"}) {
    EXPECT_FALSE(IsUtf8(text)) << text;
  }
}

TEST(Reading, SplitsLinesAndWordsWithTheirPlaces) {
  const auto lines = SplitLines(
      "\xef\xbb\xbf"
      "a  b\r\n\nc");
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_EQ(lines[2].number, 3);
  const auto words = SplitWords(lines[0]);
  ASSERT_EQ(words.size(), 2U);
  EXPECT_EQ(words[1].text, "b");
  EXPECT_EQ(words[1].at.column, 4);
  EXPECT_TRUE(SplitWords(lines[1]).empty());
}

TEST(Reading, FindsThePlacesOfOffsets) {
  const TextPlaces places("ab\n\nc");
  const std::tuple<std::ptrdiff_t, int, int> cases[] = {{-1, 1, 1}, {0, 1, 1}, {2, 1, 3}, {3, 2, 1},
                                                        {4, 3, 1},  {5, 3, 2}, {99, 3, 2}};
  for (const auto& [offset, line, column] : cases) {
    EXPECT_EQ(places.Of(offset).line, line) << offset;
    EXPECT_EQ(places.Of(offset).column, column) << offset;
  }
}

TEST(Reading, RefusesJsonOfTooManyValues) {
  std::string text = "[";
  text.append(8'000'001, ',');
  const auto json = ParseLargeJson(text, "f");
  ASSERT_FALSE(json.has_value());
  EXPECT_EQ(json.error().code, ErrorCode::kResourceExhausted);
  const auto small = ParseLargeJson(R"({"a": 1, "b": "x", "c": [], "d": {}, "e": null})", "f");
  ASSERT_TRUE(small.has_value());
  EXPECT_EQ(TextOf(*small, "a"), "1");
  EXPECT_EQ(TextOf(*small, "b"), "x");
  EXPECT_EQ(TextOf(*small, "e"), "");
  EXPECT_NE(FindArray(*small, "c"), nullptr);
  EXPECT_EQ(FindArray(*small, "d"), nullptr);
  EXPECT_NE(FindObject(*small, "d"), nullptr);
  EXPECT_EQ(FindObject(*small, "x"), nullptr);
}

}  // namespace
}  // namespace espalier::imports
