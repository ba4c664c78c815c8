#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "common/base/time/event_loop.h"
#include "common/fabric/topology.h"
#include "controller/link_tests/trains/train_outcome.h"

namespace espalier::controller {

// The outcomes of the trains of the last two minutes, by the links that they crossed, those of NICs
// included.
// Memory: O(trains in kMemory x links of a path), about 100 bytes a train. Thread safety: none.
class LossEvidence {
 public:
  static constexpr Duration kMemory = std::chrono::minutes(2);
  // More trains than this are forgotten early, the oldest first.
  static constexpr std::size_t kMostTrains = std::size_t{1} << 20U;

  explicit LossEvidence(std::size_t links) : by_link_(2 * links), doubtful_(2 * links) {}

  // The times of outcomes may be out of order by seconds.
  void Add(const TrainOutcome& outcome);
  void Expire(TimePoint now);
  // Forgets the trains from this port over any of these routes, as the port takes another path.
  // `uplink`: of their sender. O(its trains).
  void Forget(fabric::DirectedLink uplink, std::span<const std::uint32_t> routes,
              std::uint16_t port);

  // Calls visit(outcome) for each train over the link that was sent at `since` or later.
  template <typename Visit>
  void ForEach(fabric::DirectedLink link, TimePoint since, Visit visit) const {
    const std::deque<std::uint64_t>& ids = by_link_[link.Index()];
    for (auto id = ids.rbegin(); id != ids.rend() && *id >= first_; ++id) {
      const TrainOutcome& outcome = outcomes_[*id - first_];
      ++visits_;
      if (outcome.at + kDisorder < since) break;
      if (outcome.at >= since && !IsForgotten(outcome)) visit(outcome);
    }
  }
  // Links with at least one bad or silent train, ascending by index. O(links).
  std::vector<fabric::DirectedLink> Doubtful() const;
  std::size_t size() const { return outcomes_.size(); }
  std::size_t directions() const { return by_link_.size(); }  // of all links
  // How many trains ForEach has inspected in all: a measure of work that repeats in simulations.
  std::uint64_t visits() const { return visits_; }

 private:
  static constexpr Duration kDisorder = std::chrono::seconds(3);
  static bool IsForgotten(const TrainOutcome& outcome) { return outcome.sent == 0; }
  // Counts a train that is bad or silent, or no longer counts it.
  void CountDoubt(const TrainOutcome& outcome, bool is_new);

  std::deque<TrainOutcome> outcomes_;
  std::uint64_t first_ = 0;  // the id of the front
  // By DirectedLink::Index: the ids of its trains; the number of bad and silent ones.
  std::vector<std::deque<std::uint64_t>> by_link_;
  std::vector<std::uint32_t> doubtful_;
  mutable std::uint64_t visits_ = 0;
};

}  // namespace espalier::controller
