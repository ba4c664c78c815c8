#include "common/terminal/table.h"

#include <gtest/gtest.h>

namespace espalier::cli {
namespace {

std::vector<io::JsonValue> Rows(const std::string& text) {
  auto parsed = io::ParseJson(text, "rows");
  EXPECT_TRUE(parsed.has_value());
  return parsed ? parsed->items : std::vector<io::JsonValue>{};
}

const std::vector<Column> kColumns = {{"LINK", "id"},
                                      {"STATE", "state", CellFormat::kState},
                                      {"RATE", "bps", CellFormat::kRate},
                                      {"SEEN", "back.age", CellFormat::kSeconds}};

TEST(Table, AlignsNumbersAtTheRightAndHasNoBlanksAtEnds) {
  const auto rows = Rows(R"([{"id": "a--b", "state": "UP", "bps": 5, "back": {"age": 0.5}},
                             {"id": "host10--leaf0", "state": "DOWN", "bps": 25000, "up": true}])");
  EXPECT_EQ(FormatTable(kColumns, rows, false),
            "LINK           STATE         RATE    SEEN\n"
            "a--b           UP         5 bit/s  500 ms\n"
            "host10--leaf0  DOWN   25.0 kbit/s       -\n");
  const std::string coloured = FormatTable(kColumns, rows, true);
  EXPECT_NE(coloured.find("\x1b[31mDOWN\x1b[0m"), std::string::npos);
  EXPECT_EQ(FormatTable({{"A", "a"}}, {}, false), "A\n");
}

// Regression: escape sequences in reasons and names reached the terminals of operators.
TEST(Table, ControlCharactersAreShownAndNotObeyed) {
  EXPECT_EQ(EscapeControls("a\x1b[2J\n\x7f\xc2\x9b\x9b."), "a\\x1b[2J\\x0a\\x7f\\x9b\\x9b.");
  // Bytes that are not UTF-8: too short, too long, halves of UTF-16 pairs, beyond the last
  // character.
  EXPECT_EQ(EscapeControls("\xff\xfe=\xc3"), "\\xff\\xfe=\\xc3");
  EXPECT_EQ(EscapeControls("\xc0\xaf\xe0\x80\xaf"), "\\xc0\\xaf\\xe0\\x80\\xaf");
  EXPECT_EQ(EscapeControls("\xed\xa0\x80\xf4\x90\x80\x80"), "\\xed\\xa0\\x80\\xf4\\x90\\x80\\x80");
  EXPECT_EQ(EscapeControls("\xc3\xa9 \xe2\x82\xac \xf0\x9f\x9a\x80"),
            "\xc3\xa9 \xe2\x82\xac \xf0\x9f\x9a\x80");
  EXPECT_EQ(EscapeControls("Höhe \xe6\xbc\xa2 \xc2\xa0"), "Höhe \xe6\xbc\xa2 \xc2\xa0");
  const auto rows = Rows(R"([{"id": "a\nb\u001b", "back": {"age": "\u009b"}}])");
  EXPECT_EQ(FormatTable({{"ID", "id"}, {"AGE", "back.age"}}, rows, false),
            "ID          AGE\na\\x0ab\\x1b  \\x9b\n");
  EXPECT_EQ(FormatCsv({{"ID", "id"}}, rows), "id\r\na\\x0ab\\x1b\r\n");
}

TEST(Table, CsvHasRawValuesInQuotesWhereNeeded) {
  const auto rows = Rows(R"([{"id": "say \"hi\", twice", "bps": 25000, "up": true}])");
  EXPECT_EQ(
      FormatCsv({{"LINK", "id"}, {"RATE", "bps", CellFormat::kRate}, {"UP", "up"}, {"NO", "no"}},
                rows),
      "id,bps,up,no\r\n\"say \"\"hi\"\", twice\",25000,yes,\r\n");
}

}  // namespace
}  // namespace espalier::cli
