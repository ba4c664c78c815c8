#include "controller/offline/files/record_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

namespace espalier::offline {
namespace {

using Format = RecordReader::Format;
using testing::ElementsAre;

// All records of a text as "line:column=text" of each field, or the error that ended them.
std::vector<std::string> ReadAll(std::string_view text, Format format) {
  RecordReader reader(text, "f", format);
  std::vector<std::string> records;
  const auto read = reader.ForEach([&](std::span<const Field> fields) -> Result<void> {
    std::string& record = records.emplace_back();
    for (const Field& field : fields) {
      record += std::to_string(field.line) + ":" + std::to_string(field.column) + "=" +
                std::string(field.text) + ";";
    }
    return {};
  });
  if (!read) records.push_back(read.error().message);
  return records;
}

TEST(RecordReader, SplitsColumnsAtBlanksAndLeavesOutComments) {
  EXPECT_THAT(ReadAll("\xEF\xBB\xBF a\tb  c \r\n\n  # a comment\n\t\n#x\nd#e", Format::kColumns),
              ElementsAre("1:2=a;1:4=b;1:7=c;", "6:1=d#e;"));
  EXPECT_THAT(ReadAll("", Format::kColumns), ElementsAre());
  // Quotes and commas have no special meaning in columns.
  EXPECT_THAT(ReadAll("\"a,b\" c", Format::kColumns), ElementsAre("1:1=\"a,b\";1:7=c;"));
}

TEST(RecordReader, SplitsAtCommasOutsideQuotes) {
  EXPECT_THAT(
      ReadAll("a,b\r\n \n,\n\"x,y\",\"\",\"say \"\"so\"\"\"\n# a", Format::kCommas),
      ElementsAre("1:1=a;1:3=b;", "3:1=;3:2=;", "4:1=x,y;4:7=;4:10=say \"so\";", "5:1=# a;"));
  // Columns count bytes; blanks belong to fields.
  EXPECT_THAT(ReadAll("\xC3\xA4,  b ", Format::kCommas), ElementsAre("1:1=\xC3\xA4;1:4=  b ;"));
}

TEST(RecordReader, NamesTheLineAndColumnOfWhatIsWrong) {
  const std::string most(RecordReader::kMaxFieldBytes, 'a');
  EXPECT_THAT(ReadAll("b," + most, Format::kCommas), ElementsAre("1:1=b;1:3=" + most + ";"));
  const std::pair<std::string, std::string> cases[] = {
      {"a\nb,c\"d", "f:2:3: a quote inside an unquoted field (quote the whole field)"},
      {"a\n\"b", "f:2:1: a quote is not closed on its line"},
      {"a\nb,\"c\"\"", "f:2:3: a quote is not closed on its line"},
      {"a\nb,\"c\"d", "f:2:6: a comma must follow the closing quote"},
      {"a\nb,\x7F", "f:2:3: a field has a control character"},
      {"a\nb,c\rd", "f:2:3: a field has a control character"},
      {"a\nb," + most + "a", "f:2:3: a field has more than 255 bytes"},
      {"a\nb,\"" + most + "a\"", "f:2:3: a field has more than 255 bytes"},
  };
  for (const auto& [text, expected] : cases) {
    EXPECT_THAT(ReadAll(text, Format::kCommas), ElementsAre("1:1=a;", expected));
  }
}

TEST(RecordReader, ReadsWholeNumbersOfARange) {
  const RecordReader reader("", "f", Format::kCommas);
  const auto read = [&](std::string_view text) {
    return reader.ReadInteger({text, 3, 7}, "size", -2, 30);
  };
  EXPECT_EQ(read("-2"), -2);
  EXPECT_EQ(read("30"), 30);
  EXPECT_EQ(read("007"), 7);
  for (const char* text : {"", "-3", "31", "+1", " 1", "1 ", "1.0", "0x1", "9223372036854775808"}) {
    const auto number = read(text);
    ASSERT_FALSE(number.has_value()) << text;
    EXPECT_EQ(number.error().code, ErrorCode::kInvalidArgument);
    EXPECT_EQ(number.error().message,
              "f:3:7: size is \"" + std::string(text) + "\" (write a whole number from -2 to 30)");
  }
  EXPECT_EQ(read(std::string(50, '1')).error().message,
            "f:3:7: size is \"" + std::string(40, '1') + "\" (write a whole number from -2 to 30)");
}

TEST(RecordReader, EndsWithTheFirstErrorOfItsCaller) {
  RecordReader reader("a\nb\nc\n", "f", Format::kCommas);
  const auto read = reader.ForEach([&](std::span<const Field> fields) -> Result<void> {
    if (fields[0].text == "b") return reader.FailAt(fields[0], "no b");
    return {};
  });
  ASSERT_FALSE(read.has_value());
  EXPECT_EQ(read.error().message, "f:2:1: no b");
  EXPECT_EQ(reader.line(), 2);
}

}  // namespace
}  // namespace espalier::offline
