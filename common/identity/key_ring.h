#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "common/base/result.h"
#include "common/base/time/wall_time.h"

namespace espalier::identity {

// A public key, the agent that it is bound to, and its validity.
struct AgentKey {
  std::string name;
  std::string public_key;
  WallTime made;
  std::optional<WallTime> until;    // valid until then, as a newer key replaces it
  std::optional<WallTime> revoked;  // not valid since then

  bool IsGood(WallTime now) const { return !revoked && (!until || now < *until); }
};

// The public keys of all agents, by which the controller knows which agents may connect
// (docs/formats.md). Expired and revoked keys stay, so that they are never accepted again.
// Thread safety: none.
class KeyRing {
 public:
  // Errors: kInvalidArgument "FILE:LINE:COL: what", also for a repeated key.
  static Result<KeyRing> Parse(std::string_view text, std::string_view file_name);
  // Errors: those of Parse and io::ReadFile; kPermissionDenied if other users can change the file.
  static Result<KeyRing> Read(const std::string& path);
  std::string Format() const;

  // The agent's name, if the key is valid now. O(1).
  std::optional<std::string> NameOf(std::string_view public_key, WallTime now) const;
  const std::vector<AgentKey>& keys() const { return keys_; }
  bool HasGoodKey(const std::string& name, WallTime now) const;

  // Errors: kAlreadyExists for a known key.
  Result<void> Add(AgentKey key);
  // Limits the validity of the valid keys of this name; returns their number.
  int LimitUntil(const std::string& name, WallTime until, WallTime now);
  int Revoke(const std::string& name, WallTime now);

 private:
  std::vector<AgentKey> keys_;  // in the order of creation
  std::unordered_map<std::string, std::size_t> by_key_;
};

}  // namespace espalier::identity
