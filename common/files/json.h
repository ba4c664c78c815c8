#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
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

// Reads the fields of one object and refuses unknown ones. Every getter names the line and column
// in its error. The first error is kept and Finish returns it, so that a reader is a list of
// fields with one check at its end.
class JsonFields {
 public:
  // `object` must outlive this; if it is not an object, that is the first error.
  JsonFields(const JsonValue& object, std::string_view name);

  std::string String(std::string_view key, std::string_view fallback = "");
  std::string RequiredString(std::string_view key);
  // A number without fraction or exponent; a string only if it is 2^53 or more, or -2^53 or less.
  std::int64_t Integer(std::string_view key, std::int64_t fallback, std::int64_t min,
                       std::int64_t max);
  bool Bool(std::string_view key, bool fallback);
  // The text of a number or a string; none if absent.
  std::optional<std::string> Decimal(std::string_view key);
  // The items of an array; empty if absent.
  const std::vector<JsonValue>& Array(std::string_view key);
  const std::vector<JsonValue>& RequiredArray(std::string_view key);
  // An object; null if absent.
  const JsonValue* Object(std::string_view key);
  bool Has(std::string_view key) const;
  // The position of a member's value, or of the object if the member is absent.
  std::string At(std::string_view key) const;  // "NAME:LINE:COL"
  // Adds the caller's own error about a member; it is kept if it is the first.
  void AddError(std::string_view key, std::string message);
  // Returns the first error, or one for an unknown field.
  Result<void> Finish();
  // As Finish, but accepts unknown fields, for formats that others extend.
  Result<void> FinishKnown() const;

 private:
  // Marks the member as known and returns it; null with an error if it is of another kind.
  const JsonValue* Take(std::string_view key, JsonValue::Kind kind);
  void RequireKey(std::string_view key);

  const JsonValue& object_;
  std::string name_;
  std::set<std::string, std::less<>> known_;
  std::optional<Error> error_;
};

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

// Reads a whole file. Errors: kNotFound, kPermissionDenied, kResourceExhausted above 256 MiB.
// `check` is called with the status of the opened file before it is read; its error is returned.
using FileCheck = std::function<Result<void>(const struct stat& status)>;
Result<std::string> ReadFile(const std::string& path, const FileCheck& check = {});
// Replaces a file (or the target of a symbolic link) atomically and durably: writes a new file in
// its folder, syncs it, renames it and syncs the folder. Errors: kInvalidArgument if the path is
// not a regular file, kNotFound, kPermissionDenied, kResourceExhausted for a full disk.
enum class Readers { kAll, kOwner };
Result<void> WriteFileDurably(const std::string& path, std::string_view text,
                              Readers readers = Readers::kAll);

}  // namespace espalier::io
