#include "common/identity/key_files.h"

#include <fmt/format.h>

#include "common/files/json.h"
#include "common/identity/trusted_files.h"

namespace espalier::identity {
namespace {

// One of our own times, or an error at its place.
WallTime TakeTime(io::JsonFields& fields, std::string_view key) {
  const Result<WallTime> time = ParseWallTime(fields.RequiredString(key), WallTime());
  if (time) return *time;
  fields.AddError(key, time.error().message);
  return {};
}

std::string TakeKey(io::JsonFields& fields, std::string_view key) {
  std::string text = fields.RequiredString(key);
  if (!io::IsCurveKey(text)) fields.AddError(key, "not a key of 40 characters");
  return text;
}

// What is to be done about a file that is missing.
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
                fmt::format("{}: the public key is not that of the secret key", file_name));
  }
  return file;
}

Result<KeyFile> ReadKeyFile(const std::string& path) {
  const Result<std::string> text = WithRemedy(
      ReadSecretFile(path), "`espalier keys make` makes it; insecure_plaintext does without");
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
    fields.AddError("controller_public_keys", "not keys of 40 characters");
  }
  if (keys.empty()) fields.AddError("controller_public_keys", "there is no key");
  if (Result<void> finished = fields.Finish(); !finished) return Propagate(finished);
  return keys;
}

Result<std::vector<std::string>> ReadControllerKeys(const std::string& path) {
  const Result<std::string> text = WithRemedy(
      ReadTrustedFile(path), "`espalier keys make` makes it beside the controller's key");
  if (!text) return tl::unexpected<Error>(text.error());
  return ParseControllerKeys(*text, path);
}

}  // namespace espalier::identity
