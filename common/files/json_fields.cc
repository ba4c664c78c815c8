#include "common/files/json_fields.h"

#include <fmt/format.h>

#include <charconv>

#include "common/base/enum_names.h"
#include "common/files/json.h"

namespace espalier::io {
namespace {

using Kind = JsonValue::Kind;

constexpr std::int64_t kLargestExactInDouble = std::int64_t{1} << 53;

std::string_view KindName(Kind kind) {
  static constexpr EnumNames<Kind> kKindNames({
      {Kind::kNull, "null"},
      {Kind::kBool, "true or false"},
      {Kind::kNumber, "a number"},
      {Kind::kString, "a string"},
      {Kind::kArray, "an array"},
      {Kind::kObject, "an object"},
  });
  return kKindNames.NameOf(kind);
}

std::optional<std::int64_t> ToInteger(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

const std::vector<JsonValue>& NoItems() {
  static const std::vector<JsonValue> kNone;
  return kNone;
}

}  // namespace

JsonFields::JsonFields(const JsonValue& object, std::string_view name)
    : object_(object), name_(name) {
  if (object_.kind != Kind::kObject) {
    AddError("", fmt::format("expected an object, found {} (write fields between {{ and }})",
                             KindName(object_.kind)));
  }
}

const JsonValue* JsonFields::Take(std::string_view key, Kind kind) {
  known_.emplace(key);
  const JsonValue* value = object_.Find(key);
  if (value == nullptr || value->kind == kind) return value;
  AddError(key, fmt::format("field \"{}\" must be {}, not {}", key, KindName(kind),
                            KindName(value->kind)));
  return nullptr;
}

void JsonFields::RequireKey(std::string_view key) {
  if (!Has(key)) AddError(key, fmt::format("field \"{}\" is missing (add it to this object)", key));
}

std::string JsonFields::String(std::string_view key, std::string_view fallback) {
  const JsonValue* value = Take(key, Kind::kString);
  return value == nullptr ? std::string(fallback) : value->text;
}

std::string JsonFields::RequiredString(std::string_view key) {
  RequireKey(key);
  return String(key);
}

std::int64_t JsonFields::Integer(std::string_view key, std::int64_t fallback, std::int64_t min,
                                 std::int64_t max) {
  const JsonValue* value = object_.Find(key);
  const bool is_text = value != nullptr && value->kind == Kind::kString;
  value = Take(key, is_text ? Kind::kString : Kind::kNumber);
  if (value == nullptr) return fallback;
  const std::optional<std::int64_t> number = ToInteger(value->text);
  const bool small = number && *number<kLargestExactInDouble&& * number> - kLargestExactInDouble;
  if (is_text && (!number || small)) {
    AddError(key, fmt::format("field \"{}\" must be a number, not a string", key));
    return fallback;
  }
  if (!number || *number < min || *number > max) {
    AddError(key, fmt::format("field \"{}\" must be a whole number from {} to {}", key, min, max));
    return fallback;
  }
  return *number;
}

bool JsonFields::Bool(std::string_view key, bool fallback) {
  const JsonValue* value = Take(key, Kind::kBool);
  return value == nullptr ? fallback : value->boolean;
}

std::optional<std::string> JsonFields::Decimal(std::string_view key) {
  const JsonValue* value = object_.Find(key);
  const bool is_text = value != nullptr && value->kind == Kind::kString;
  value = Take(key, is_text ? Kind::kString : Kind::kNumber);
  return value == nullptr ? std::nullopt : std::optional(value->text);
}

const std::vector<JsonValue>& JsonFields::Array(std::string_view key) {
  const JsonValue* value = Take(key, Kind::kArray);
  return value == nullptr ? NoItems() : value->items;
}

const std::vector<JsonValue>& JsonFields::RequiredArray(std::string_view key) {
  RequireKey(key);
  return Array(key);
}

const JsonValue* JsonFields::Object(std::string_view key) { return Take(key, Kind::kObject); }

bool JsonFields::Has(std::string_view key) const { return object_.Find(key) != nullptr; }

std::string JsonFields::At(std::string_view key) const {
  const JsonValue* value = object_.Find(key);
  if (value == nullptr) value = &object_;
  return fmt::format("{}:{}:{}", name_, value->line, value->column);
}

void JsonFields::AddError(std::string_view key, std::string message) {
  if (error_) return;
  error_ = Error{ErrorCode::kInvalidArgument, fmt::format("{}: {}", At(key), message)};
}

Result<void> JsonFields::FinishKnown() const {
  if (error_) return tl::unexpected<Error>(*error_);
  return {};
}

Result<void> JsonFields::Finish() {
  if (error_) return tl::unexpected<Error>(*error_);
  for (const auto& [key, value] : object_.members) {
    if (known_.contains(key)) continue;
    std::string known;
    for (const std::string& field : known_) known += (known.empty() ? "" : ", ") + field;
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{}:{}:{}: unknown field \"{}\" (known fields: {})", name_,
                            value.key_line, value.key_column, key, known));
  }
  return {};
}

}  // namespace espalier::io
