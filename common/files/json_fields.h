#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/files/json.h"

namespace espalier::io {

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

}  // namespace espalier::io
