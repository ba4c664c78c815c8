#pragma once

#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "agent/flow_source.h"
#include "agent/verbs/queue_pair_list.h"
#include "common/base/event_loop.h"
#include "common/base/ip_address.h"
#include "common/base/metrics.h"

namespace espalier::agent {

using DevicesByAddress = std::map<IpAddress, std::string>;

// Connections that are no flows: their traffic is neither seen nor steered (DEVX, programs without
// the shim). Flows whose own queue pair is not known count for any that has their peer's number,
// those from an unknown address for any device.
std::vector<KernelQueuePair> FindUnobserved(std::span<const KernelQueuePair> pairs,
                                            std::span<const FlowSample> flows,
                                            const DevicesByAddress& devices);

// Looks at the kernel's queue pairs every few seconds. Those that are unobserved twice in a row are
// counted (espalier_agent_unobserved_queue_pairs) and logged once each. Does nothing where there is
// no RDMA. Thread safety: the agent's loop thread; the references must outlive it.
class UnobservedWatch {
 public:
  UnobservedWatch(EventLoop& loop, FlowSource& flows, Metrics& metrics);

 private:
  using Key = std::pair<std::string, std::uint32_t>;  // device and number

  void Look();
  // Found anew where a flow is from another.
  const DevicesByAddress& DevicesOf(std::span<const FlowSample> flows);

  EventLoop& loop_;
  FlowSource& flows_;
  Gauge& count_;
  DevicesByAddress devices_;
  std::set<Key> seen_;   // at the last look
  std::set<Key> known_;  // logged, and still there
  TimerPtr timer_;
};

}  // namespace espalier::agent
