#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "controller/history/records.h"

namespace espalier::controller {

// Of all flows that it is offered, the `most` slowest: those that an operator looks for when a job
// is slow. Of flows that are equally slow the ones that were offered first.
// Memory: `most` records. Cost of Offer: O(most) for a flow that is among them, else O(1).
// Thread safety: one thread.
class SlowestFlows {
 public:
  explicit SlowestFlows(std::size_t most) : most_(most) {}

  // Whether a flow of this rate would be among them.
  bool Takes(float bps) const { return flows_.size() < most_ || bps < LargestRate(); }
  void Offer(const FlowRecord& flow);
  // The slowest first; valid until the next call of Offer or Clear.
  std::span<const FlowRecord> flows() const { return flows_; }
  void Clear() { flows_.clear(); }

 private:
  float LargestRate() const { return flows_.empty() ? 0 : flows_.back().bps; }

  std::size_t most_;
  std::vector<FlowRecord> flows_;  // by rate
};

}  // namespace espalier::controller
