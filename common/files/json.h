#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/result.h"

namespace espalier::io {

// A JSON value with its position in the file. Numbers keep their text, so decimals are exact.
class JsonValue {
 public:
  enum class Kind { kNull, kBool, kNumber, kString, kArray, kObject };

  // Defaulted in the .cc file, where the type is complete: clang cannot generate them here for a
  // class with members of its own type.
  JsonValue();
  ~JsonValue();
  JsonValue(const JsonValue&);
  JsonValue(JsonValue&&) noexcept;
  JsonValue& operator=(const JsonValue&);
  JsonValue& operator=(JsonValue&&) noexcept;

  Kind kind = Kind::kNull;
  bool boolean = false;
  std::string text;  // of a number (as written) or a string (decoded)
  std::vector<JsonValue> items;
  std::vector<std::pair<std::string, JsonValue>> members;  // in file order, keys unique
  int line = 0;                                            // where the value begins; 1-based
  int column = 0;                                          // 1-based, in bytes
  int key_line = 0;  // where its key begins; 0 if it is not a member of an object
  int key_column = 0;

  const JsonValue* Find(std::string_view key) const;
};

// Parses one JSON document (RFC 8259) of at most 64 levels.
// Errors: kInvalidArgument "NAME:LINE:COL: what" for bad syntax, text that is not UTF-8, a
// duplicate key, trailing text, or a number that does not fit into a double (1e400).
Result<JsonValue> ParseJson(std::string_view text, std::string_view name);

}  // namespace espalier::io
