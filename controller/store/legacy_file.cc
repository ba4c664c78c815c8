#include "controller/store/legacy_file.h"

#include "common/files/json.h"

namespace espalier::controller {
namespace {

IntentById ReadReasons(io::JsonFields& fields, std::string_view key) {
  IntentById intents;
  const io::JsonValue* object = fields.Object(key);
  if (object == nullptr) return intents;
  for (const auto& [id, reason] : object->members) {
    if (reason.kind != io::JsonValue::Kind::kString)
      fields.AddError(key, "each reason must be a string");
    intents[id].reason = reason.text;
  }
  return intents;
}

}  // namespace

Result<LegacyIntents> ParseLegacyIntents(std::string_view text, const std::string& path) {
  Result<io::JsonValue> json = io::ParseJson(text, path);
  if (!json) return Propagate(json);
  io::JsonFields fields(*json, path);
  LegacyIntents legacy;
  legacy.epoch = static_cast<std::uint64_t>(fields.Integer("epoch", 0, 0, INT64_MAX));
  legacy.intents.failed_links = ReadReasons(fields, "failed_links");
  legacy.intents.failed_nodes = ReadReasons(fields, "failed_nodes");
  legacy.intents.drained_links = ReadReasons(fields, "drained_links");
  legacy.intents.restored_links = ReadReasons(fields, "restored_links");
  Result<void> finished = fields.Finish();
  if (!finished) return Propagate(finished);
  return legacy;
}

}  // namespace espalier::controller
