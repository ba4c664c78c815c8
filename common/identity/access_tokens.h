#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/base/time/wall_time.h"

namespace espalier::identity {

// The rights of a caller over HTTP; each role includes those before it.
enum class Role { kViewer, kFeed, kOperator, kAdmin };
std::string_view RoleName(Role role);
// Errors: kInvalidArgument unless viewer, feed, operator or admin.
Result<Role> ParseRole(std::string_view name);

// An issued token, stored as its hash, so that the file itself gives no access.
struct AccessToken {
  std::string name;  // of its holder, for the audit log
  Role role = Role::kViewer;
  std::string sha256;  // 64 hexadecimal digits
  WallTime made;
  std::optional<WallTime> until;
};

// Draws a token: 256 random bits as text that is valid in a header and a URL, "esp_...".
std::string MakeToken();
std::string HashToken(std::string_view token);

// The issued tokens (docs/formats.md).
// Thread safety: none.
class AccessTokens {
 public:
  // Errors: kInvalidArgument "FILE:LINE:COL: what".
  static Result<AccessTokens> Parse(std::string_view text, std::string_view file_name);
  // Errors: those of Parse and io::ReadFile; kPermissionDenied if other users can read the file.
  static Result<AccessTokens> Read(const std::string& path);
  std::string Format() const;

  // Finds a token that is valid now by its hash; null if there is none. The time that this takes
  // may reveal something of the hash, but not of the token.
  const AccessToken* FindByHash(std::string_view sha256, WallTime now) const;
  const std::vector<AccessToken>& tokens() const { return tokens_; }

  // Errors: kAlreadyExists if the name has a token.
  Result<void> Add(AccessToken token);
  // Returns false if there is no token of that name.
  bool Remove(const std::string& name);

 private:
  std::vector<AccessToken> tokens_;
};

}  // namespace espalier::identity
