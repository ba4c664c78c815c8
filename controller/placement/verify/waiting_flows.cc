#include "controller/placement/verify/waiting_flows.h"

#include <utility>

namespace espalier::controller {

void WaitingFlows::Look(const FlowTable& flows, TimePoint now) {
  late_ = 0;
  first_late_.reset();
  std::map<FlowSlot, Waiting> before = std::exchange(since_, {});
  for (const FlowSlot slot : flows.All()) {
    const Flow& flow = flows.At(slot);
    const bool waits = flow.status == FlowStatus::kNew || flow.status == FlowStatus::kAdopting ||
                       flow.status == FlowStatus::kLearning;
    if (!waits) continue;
    const auto found = before.find(slot);
    const bool is_same = found != before.end() && found->second.agent == flow.agent &&
                         found->second.local == flow.local;
    const TimePoint since = is_same ? found->second.since : now;
    since_.emplace(slot, Waiting{flow.agent, flow.local, since});
    if (now - since < kPatience) continue;
    ++late_;
    if (!first_late_) first_late_ = slot;
  }
}

}  // namespace espalier::controller
