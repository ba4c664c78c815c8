#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <vector>

#include "common/base/event_loop.h"
#include "common/fabric/topology.h"
#include "controller/link_tests/train_outcome.h"

namespace espalier::controller {

// The outcomes of the trains of the last two minutes, by the links that they crossed, those of NICs
// included.
// Memory: O(trains in kMemory x links of a path), about 100 bytes a train. Thread safety: none.
class LossEvidence {
 public:
  static constexpr Duration kMemory = std::chrono::minutes(2);
  // More trains than this are forgotten early, the oldest first.
  static constexpr std::size_t kMostTrains = std::size_t{1} << 20U;

  explicit LossEvidence(std::size_t links) : by_link_(2 * links) {}

  // The times of outcomes may be out of order by seconds.
  void Add(const TrainOutcome& outcome);
  void Expire(TimePoint now);
  // Forgets the trains of a route that were sent from this port, as it takes another path.
  void Forget(std::uint32_t route, std::uint16_t port);

  // Calls visit(outcome) for each train over the link that was sent at `since` or later.
  template <typename Visit>
  void ForEach(fabric::DirectedLink link, TimePoint since, Visit visit) const {
    const std::deque<std::uint64_t>& ids = by_link_[link.Index()];
    for (auto id = ids.rbegin(); id != ids.rend() && *id >= first_; ++id) {
      const TrainOutcome& outcome = outcomes_[*id - first_];
      if (outcome.at + kDisorder < since) break;
      if (outcome.at >= since && !IsForgotten(outcome)) visit(outcome);
    }
  }
  // Links with at least one bad or silent train since then, ascending by index. O(bad trains).
  std::vector<fabric::DirectedLink> Doubtful(TimePoint since) const;
  std::size_t size() const { return outcomes_.size(); }

 private:
  static constexpr Duration kDisorder = std::chrono::seconds(3);
  static bool IsForgotten(const TrainOutcome& outcome) { return outcome.sent == 0; }

  std::deque<TrainOutcome> outcomes_;
  std::uint64_t first_ = 0;                         // the id of the front
  std::deque<std::uint64_t> doubtful_;              // ids of bad and silent trains
  std::vector<std::deque<std::uint64_t>> by_link_;  // ids, by DirectedLink::Index
};

}  // namespace espalier::controller
