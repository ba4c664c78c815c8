#include "common/identity/key_ring.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "common/bus/curve.h"
#include "common/files/json.h"
#include "common/files/json_fields.h"
#include "common/files/json_writer.h"
#include "common/files/trusted_files.h"

namespace espalier::identity {
namespace {

std::optional<WallTime> TakeTime(io::JsonFields& fields, std::string_view key) {
  if (!fields.Has(key)) return std::nullopt;
  const Result<WallTime> time = ParseWallTime(fields.String(key), WallTime());
  if (!time) fields.AddError(key, time.error().message);
  return time ? std::optional(*time) : std::nullopt;
}

Result<AgentKey> ParseKey(const io::JsonValue& value, std::string_view file_name) {
  io::JsonFields fields(value, file_name);
  AgentKey key;
  key.name = fields.RequiredString("name");
  key.public_key = fields.RequiredString("public_key");
  if (key.name.empty()) fields.AddError("name", "field \"name\" is empty (write the agent's name)");
  if (!io::IsCurveKey(key.public_key)) {
    fields.AddError("public_key", "the value is not a key of 40 characters");
  }
  key.made = TakeTime(fields, "made").value_or(WallTime());
  key.until = TakeTime(fields, "until");
  key.revoked = TakeTime(fields, "revoked");
  if (Result<void> finished = fields.Finish(); !finished) return Propagate(finished);
  return key;
}

}  // namespace

Result<KeyRing> KeyRing::Parse(std::string_view text, std::string_view file_name) {
  const Result<io::JsonValue> json = io::ParseJson(text, file_name);
  if (!json) return tl::unexpected<Error>(json.error());
  io::JsonFields fields(*json, file_name);
  const std::vector<io::JsonValue>& items = fields.RequiredArray("agent_keys");
  if (Result<void> finished = fields.Finish(); !finished) return Propagate(finished);
  KeyRing ring;
  for (const io::JsonValue& item : items) {
    Result<AgentKey> key = ParseKey(item, file_name);
    if (!key) return Propagate(key);
    if (Result<void> added = ring.Add(std::move(*key)); !added) {
      return Fail(ErrorCode::kInvalidArgument, fmt::format("{}:{}:{}: {}", file_name, item.line,
                                                           item.column, added.error().message));
    }
  }
  return ring;
}

Result<KeyRing> KeyRing::Read(const std::string& path) {
  const Result<std::string> text = io::ReadTrustedFile(path);
  if (!text && text.error().code == ErrorCode::kNotFound) {
    return Fail(
        ErrorCode::kNotFound,
        fmt::format("{} (create it with: espalier keys make AGENT...)", text.error().message));
  }
  if (!text) return tl::unexpected<Error>(text.error());
  return Parse(*text, path);
}

std::string KeyRing::Format() const {
  io::JsonWriter json(/*pretty=*/true);
  json.BeginObject().Key("agent_keys").BeginArray();
  for (const AgentKey& key : keys_) {
    json.BeginObject();
    json.Key("name").String(key.name);
    json.Key("public_key").String(key.public_key);
    json.Key("made").String(FormatWallTime(key.made));
    if (key.until) json.Key("until").String(FormatWallTime(*key.until));
    if (key.revoked) json.Key("revoked").String(FormatWallTime(*key.revoked));
    json.EndObject();
  }
  json.EndArray().EndObject();
  return json.Text() + "\n";
}

std::optional<std::string> KeyRing::NameOf(std::string_view public_key, WallTime now) const {
  const auto found = by_key_.find(std::string(public_key));
  if (found == by_key_.end() || !keys_[found->second].IsGood(now)) return std::nullopt;
  return keys_[found->second].name;
}

bool KeyRing::HasGoodKey(const std::string& name, WallTime now) const {
  return std::ranges::any_of(
      keys_, [&](const AgentKey& key) { return key.name == name && key.IsGood(now); });
}

Result<void> KeyRing::Add(AgentKey key) {
  if (!by_key_.emplace(key.public_key, keys_.size()).second) {
    return Fail(ErrorCode::kAlreadyExists,
                fmt::format("key {} appears twice (remove one)", key.public_key));
  }
  keys_.push_back(std::move(key));
  return {};
}

int KeyRing::LimitUntil(const std::string& name, WallTime until, WallTime now) {
  int limited = 0;
  for (AgentKey& key : keys_) {
    if (key.name != name || !key.IsGood(now)) continue;
    key.until = key.until ? std::min(*key.until, until) : until;
    ++limited;
  }
  return limited;
}

int KeyRing::Revoke(const std::string& name, WallTime now) {
  int revoked = 0;
  for (AgentKey& key : keys_) {
    if (key.name != name || !key.IsGood(now)) continue;
    key.revoked = now;
    ++revoked;
  }
  return revoked;
}

}  // namespace espalier::identity
