#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "common/base/result.h"
#include "common/base/wall_time.h"

namespace espalier::identity {

// A public key, the agent that it is bound to, and how long it is good.
struct AgentKey {
  std::string name;
  std::string public_key;
  WallTime made;
  std::optional<WallTime> until;    // good until then: a newer one takes its place
  std::optional<WallTime> revoked;  // not good since then

  bool IsGood(WallTime now) const { return !revoked && (!until || now < *until); }
};

// All agents' public keys that the controller has ever given, by which it knows who may connect
// (docs/formats.md). Keys that are not good any more stay, so that they are never taken again.
// Thread safety: none.
class KeyRing {
 public:
  // Errors: kInvalidArgument "FILE:LINE:COL: what", also for one key twice.
  static Result<KeyRing> Parse(std::string_view text, std::string_view file_name);
  // Besides: kPermissionDenied where others can change it; those of io::ReadFile.
  static Result<KeyRing> Read(const std::string& path);
  std::string Format() const;

  // Whose key it is, if it is good. O(1).
  std::optional<std::string> NameOf(std::string_view public_key, WallTime now) const;
  const std::vector<AgentKey>& keys() const { return keys_; }
  bool HasGoodKey(const std::string& name, WallTime now) const;

  // Errors: kAlreadyExists for a key that is there.
  Result<void> Add(AgentKey key);
  // The good keys of this name are good no longer than until then. How many there were.
  int LimitUntil(const std::string& name, WallTime until, WallTime now);
  int Revoke(const std::string& name, WallTime now);

 private:
  std::vector<AgentKey> keys_;  // in the order in which they were made
  std::unordered_map<std::string, std::size_t> by_key_;
};

}  // namespace espalier::identity
