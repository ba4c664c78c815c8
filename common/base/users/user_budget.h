#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>

namespace espalier {

// The number of a user who pays for what its processes use: its user id, or a number above all user
// ids for a group of ids that have no other common number (common/os/local_peer.h).
using BudgetOwner = std::uint64_t;

// Counts how much of a limited resource (connections, flows) each user of a host has taken: at most
// `most` in total and `max_per_user` per user. When everything is taken, the user with the most has
// to give way to those with less, so users cannot exclude others, however many act together: each
// of n users has at least most / n, or what it asks for.
// Thread safety: one thread. Complexity: O(log users that hold something), GivesWayTo O(users).
class UserBudget {
 public:
  UserBudget(std::size_t most, std::size_t max_per_user)
      : most_(most), most_of_user_(max_per_user) {}

  // Takes one for the user. Returns false and changes nothing if a limit is reached.
  bool Take(BudgetOwner user) {
    if (used_ >= most_ || !HasRoomFor(user)) return false;
    ++used_;
    ++by_user_[user];
    return true;
  }
  // Returns one that the user has taken.
  void Give(BudgetOwner user) {
    const auto found = by_user_.find(user);
    if (found == by_user_.end()) return;
    --used_;
    if (--found->second == 0) by_user_.erase(found);
  }

  // The user who has to return one before `user` can take one: the one with the most, if it then
  // still has at least as many as `user`. None if there is room, or if `user` must do without.
  std::optional<BudgetOwner> GivesWayTo(BudgetOwner user) const {
    if (used_ < most_ || !HasRoomFor(user)) return std::nullopt;
    const auto most =
        std::ranges::max_element(by_user_, {}, [](const auto& e) { return e.second; });
    if (most == by_user_.end() || most->second < UsedBy(user) + 2) return std::nullopt;
    return most->first;
  }

  // True while the user is below its own limit.
  bool HasRoomFor(BudgetOwner user) const { return UsedBy(user) < most_of_user_; }
  std::size_t used() const { return used_; }
  std::size_t UsedBy(BudgetOwner user) const {
    const auto found = by_user_.find(user);
    return found == by_user_.end() ? 0 : found->second;
  }

 private:
  std::size_t most_;
  std::size_t most_of_user_;
  std::size_t used_ = 0;
  std::map<BudgetOwner, std::size_t> by_user_;
};

}  // namespace espalier
