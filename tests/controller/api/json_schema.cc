#include "tests/controller/api/json_schema.h"

#include <algorithm>
#include <sstream>
#include <string_view>

#include "common/base/check.h"

namespace espalier::controller {
namespace {

using Kind = io::JsonValue::Kind;

bool IsOfType(const io::JsonValue& value, std::string_view type) {
  switch (value.kind) {
    case Kind::kString:
      return type == "string";
    case Kind::kNumber:
      return type == "number" ||
             (type == "integer" && value.text.find_first_of(".eE") == std::string::npos);
    case Kind::kBool:
      return type == "boolean";
    case Kind::kArray:
      return type == "array";
    case Kind::kObject:
      return type == "object";
    case Kind::kNull:
      return type == "null";
  }
  return false;
}

bool IsOfAnyType(const io::JsonValue& value, const io::JsonValue& type) {
  if (type.kind == Kind::kString) return IsOfType(value, type.text);
  return std::any_of(type.items.begin(), type.items.end(),
                     [&](const io::JsonValue& one) { return IsOfType(value, one.text); });
}

std::string ObjectViolation(const io::JsonValue& description, const io::JsonValue& schema,
                            const io::JsonValue& value, const std::string& place) {
  if (const auto* required = schema.Find("required")) {
    for (const io::JsonValue& key : required->items) {
      if (value.Find(key.text) == nullptr) return place + " has no " + key.text;
    }
  }
  const io::JsonValue* const properties = schema.Find("properties");
  const io::JsonValue* const others = schema.Find("additionalProperties");
  for (const auto& [key, member] : value.members) {
    const io::JsonValue* const property = properties ? properties->Find(key) : nullptr;
    if (property == nullptr) {
      if (others != nullptr && !others->boolean) return place + " has " + key;
      continue;
    }
    std::string violation = Violation(description, *property, member, place + "." + key);
    if (!violation.empty()) return violation;
  }
  return "";
}

}  // namespace

const io::JsonValue& Resolve(const io::JsonValue& description, const io::JsonValue& value) {
  const io::JsonValue* const reference = value.Find("$ref");
  if (reference == nullptr) return value;
  std::istringstream parts(reference->text);
  std::string part;
  std::getline(parts, part, '/');
  ESPALIER_CHECK(part == "#", "ref={}", reference->text);
  const io::JsonValue* found = &description;
  while (std::getline(parts, part, '/')) {
    found = found->Find(part);
    ESPALIER_CHECK(found != nullptr, "ref={}", reference->text);
  }
  return *found;
}

std::string Violation(const io::JsonValue& description, const io::JsonValue& given,
                      const io::JsonValue& value, const std::string& place) {
  const io::JsonValue& schema = Resolve(description, given);
  if (const auto* type = schema.Find("type"); type != nullptr && !IsOfAnyType(value, *type)) {
    return place + " is of another type";
  }
  if (const auto* names = schema.Find("enum")) {
    const bool found =
        std::any_of(names->items.begin(), names->items.end(),
                    [&](const io::JsonValue& name) { return name.text == value.text; });
    if (!found) return place + " is \"" + value.text + "\"";
  }
  if (const auto* minimum = schema.Find("minimum"); minimum != nullptr) {
    if (std::stod(value.text) < std::stod(minimum->text)) return place + " is " + value.text;
  }
  if (value.kind == Kind::kObject) return ObjectViolation(description, schema, value, place);
  if (const auto* items = schema.Find("items")) {
    for (std::size_t i = 0; i < value.items.size(); ++i) {
      std::string violation =
          Violation(description, *items, value.items[i], place + "[" + std::to_string(i) + "]");
      if (!violation.empty()) return violation;
    }
  }
  return "";
}

}  // namespace espalier::controller
