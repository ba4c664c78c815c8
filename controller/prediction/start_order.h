#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/base/time/event_loop.h"

namespace espalier::controller {

// Tells whether some members of a set always start after all others.
//
// Flows that seem to start together the first time may belong to two phases, if the word of them
// came late. How late it comes differs each time, so flows of one phase start in another order each
// time. Flows of two phases do not: all of the earlier one start first, every time.
//
// The members are parted where the usual times of their starts lie furthest apart, by
// `least_apart` or more, and the next kStartsInOrder starts must agree. Only the first kStartsSeen
// starts are looked at, as sets are wrong from the beginning or not at all. A job that goes on to
// other phases later is not followed here.
//
// Complexity: Take O(1); EndStart O(members x log members), O(1) while starts are to confirm how
// members are parted. Memory: 16 bytes for each member. Both are nothing after kStartsSeen. Thread
// safety: one thread.
class StartOrder {
 public:
  static constexpr std::uint32_t kStartsInOrder = 3;
  static constexpr std::uint32_t kStartsSeen = 8;

  explicit StartOrder(Duration least_apart) : least_apart_(least_apart) {}

  // The member with this index starts, so long after the first one.
  void Take(std::uint32_t member, Duration after);
  // The start is over: every member that takes part has started.
  void EndStart();
  // Members will have other indices, so nothing is looked at any more.
  void Stop();

  // Whether the members are parted, and that has been seen often enough.
  bool AreParted() const { return in_order_ >= kStartsInOrder; }
  // Of the members if they are parted: whether it is one of those that start later, and how long
  // after the start it usually does.
  bool IsLater(std::size_t member) const {
    return member < members_.size() && members_[member].is_later;
  }
  Duration UsualTimeOf(std::size_t member) const {
    return member < members_.size() ? members_[member].after : Duration{};
  }

 private:
  struct Member {
    Duration after{};  // mean, mostly of the latest starts
    bool has_started = false;
    bool is_later = false;
  };

  bool IsOver() const { return starts_ >= kStartsSeen; }
  void Part();

  Duration least_apart_;
  std::vector<Member> members_;
  std::uint32_t starts_ = 0;
  bool are_candidates_ = false;  // members are parted, and starts are to confirm it
  std::uint32_t in_order_ = 0;   // starts that have, in a row
  // Of the present start.
  bool has_earlier_ = false;
  bool has_later_ = false;
  bool is_in_order_ = true;
};

}  // namespace espalier::controller
