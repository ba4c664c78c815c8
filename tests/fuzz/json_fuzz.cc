#include <cstddef>
#include <cstdint>
#include <string>

#include "common/base/check.h"
#include "common/files/json.h"
#include "common/files/json_writer.h"

namespace {

using espalier::io::JsonValue;
using espalier::io::JsonWriter;

// Checks that every value is after the previous one, and members after their keys.
void CheckPositions(const JsonValue& value) {
  ESPALIER_CHECK(value.line >= 1 && value.column >= 1);
  for (const JsonValue& item : value.items) {
    ESPALIER_CHECK(item.line >= value.line);
    CheckPositions(item);
  }
  for (const auto& [key, member] : value.members) {
    ESPALIER_CHECK(member.key_line >= value.line && member.line >= member.key_line);
    ESPALIER_CHECK(member.line > member.key_line || member.column > member.key_column);
    CheckPositions(member);
  }
}

// Writes numbers as strings, as the writer has no decimals.
void Write(const JsonValue& value, JsonWriter& writer) {
  switch (value.kind) {
    case JsonValue::Kind::kNull:
      writer.Null();
      return;
    case JsonValue::Kind::kBool:
      writer.Bool(value.boolean);
      return;
    case JsonValue::Kind::kNumber:
    case JsonValue::Kind::kString:
      writer.String(value.text);
      return;
    case JsonValue::Kind::kArray:
      writer.BeginArray();
      for (const JsonValue& item : value.items) Write(item, writer);
      writer.EndArray();
      return;
    case JsonValue::Kind::kObject:
      writer.BeginObject();
      for (const auto& [key, member] : value.members) {
        writer.Key(key);
        Write(member, writer);
      }
      writer.EndObject();
      return;
  }
}

std::string Text(const JsonValue& value) {
  JsonWriter writer;
  Write(value, writer);
  return writer.Text();
}

}  // namespace

// Arbitrary bytes give an error with a place, or a tree that can be written and read back.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto value = espalier::io::ParseJson({reinterpret_cast<const char*>(data), size}, "f");
  if (!value.has_value()) {
    ESPALIER_CHECK(value.error().message.starts_with("f:"), "{}", value.error().message);
    return 0;
  }
  CheckPositions(*value);
  const std::string text = Text(*value);
  const auto again = espalier::io::ParseJson(text, "again");
  ESPALIER_CHECK(again.has_value(), "{}", again.error().message);
  ESPALIER_CHECK(Text(*again) == text);
  return 0;
}
