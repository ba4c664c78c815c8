#pragma once

#include <sys/types.h>

#include <cstddef>
#include <map>

namespace espalier {

// Counts how much of a limited resource (connections, flows) each user of a host has taken: at most
// `most` in total and `max_per_user` per user, so that no user can exclude the others. Users are
// identified by the kernel (SO_PEERCRED).
// Thread safety: one thread. Complexity: O(log users that hold something).
class UserBudget {
 public:
  UserBudget(std::size_t most, std::size_t max_per_user)
      : most_(most), most_of_user_(max_per_user) {}

  // Takes one for the user. Returns false and changes nothing if a limit is reached.
  bool Take(uid_t user) {
    if (used_ >= most_ || !HasRoomFor(user)) return false;
    ++used_;
    ++by_user_[user];
    return true;
  }
  // Returns one that the user has taken.
  void Give(uid_t user) {
    const auto found = by_user_.find(user);
    if (found == by_user_.end()) return;
    --used_;
    if (--found->second == 0) by_user_.erase(found);
  }

  // True while the user is below its own limit.
  bool HasRoomFor(uid_t user) const { return UsedBy(user) < most_of_user_; }
  std::size_t used() const { return used_; }
  std::size_t UsedBy(uid_t user) const {
    const auto found = by_user_.find(user);
    return found == by_user_.end() ? 0 : found->second;
  }

 private:
  const std::size_t most_;
  const std::size_t most_of_user_;
  std::size_t used_ = 0;
  std::map<uid_t, std::size_t> by_user_;
};

}  // namespace espalier
