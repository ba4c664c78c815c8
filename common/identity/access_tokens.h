#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "common/base/wall_time.h"

namespace espalier::identity {

// What somebody may do over HTTP; each may do what those before it may.
enum class Role { kViewer, kOperator, kAdmin };
std::string_view RoleName(Role role);
// Errors: kInvalidArgument unless viewer, operator or admin.
Result<Role> ParseRole(std::string_view name);

// A token that was given out, by the hash of it: the file gives nobody access.
struct AccessToken {
  std::string name;  // whose it is, for the audit log
  Role role = Role::kViewer;
  std::string sha256;  // 64 hexadecimal digits
  WallTime made;
  std::optional<WallTime> until;
};

// 256 random bits, as text that fits into a header and a URL: "esp_...".
std::string MakeToken();
std::string HashToken(std::string_view token);

// All tokens that are good (docs/formats.md).
// Thread safety: none.
class AccessTokens {
 public:
  // Errors: kInvalidArgument "FILE:LINE:COL: what".
  static Result<AccessTokens> Parse(std::string_view text, std::string_view file_name);
  // Besides: kPermissionDenied where others can read it; those of io::ReadFile.
  static Result<AccessTokens> Read(const std::string& path);
  std::string Format() const;

  // Who comes with the token of this hash, if it is good; null for nobody. How long it takes tells
  // of the hash at most, which leads to no token.
  const AccessToken* FindByHash(std::string_view sha256, WallTime now) const;
  const std::vector<AccessToken>& tokens() const { return tokens_; }

  // Errors: kAlreadyExists for a name that has one.
  Result<void> Add(AccessToken token);
  // False where there is none of that name.
  bool Remove(const std::string& name);

 private:
  std::vector<AccessToken> tokens_;
};

}  // namespace espalier::identity
