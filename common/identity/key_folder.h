#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/result.h"
#include "common/base/time/wall_time.h"
#include "common/base/unique_fd.h"
#include "common/identity/access_tokens.h"
#include "common/identity/key_ring.h"

namespace espalier::identity {

// The controller's key folder, which `espalier keys` and `espalier token` change:
//   controller.key       the controller's key pair; controller.next.key: the next one
//   controller.pub       its public key (two keys during a rotation), for all agents
//   agents.pub           the agents' public keys and names
//   agents/NAME.key      an agent's key pair, to be moved to its host
//   tokens               names, roles and hashes of the HTTP tokens
// Every change is durable and atomic. Only one process at a time can change the folder.
class KeyFolder {
 public:
  // Opens the folder and creates it if it is missing. Errors: kUnavailable while another process
  // changes it; those of the system; those of the files in it.
  static Result<KeyFolder> Open(const std::string& path);

  const KeyRing& ring() const { return ring_; }
  const AccessTokens& tokens() const { return tokens_; }

  // Errors: kAlreadyExists if the controller has a key.
  Result<void> MakeController(WallTime now);
  // Makes the first keys of these agents and returns their files. If there is an error, it makes
  // none: kAlreadyExists if an agent has a valid key; kInvalidArgument for an invalid name.
  Result<std::vector<std::string>> MakeAgents(const std::vector<std::string>& names, WallTime now);
  // Makes a new key and returns its file; the old key stays valid until `old_until`.
  // Errors: kNotFound if the agent has no key.
  Result<std::string> RotateAgent(const std::string& name, WallTime old_until, WallTime now);
  // Errors: kNotFound if the agent has no valid key.
  Result<void> RevokeAgent(const std::string& name, WallTime now);

  // Rotate the controller's key in two steps. Prepare makes the next key, which agents must get
  // with controller.pub; once all have it, Finish puts it in force. Errors: kFailedPrecondition if
  // the rotation was already prepared, or was not prepared before Finish.
  Result<void> PrepareController(WallTime now);
  Result<void> FinishController();

  // Returns a new token, of which only the hash is stored. Errors: kAlreadyExists if the name has
  // one.
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
