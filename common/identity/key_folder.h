#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/result.h"
#include "common/base/unique_fd.h"
#include "common/base/wall_time.h"
#include "common/identity/access_tokens.h"
#include "common/identity/key_ring.h"

namespace espalier::identity {

// The controller's folder of keys, as `espalier keys` and `espalier token` change it:
//   controller.key       its secret; controller.next.key: the one that it will have
//   controller.pub       its public key (both while it rotates), for all agents
//   agents.pub           the agents' public keys and names
//   agents/NAME.key      an agent's secret, to be moved to its host
//   tokens               who may use HTTP, and as what
// Every change is durable and whole. One process at a time changes it.
class KeyFolder {
 public:
  // Makes the folder where it is missing. Errors: kUnavailable while another process changes it;
  // the system's; whatever is wrong with the files in it.
  static Result<KeyFolder> Open(const std::string& path);

  const KeyRing& ring() const { return ring_; }
  const AccessTokens& tokens() const { return tokens_; }

  // Errors: kAlreadyExists where there is one.
  Result<void> MakeController(WallTime now);
  // The first keys of these agents: the files that hold them. Errors (nobody gets one then):
  // kAlreadyExists where one has a good key; kInvalidArgument for a name that no agent can have.
  Result<std::vector<std::string>> MakeAgents(const std::vector<std::string>& names, WallTime now);
  // A new key, while the one before it is good until then: the file that holds it.
  // Errors: kNotFound where it has none.
  Result<std::string> RotateAgent(const std::string& name, WallTime old_until, WallTime now);
  // Errors: kNotFound where the agent has no good key.
  Result<void> RevokeAgent(const std::string& name, WallTime now);

  // First a next key, which agents are to learn (controller.pub); when all have, it becomes the
  // controller's. Errors: kFailedPrecondition where that was done, or was not done before.
  Result<void> PrepareController(WallTime now);
  Result<void> FinishController();

  // The token, which is nowhere else. Errors: kAlreadyExists for a name that has one.
  Result<std::string> MakeToken(const std::string& name, Role role, std::optional<WallTime> until,
                                WallTime now);
  // Errors: kNotFound.
  Result<void> RevokeToken(const std::string& name);

  std::string PathOf(const std::string& file) const { return path_ + "/" + file; }

 private:
  KeyFolder(std::string path, UniqueFd lock) : path_(std::move(path)), lock_(std::move(lock)) {}
  Result<std::string> AddAgentKey(const std::string& name, KeyRing& ring, WallTime now);
  Result<void> StoreRing(KeyRing ring);
  Result<void> StoreTokens(AccessTokens tokens);

  std::string path_;
  UniqueFd lock_;
  KeyRing ring_;
  AccessTokens tokens_;
};

}  // namespace espalier::identity
