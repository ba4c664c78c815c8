#include "controller/history/slowest_flows.h"

#include <algorithm>

namespace espalier::controller {

void SlowestFlows::Offer(const FlowRecord& flow) {
  if (!Takes(flow.bps)) return;
  if (flows_.size() == most_) flows_.pop_back();
  const auto place = std::ranges::upper_bound(flows_, flow.bps, {}, &FlowRecord::bps);
  flows_.insert(place, flow);
}

}  // namespace espalier::controller
