#include "common/files/json.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <limits>

#include "common/files/json_fields.h"
#include "common/files/json_writer.h"

namespace espalier::io {
namespace {

JsonValue Parse(std::string_view text) {
  auto value = ParseJson(text, "t.json");
  EXPECT_TRUE(value.has_value()) << value.error().message;
  return value ? *value : JsonValue{};
}

std::string ErrorOf(std::string_view text) {
  const auto value = ParseJson(text, "t.json");
  EXPECT_FALSE(value.has_value()) << text;
  return value ? "" : value.error().message;
}

std::string Place(const JsonValue& value) { return fmt::format("{}:{}", value.line, value.column); }

TEST(ParseJson, KeepsNumbersAsTheyAreWritten) {
  const JsonValue value = Parse("[0, -0.10, 100.000000001, 12345678901234567890, 1e2, -7]");
  const char* const expected[] = {"0",   "-0.10", "100.000000001", "12345678901234567890",
                                  "1e2", "-7"};
  ASSERT_EQ(value.items.size(), std::size(expected));
  for (std::size_t i = 0; i < value.items.size(); ++i) {
    EXPECT_EQ(value.items[i].kind, JsonValue::Kind::kNumber);
    EXPECT_EQ(value.items[i].text, expected[i]);
  }
}

TEST(ParseJson, KnowsWhereEveryValueAndKeyBegins) {
  const JsonValue root = Parse(
      "{\"a\": [1, \"two\\n\\\"\",\n"
      "        true, null],\n"
      "\"b\" : {\"c\":false}\n"
      "}");
  EXPECT_EQ(Place(root), "1:1");
  const JsonValue& a = *root.Find("a");
  EXPECT_EQ(Place(a), "1:7");
  EXPECT_EQ(Place(a.items[0]), "1:8");
  EXPECT_EQ(Place(a.items[1]), "1:11");
  EXPECT_EQ(a.items[1].text, "two\n\"");
  EXPECT_EQ(Place(a.items[2]), "2:9");
  EXPECT_EQ(Place(a.items[3]), "2:15");
  const JsonValue& b = *root.Find("b");
  EXPECT_EQ(Place(b), "3:7");
  EXPECT_EQ(b.key_line, 3);
  EXPECT_EQ(b.key_column, 1);
  EXPECT_EQ(Place(*b.Find("c")), "3:12");
  EXPECT_EQ(root.Find("c"), nullptr);
}

TEST(ParseJson, DecodesStrings) {
  EXPECT_EQ(Parse(R"("\u00e9\t\/\ud83d\ude00")").text, "\xc3\xa9\t/\xf0\x9f\x98\x80");
  EXPECT_EQ(Parse("\"\\u0000\"").text, std::string(1, '\0'));
}

struct BadCase {
  std::string_view text;
  std::string_view where;
};

TEST(ParseJson, NamesThePlaceOfWhatIsWrong) {
  const BadCase cases[] = {
      {"", "t.json:1:1: the document is empty"},
      {"  \n ", "t.json:2:2: "},
      {"{\n  \"a\" 1}", "t.json:2:7: a colon is missing"},
      {"[1,\n 2,]", "t.json:2:4: "},
      {"[1 2]", "t.json:1:4: a comma or ] is missing"},
      {"{\"a\":1,\n\"a\":2}", "t.json:2:1: duplicate key \"a\""},
      {"{\"a\":{\"b\":1,\"c\":2, \"b\":3}}", "t.json:1:20: duplicate key \"b\""},
      {"{} {}", "t.json:1:4: text follows the end of the document"},
      {"\"open", "t.json:1:"},
      {"\"bad \xff utf8\"", "t.json:1:"},
      {"[\"\\ud83d\"]", "t.json:1:"},
      {"[\"\\ude00\"]", "t.json:1:2: the string has half"},
      {"{\n\"\\udc00\": 1}", "t.json:2:1: the string has half"},
      {"'single'", "t.json:1:1: this is not a JSON value"},
      {"nul", "t.json:1:"},
      {"01", "t.json:1:2: "},
      {"+1", "t.json:1:1: "},
      {".5", "t.json:1:1: "},
      {"[1.]", "t.json:1:"},
      {"1e999", "t.json:1:"},
      {"NaN", "t.json:1:"},
      {"[1] // comment", "t.json:1:5: "},
      {std::string_view("{}\0", 3), "t.json:1:3: "},
  };
  for (const BadCase& c : cases) {
    EXPECT_TRUE(ErrorOf(c.text).starts_with(c.where)) << c.text << " -> " << ErrorOf(c.text);
  }
}

TEST(ParseJson, RefusesDeepNestingButNotSixtyFourLevels) {
  const auto nested = [](std::size_t depth) {
    return std::string(depth, '[') + std::string(depth, ']');
  };
  EXPECT_TRUE(ParseJson(nested(64), "t.json").has_value());
  EXPECT_TRUE(ErrorOf(nested(65)).starts_with("t.json:1:65: nested"));
  EXPECT_TRUE(ErrorOf(std::string(1'000'000, '[')).starts_with("t.json:1:65: nested"));
}

TEST(JsonFields, ReadsWhatIsThereAndFallsBackWhereItIsNot) {
  const JsonValue value = Parse(
      R"({"s": "x", "i": 5, "big": "9007199254740993", "t": true, "d": 0.10, "e": "7",
          "a": [1], "o": {}})");
  JsonFields fields(value, "t.json");
  EXPECT_EQ(fields.String("s"), "x");
  EXPECT_EQ(fields.String("none", "fallback"), "fallback");
  EXPECT_EQ(fields.Integer("i", 0, 0, 10), 5);
  EXPECT_EQ(fields.Integer("big", 0, 0, std::numeric_limits<std::int64_t>::max()),
            9007199254740993);
  EXPECT_EQ(fields.Integer("none", -3, 0, 10), -3);
  EXPECT_TRUE(fields.Bool("t", false));
  EXPECT_EQ(fields.Decimal("d"), "0.10");
  EXPECT_EQ(fields.Decimal("e"), "7");
  EXPECT_EQ(fields.Decimal("none"), std::nullopt);
  EXPECT_EQ(fields.Array("a").size(), 1U);
  EXPECT_TRUE(fields.Array("none").empty());
  EXPECT_NE(fields.Object("o"), nullptr);
  EXPECT_EQ(fields.Object("none"), nullptr);
  EXPECT_TRUE(fields.Finish().has_value());
}

template <typename Read>
std::string FieldError(std::string_view text, Read read) {
  const JsonValue value = Parse(text);
  JsonFields fields(value, "t.json");
  read(fields);
  const auto done = fields.Finish();
  EXPECT_FALSE(done.has_value()) << text;
  return done ? "" : done.error().message;
}

TEST(JsonFields, NamesThePlaceOfTheFirstError) {
  const auto integer = [](JsonFields& f) { f.Integer("x", 0, 1, 9); };
  for (const char* bad :
       {"0", "10", "1.0", "1e0", "-1", "99999999999999999999", "\"5\"", "null", "true", "[]"}) {
    EXPECT_TRUE(FieldError(fmt::format("{{\n \"x\": {}}}", bad), integer)
                    .starts_with("t.json:2:7: field \"x\" must be a"))
        << bad;
  }
  EXPECT_EQ(FieldError("{\"x\": 1}", [](JsonFields& f) { f.String("x"); }),
            "t.json:1:7: field \"x\" must be a string, not a number");
  EXPECT_EQ(FieldError(" {}", [](JsonFields& f) { f.RequiredString("x"); }),
            "t.json:1:2: field \"x\" is missing (add it to this object)");
  EXPECT_EQ(FieldError("{}", [](JsonFields& f) { f.RequiredArray("x"); }),
            "t.json:1:1: field \"x\" is missing (add it to this object)");
  EXPECT_EQ(FieldError("{\"x\": {}}", [](JsonFields& f) { f.Array("x"); }),
            "t.json:1:7: field \"x\" must be an array, not an object");
  EXPECT_EQ(FieldError("{\"x\": 1, \"y\": 2}",
                       [](JsonFields& f) {
                         f.AddError("y", "first");
                         f.AddError("x", "second");
                       }),
            "t.json:1:15: first");
  EXPECT_TRUE(FieldError("[]", [](JsonFields&) {}).starts_with("t.json:1:1: expected an object"));
}

TEST(JsonFields, RefusesUnknownFieldsAtTheirKey) {
  EXPECT_EQ(FieldError("{\"x\": \"\",\n \"z\": 1}", [](JsonFields& f) { f.String("x"); }),
            "t.json:2:2: unknown field \"z\" (known fields: x)");
}

TEST(JsonWriter, WritesWhatParseJsonReads) {
  JsonWriter writer;
  writer.BeginObject();
  writer.Key("text").String("a\"\\\n\x01\xc3\xa9").Key("empty").String({});
  writer.Key("list").BeginArray().Integer(-5).Double(0.5).Bool(true).Null().EndArray();
  writer.Key("big").Integer(std::int64_t{1} << 53).Key("small").Integer((1LL << 53) - 1);
  writer.Key("nan").Double(std::numeric_limits<double>::quiet_NaN());
  writer.EndObject();
  const JsonValue value = Parse(writer.Text());
  EXPECT_EQ(value.Find("text")->text, "a\"\\\n\x01\xc3\xa9");
  EXPECT_EQ(value.Find("empty")->text, "");
  EXPECT_EQ(value.Find("list")->items[0].text, "-5");
  EXPECT_EQ(value.Find("list")->items[1].text, "0.5");
  EXPECT_EQ(value.Find("big")->kind, JsonValue::Kind::kString);
  EXPECT_EQ(value.Find("small")->text, "9007199254740991");
  EXPECT_EQ(value.Find("nan")->kind, JsonValue::Kind::kNull);
  EXPECT_EQ(writer.Text().find('\n'), std::string::npos);
}

TEST(JsonWriter, WritesValuesAsTheyWereRead) {
  const std::string text =
      R"({"b":[1,-2.50,1e-7,"9007199254740993",true,null],"a":{"":"\"\\\t\u0001é","empty":[],"none":{}}})";
  EXPECT_EQ(JsonWriter().Value(Parse(text)).Text(), text);
}

TEST(JsonWriter, IndentsWhenPretty) {
  JsonWriter writer(true);
  writer.BeginObject().Key("a").Integer(1).EndObject();
  EXPECT_EQ(writer.Text(), "{\n  \"a\": 1\n}");
}

}  // namespace
}  // namespace espalier::io
