#pragma once

#include <sys/types.h>

#include <cstddef>
#include <map>

namespace espalier {

// What the users of a host have taken of something of which there is only so much (connections,
// flows): at most `most` in all, and `max_per_user` by one of them, so that no user can keep the
// others out. Users are who the kernel says they are (SO_PEERCRED).
// Thread safety: one thread. Complexity: O(log users that have something).
class UserBudget {
 public:
  UserBudget(std::size_t most, std::size_t max_per_user)
      : most_(most), most_of_user_(max_per_user) {}

  // One more for that user; false, and nothing is changed, where a limit is reached.
  bool Take(uid_t user) {
    if (used_ >= most_ || !HasRoomFor(user)) return false;
    ++used_;
    ++by_user_[user];
    return true;
  }
  // Of one that was taken.
  void Give(uid_t user) {
    const auto found = by_user_.find(user);
    if (found == by_user_.end()) return;
    --used_;
    if (--found->second == 0) by_user_.erase(found);
  }

  // Whether it is not this user's own limit that is in the way.
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
