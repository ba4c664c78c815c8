#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "common/files/json.h"

namespace espalier::io {

// Writes JSON text, with keys in the order of the calls.
class JsonWriter {
 public:
  explicit JsonWriter(bool pretty = false);
  ~JsonWriter();
  JsonWriter& BeginObject();
  JsonWriter& EndObject();
  JsonWriter& BeginArray();
  JsonWriter& EndArray();
  JsonWriter& Key(std::string_view key);
  JsonWriter& String(std::string_view value);
  JsonWriter& Integer(std::int64_t value);  // a string if it is beyond 2^53
  JsonWriter& Double(double value);
  JsonWriter& Bool(bool value);
  JsonWriter& Null();
  JsonWriter& Value(const JsonValue& value);  // numbers as they were written
  std::string Text() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace espalier::io
