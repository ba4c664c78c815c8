#include "common/files/json_writer.h"

#include <rapidjson/prettywriter.h>
#include <rapidjson/stringbuffer.h>
#include <rapidjson/writer.h>

#include <cmath>
#include <variant>

#include "common/files/json.h"

namespace espalier::io {
namespace {

constexpr std::int64_t kLargestExactInDouble = std::int64_t{1} << 53;

using Compact = rapidjson::Writer<rapidjson::StringBuffer>;
using Pretty = rapidjson::PrettyWriter<rapidjson::StringBuffer>;

rapidjson::SizeType Length(std::string_view text) {
  return static_cast<rapidjson::SizeType>(text.size());
}

}  // namespace

struct JsonWriter::Impl {
  explicit Impl(bool pretty) {
    if (pretty) {
      writer.emplace<Pretty>(buffer).SetIndent(' ', 2);
    } else {
      writer.emplace<Compact>(buffer);
    }
  }

  template <typename Action>
  void Do(Action action) {
    std::visit(
        [&](auto& chosen) {
          if constexpr (!std::is_same_v<std::decay_t<decltype(chosen)>, std::monostate>) {
            action(chosen);
          }
        },
        writer);
  }

  rapidjson::StringBuffer buffer;
  std::variant<std::monostate, Compact, Pretty> writer;
};

JsonWriter::JsonWriter(bool pretty) : impl_(std::make_unique<Impl>(pretty)) {}
JsonWriter::~JsonWriter() = default;

JsonWriter& JsonWriter::BeginObject() {
  impl_->Do([](auto& writer) { writer.StartObject(); });
  return *this;
}

JsonWriter& JsonWriter::EndObject() {
  impl_->Do([](auto& writer) { writer.EndObject(); });
  return *this;
}

JsonWriter& JsonWriter::BeginArray() {
  impl_->Do([](auto& writer) { writer.StartArray(); });
  return *this;
}

JsonWriter& JsonWriter::EndArray() {
  impl_->Do([](auto& writer) { writer.EndArray(); });
  return *this;
}

JsonWriter& JsonWriter::Key(std::string_view key) {
  impl_->Do([&](auto& writer) { writer.Key(key.data(), Length(key)); });
  return *this;
}

JsonWriter& JsonWriter::String(std::string_view value) {
  // An empty view may have a null pointer, which the writer does not accept.
  const char* data = value.empty() ? "" : value.data();
  impl_->Do([&](auto& writer) { writer.String(data, Length(value)); });
  return *this;
}

JsonWriter& JsonWriter::Integer(std::int64_t value) {
  if (value >= kLargestExactInDouble || value <= -kLargestExactInDouble) {
    return String(std::to_string(value));
  }
  impl_->Do([&](auto& writer) { writer.Int64(value); });
  return *this;
}

JsonWriter& JsonWriter::Double(double value) {
  if (!std::isfinite(value)) return Null();  // JSON has neither infinity nor NaN
  impl_->Do([&](auto& writer) { writer.Double(value); });
  return *this;
}

JsonWriter& JsonWriter::Bool(bool value) {
  impl_->Do([&](auto& writer) { writer.Bool(value); });
  return *this;
}

JsonWriter& JsonWriter::Null() {
  impl_->Do([](auto& writer) { writer.Null(); });
  return *this;
}

JsonWriter& JsonWriter::Value(const JsonValue& value) {
  switch (value.kind) {
    case JsonValue::Kind::kNull:
      return Null();
    case JsonValue::Kind::kBool:
      return Bool(value.boolean);
    case JsonValue::Kind::kNumber:
      impl_->Do([&](auto& writer) {
        writer.RawValue(value.text.data(), Length(value.text), rapidjson::kNumberType);
      });
      return *this;
    case JsonValue::Kind::kString:
      return String(value.text);
    case JsonValue::Kind::kArray:
      BeginArray();
      for (const JsonValue& item : value.items) Value(item);
      return EndArray();
    case JsonValue::Kind::kObject:
      BeginObject();
      for (const auto& [key, member] : value.members) Key(key).Value(member);
      return EndObject();
  }
  return *this;
}

std::string JsonWriter::Text() const {
  return {impl_->buffer.GetString(), impl_->buffer.GetSize()};
}

}  // namespace espalier::io
