#include "common/identity/access_tokens.h"

#include <fmt/format.h>
#include <openssl/evp.h>
#include <openssl/rand.h>

#include <algorithm>
#include <array>
#include <utility>

#include "common/base/check.h"
#include "common/base/enum_names.h"
#include "common/files/json.h"
#include "common/files/json_fields.h"
#include "common/files/json_writer.h"
#include "common/files/trusted_files.h"

namespace espalier::identity {
namespace {

constexpr std::size_t kHashBytes = 32;
constexpr EnumNames<Role> kRoleNames({
    {Role::kViewer, "viewer"},
    {Role::kFeed, "feed"},
    {Role::kOperator, "operator"},
    {Role::kAdmin, "admin"},
});

std::string ToHex(const std::array<unsigned char, kHashBytes>& bytes) {
  std::string hex;
  for (const unsigned char byte : bytes) hex += fmt::format("{:02x}", byte);
  return hex;
}

bool IsHash(std::string_view text) {
  return text.size() == 2 * kHashBytes &&
         text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

std::optional<WallTime> TakeTime(io::JsonFields& fields, std::string_view key) {
  if (!fields.Has(key)) return std::nullopt;
  const Result<WallTime> time = ParseWallTime(fields.String(key), WallTime());
  if (!time) fields.AddError(key, time.error().message);
  return time ? std::optional(*time) : std::nullopt;
}

Result<AccessToken> ParseToken(const io::JsonValue& value, std::string_view file_name) {
  io::JsonFields fields(value, file_name);
  AccessToken token;
  token.name = fields.RequiredString("name");
  const Result<Role> role = ParseRole(fields.RequiredString("role"));
  if (!role) fields.AddError("role", role.error().message);
  token.role = role.value_or(Role::kViewer);
  token.sha256 = fields.RequiredString("sha256");
  if (!IsHash(token.sha256))
    fields.AddError(
        "sha256",
        "the value is not 64 hexadecimal digits (create tokens with: espalier token make)");
  token.made = TakeTime(fields, "made").value_or(WallTime());
  token.until = TakeTime(fields, "until");
  if (Result<void> finished = fields.Finish(); !finished) return Propagate(finished);
  return token;
}

}  // namespace

std::string_view RoleName(Role role) { return kRoleNames.NameOf(role); }

Result<Role> ParseRole(std::string_view name) {
  if (const auto role = kRoleNames.Find(name)) return *role;
  return Fail(ErrorCode::kInvalidArgument,
              fmt::format("\"{}\" is not a role (write viewer, feed, operator or admin)", name));
}

std::string MakeToken() {
  std::array<unsigned char, kHashBytes> bytes{};
  ESPALIER_CHECK(RAND_bytes(bytes.data(), static_cast<int>(bytes.size())) == 1);
  return "esp_" + ToHex(bytes);
}

std::string HashToken(std::string_view token) {
  std::array<unsigned char, kHashBytes> digest{};
  unsigned size = 0;
  const int done =
      EVP_Digest(token.data(), token.size(), digest.data(), &size, EVP_sha256(), nullptr);
  ESPALIER_CHECK(done == 1 && size == kHashBytes, "size={}", size);
  return ToHex(digest);
}

Result<AccessTokens> AccessTokens::Parse(std::string_view text, std::string_view file_name) {
  const Result<io::JsonValue> json = io::ParseJson(text, file_name);
  if (!json) return tl::unexpected<Error>(json.error());
  io::JsonFields fields(*json, file_name);
  const std::vector<io::JsonValue>& items = fields.RequiredArray("tokens");
  if (Result<void> finished = fields.Finish(); !finished) return Propagate(finished);
  AccessTokens tokens;
  for (const io::JsonValue& item : items) {
    Result<AccessToken> token = ParseToken(item, file_name);
    if (!token) return Propagate(token);
    if (Result<void> added = tokens.Add(std::move(*token)); !added) {
      return Fail(ErrorCode::kInvalidArgument, fmt::format("{}:{}:{}: {}", file_name, item.line,
                                                           item.column, added.error().message));
    }
  }
  return tokens;
}

Result<AccessTokens> AccessTokens::Read(const std::string& path) {
  const Result<std::string> text = io::ReadSecretFile(path);
  if (!text) return tl::unexpected<Error>(text.error());
  return Parse(*text, path);
}

std::string AccessTokens::Format() const {
  io::JsonWriter json(/*pretty=*/true);
  json.BeginObject().Key("tokens").BeginArray();
  for (const AccessToken& token : tokens_) {
    json.BeginObject();
    json.Key("name").String(token.name);
    json.Key("role").String(RoleName(token.role));
    json.Key("sha256").String(token.sha256);
    json.Key("made").String(FormatWallTime(token.made));
    if (token.until) json.Key("until").String(FormatWallTime(*token.until));
    json.EndObject();
  }
  json.EndArray().EndObject();
  return json.Text() + "\n";
}

const AccessToken* AccessTokens::FindByHash(std::string_view sha256, WallTime now) const {
  const auto found = std::find_if(tokens_.begin(), tokens_.end(),
                                  [&](const AccessToken& token) { return token.sha256 == sha256; });
  if (found == tokens_.end() || (found->until && *found->until <= now)) return nullptr;
  return &*found;
}

Result<void> AccessTokens::Add(AccessToken token) {
  if (std::ranges::any_of(tokens_, [&](const auto& t) { return t.name == token.name; })) {
    return Fail(ErrorCode::kAlreadyExists,
                fmt::format("{} has a token already (revoke it first)", token.name));
  }
  tokens_.push_back(std::move(token));
  return {};
}

bool AccessTokens::Remove(const std::string& name) {
  return std::erase_if(tokens_, [&](const AccessToken& t) { return t.name == name; }) > 0;
}

}  // namespace espalier::identity
