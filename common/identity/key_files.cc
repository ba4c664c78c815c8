#include "common/identity/key_files.h"

#include <fmt/format.h>

#include "common/files/json.h"
#include "common/files/json_fields.h"
#include "common/files/json_writer.h"
#include "common/files/trusted_files.h"

namespace espalier::identity {
namespace {

// Reads a time in the form of FormatWallTime; else adds an error at its place.
WallTime TakeTime(io::JsonFields& fields, std::string_view key) {
  const Result<WallTime> time = ParseWallTime(fields.RequiredString(key), WallTime());
  if (time) return *time;
  fields.AddError(key, time.error().message);
  return {};
}

std::string TakeKey(io::JsonFields& fields, std::string_view key) {
  std::string text = fields.RequiredString(key);
  if (!io::IsCurveKey(text)) fields.AddError(key, "the value is not a key of 40 characters");
  return text;
}

// Adds the remedy to the error for a missing file.
template <typename T>
Result<T> WithRemedy(Result<T> result, std::string_view remedy) {
  if (!result && result.error().code == ErrorCode::kNotFound) {
    return Fail(ErrorCode::kNotFound, fmt::format("{} ({})", result.error().message, remedy));
  }
  return result;
}

}  // namespace

std::string FormatKeyFile(const KeyFile& file) {
  io::JsonWriter json(/*pretty=*/true);
  json.BeginObject();
  json.Key("name").String(file.name);
  json.Key("public_key").String(file.keys.public_key);
  json.Key("secret_key").String(file.keys.secret_key);
  json.Key("made").String(FormatWallTime(file.made));
  json.EndObject();
  return json.Text() + "\n";
}

Result<KeyFile> ParseKeyFile(std::string_view text, std::string_view file_name) {
  const Result<io::JsonValue> json = io::ParseJson(text, file_name);
  if (!json) return tl::unexpected<Error>(json.error());
  io::JsonFields fields(*json, file_name);
  KeyFile file;
  file.name = fields.RequiredString("name");
  file.keys.public_key = TakeKey(fields, "public_key");
  file.keys.secret_key = TakeKey(fields, "secret_key");
  file.made = TakeTime(fields, "made");
  if (Result<void> finished = fields.Finish(); !finished) return Propagate(finished);
  if (io::PublicKeyOf(file.keys.secret_key) != file.keys.public_key) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{}: the public key does not belong to the secret key (make a new pair "
                            "with: espalier keys)",
                            file_name));
  }
  return file;
}

Result<KeyFile> ReadKeyFile(const std::string& path) {
  const Result<std::string> text = WithRemedy(
      io::ReadSecretFile(path), "create it with `espalier keys make`, or set insecure_plaintext");
  if (!text) return tl::unexpected<Error>(text.error());
  return ParseKeyFile(*text, path);
}

std::string FormatControllerKeys(const std::vector<std::string>& keys) {
  io::JsonWriter json(/*pretty=*/true);
  json.BeginObject().Key("controller_public_keys").BeginArray();
  for (const std::string& key : keys) json.String(key);
  json.EndArray().EndObject();
  return json.Text() + "\n";
}

Result<std::vector<std::string>> ParseControllerKeys(std::string_view text,
                                                     std::string_view file_name) {
  const Result<io::JsonValue> json = io::ParseJson(text, file_name);
  if (!json) return tl::unexpected<Error>(json.error());
  io::JsonFields fields(*json, file_name);
  std::vector<std::string> keys;
  for (const io::JsonValue& item : fields.RequiredArray("controller_public_keys")) {
    keys.push_back(item.text);
    if (io::IsCurveKey(item.text)) continue;
    fields.AddError("controller_public_keys", "a value is not a key of 40 characters");
  }
  if (keys.empty())
    fields.AddError("controller_public_keys",
                    "the list has no key (copy controller.pub from the controller)");
  if (Result<void> finished = fields.Finish(); !finished) return Propagate(finished);
  return keys;
}

Result<std::vector<std::string>> ReadControllerKeys(const std::string& path) {
  const Result<std::string> text =
      WithRemedy(io::ReadTrustedFile(path),
                 "`espalier keys make` creates it beside the controller's key; copy it from there");
  if (!text) return tl::unexpected<Error>(text.error());
  return ParseControllerKeys(*text, path);
}

}  // namespace espalier::identity
