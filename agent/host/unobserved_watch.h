#pragma once

#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "agent/flows/flow_source.h"
#include "agent/host/queue_pair_list.h"
#include "common/base/event_loop.h"
#include "common/base/ip_address.h"
#include "common/base/metrics.h"
#include "common/verbs/roce_address.h"

namespace espalier::agent {

using DevicesByAddress = std::map<IpAddress, std::string>;

// Connections that are no flows: their traffic is neither seen nor steered (DEVX, programs without
// the shim). Flows whose own queue pair is not known count for any that has their peer's number,
// those from an unknown address for any device.
std::vector<KernelQueuePair> FindUnobserved(std::span<const KernelQueuePair> pairs,
                                            std::span<const FlowSample> flows,
                                            const DevicesByAddress& devices);

// Which device each address of this host is of. To find out opens all devices, so an address that
// is not among them, which any program may announce, makes it do so ever more seldom: after 5 s at
// first, after 5 min in the end.
// Thread safety: none.
class DeviceTable {
 public:
  using List = std::function<std::vector<verbs::RoceAddress>()>;

  explicit DeviceTable(List list) : list_(std::move(list)) {}
  // Found anew where a flow is from another address, and it is time.
  const DevicesByAddress& Find(std::span<const FlowSample> flows, TimePoint now);

 private:
  bool KnowsAll(std::span<const FlowSample> flows) const;

  const List list_;
  DevicesByAddress devices_;
  Duration wait_{};
  TimePoint next_{};
};

// Looks at the kernel's queue pairs every few seconds. Those that are unobserved twice in a row are
// counted (espalier_agent_unobserved_queue_pairs) and logged once each. Does nothing where there is
// no RDMA. Thread safety: the agent's loop thread; the references must outlive it.
class UnobservedWatch {
 public:
  UnobservedWatch(EventLoop& loop, FlowSource& flows, Metrics& metrics);

 private:
  using Key = std::pair<std::string, std::uint32_t>;  // device and number

  void Look();

  EventLoop& loop_;
  FlowSource& flows_;
  Gauge& count_;
  DeviceTable devices_{&verbs::ListRoceAddresses};
  Duration wait_{};      // until the next look
  std::set<Key> seen_;   // at the last look
  std::set<Key> known_;  // logged, and still there
  TimerPtr timer_;
};

}  // namespace espalier::agent
