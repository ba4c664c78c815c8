#include <utility>

#include "common/io/json.h"
#include "controller/store/intent_store.h"

namespace espalier::controller {
namespace {

using ReasonById = std::map<std::string, std::string>;

void WriteReasons(io::JsonWriter& json, std::string_view key, const ReasonById& reasons) {
  json.Key(key).BeginObject();
  for (const auto& [id, reason] : reasons) json.Key(id).String(reason);
  json.EndObject();
}

ReasonById ReadReasons(io::JsonFields& fields, std::string_view key) {
  ReasonById reasons;
  const io::JsonValue* object = fields.Object(key);
  if (object == nullptr) return reasons;
  for (const auto& [id, reason] : object->members) {
    if (reason.kind != io::JsonValue::Kind::kString) fields.AddError(key, "reasons are strings");
    reasons[id] = reason.text;
  }
  return reasons;
}

class FileIntentStore : public IntentStore {
 public:
  explicit FileIntentStore(std::string path) : path_(std::move(path)) {}

  Result<Intents> Load() override {
    Result<std::string> text = io::ReadFile(path_);
    if (!text && text.error().code == ErrorCode::kNotFound) return Intents{};
    if (!text) return Propagate(text);
    Result<io::JsonValue> json = io::ParseJson(*text, path_);
    if (!json) return Propagate(json);
    io::JsonFields fields(*json, path_);
    Intents intents;
    intents.epoch = static_cast<std::uint64_t>(fields.Integer("epoch", 0, 0, INT64_MAX));
    intents.failed_links = ReadReasons(fields, "failed_links");
    intents.failed_nodes = ReadReasons(fields, "failed_nodes");
    intents.drained_links = ReadReasons(fields, "drained_links");
    intents.restored_links = ReadReasons(fields, "restored_links");
    Result<void> finished = fields.Finish();
    if (!finished) return Propagate(finished);
    return intents;
  }

  Result<void> Save(const Intents& intents) override {
    io::JsonWriter json(/*pretty=*/true);
    json.BeginObject();
    json.Key("epoch").Integer(static_cast<std::int64_t>(intents.epoch));
    WriteReasons(json, "failed_links", intents.failed_links);
    WriteReasons(json, "failed_nodes", intents.failed_nodes);
    WriteReasons(json, "drained_links", intents.drained_links);
    WriteReasons(json, "restored_links", intents.restored_links);
    json.EndObject();
    return io::WriteFileDurably(path_, json.Text() + "\n");
  }

 private:
  std::string path_;
};

}  // namespace

std::unique_ptr<IntentStore> MakeFileIntentStore(std::string path) {
  return std::make_unique<FileIntentStore>(std::move(path));
}

}  // namespace espalier::controller
