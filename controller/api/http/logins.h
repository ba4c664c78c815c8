#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "common/base/time/wall_time.h"

namespace espalier::controller {

// The logins of the page's users: which token each cookie stands for, and until when.
//
// Kept in a file, they survive a restart of the controller. The file has hashes only (SHA-256 of
// random values of 256 bits), from which neither a cookie nor a token can be computed; it is
// readable by its owner alone. A login counts only as long as its token does, so that who revokes a
// token ends its logins.
//
// Invariant: at most 1,024 logins, and 32 of one token; the oldest ends for a new one.
// Thread safety: the loop's thread.
class Logins {
 public:
  static constexpr std::size_t kMost = 1'024;
  // So that the logins of one token do not displace those of others.
  static constexpr std::size_t kMostOfToken = 32;

  // Takes the logins that the file has and that have not ended, and keeps them there from now on.
  // A file that cannot be read, or that others could have changed, counts as empty.
  void KeepIn(std::string file, WallTime now);
  // Writes the file if logins have changed since it was written. A failure is logged, and tried
  // again with the next call.
  void Save();
  // The same, but only if the last call was long ago: many logins do not keep the disk busy.
  void SaveIfDue(WallTime now);

  void Add(const std::string& cookie, const std::string& token_hash, WallTime until, WallTime now);
  void Remove(std::string_view cookie);
  // The hash of the token that a cookie stands for; none: it stands for none, or no longer.
  std::optional<std::string> Find(std::string_view cookie, WallTime now) const;

 private:
  struct Login {
    std::string token_hash;
    WallTime until;
  };

  void EndOldest(std::string_view token_hash);  // "": of any token

  std::unordered_map<std::string, Login> logins_;  // by the hash of the cookie
  std::string file_;                               // "": kept in memory only
  bool has_changed_ = false;
  WallTime saved_{};  // when SaveIfDue wrote last
};

}  // namespace espalier::controller
