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

// A JSON value that knows where it stood. Numbers are kept as their text, so decimals are exact.
class JsonValue {
 public:
  enum class Kind { kNull, kBool, kNumber, kString, kArray, kObject };

  // Defaulted where the type is complete: clang cannot make them for a member of its own kind.
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
  int line = 0;                                            // where it begins; 1-based
  int column = 0;                                          // 1-based, in bytes
  int key_line = 0;  // where its key begins; 0 if it is no member
  int key_column = 0;

  const JsonValue* Find(std::string_view key) const;
};

// Reads one JSON document (RFC 8259). At most 64 levels deep.
// Errors: kInvalidArgument "NAME:LINE:COL: what" for bad syntax, text that is not UTF-8, a
// duplicate key, trailing text, a number that no double could hold (1e400).
Result<JsonValue> ParseJson(std::string_view text, std::string_view name);

// Reads the fields of one object and refuses what it does not know. Every getter names the line
// and column in its error; the first error is kept and Finish returns it, so that a reader is a
// list of fields with one check at its end.
class JsonFields {
 public:
  // `object` must live longer; if it is no object, that is the first error.
  JsonFields(const JsonValue& object, std::string_view name);

  std::string String(std::string_view key, std::string_view fallback = "");
  std::string RequiredString(std::string_view key);
  // A number without fraction or exponent; a string only where it is beyond 2^53.
  std::int64_t Integer(std::string_view key, std::int64_t fallback, std::int64_t min,
                       std::int64_t max);
  bool Bool(std::string_view key, bool fallback);
  // A number or a string, as its text; none where absent.
  std::optional<std::string> Decimal(std::string_view key);
  // The items of an array; empty where absent.
  const std::vector<JsonValue>& Array(std::string_view key);
  const std::vector<JsonValue>& RequiredArray(std::string_view key);
  // An object; null where absent.
  const JsonValue* Object(std::string_view key);
  bool Has(std::string_view key) const;
  // Position of a member's value (of the object, where absent), for errors of one's own.
  std::string At(std::string_view key) const;  // "NAME:LINE:COL"
  // An error of one's own about a member; kept if it is the first.
  void AddError(std::string_view key, std::string message);
  // The first error; or an unknown field.
  Result<void> Finish();

 private:
  // The member, now known, if it is of that kind; null (and an error) if it is of another.
  const JsonValue* Take(std::string_view key, JsonValue::Kind kind);
  void RequireKey(std::string_view key);

  const JsonValue& object_;
  std::string name_;
  std::set<std::string, std::less<>> known_;
  std::optional<Error> error_;
};

// Writes JSON text; keys in the order of the calls.
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
  JsonWriter& Integer(std::int64_t value);  // a string where beyond 2^53
  JsonWriter& Double(double value);
  JsonWriter& Bool(bool value);
  JsonWriter& Null();
  JsonWriter& Value(const JsonValue& value);  // numbers as they were written
  std::string Text() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// A whole file. Errors: kNotFound, kPermissionDenied, kResourceExhausted above 256 MiB.
// check: of the very file that is read, before it is; its error is passed on.
using FileCheck = std::function<Result<void>(const struct stat& status)>;
Result<std::string> ReadFile(const std::string& path, const FileCheck& check = {});
// Replaces the file (or the one that a symbolic link leads to) at once and durably: write beside
// it, fsync, rename, fsync the folder. Errors: kInvalidArgument for what is no regular file,
// kNotFound, kPermissionDenied, kResourceExhausted for a full disk.
enum class Readers { kAll, kOwner };
Result<void> WriteFileDurably(const std::string& path, std::string_view text,
                              Readers readers = Readers::kAll);

}  // namespace espalier::io
