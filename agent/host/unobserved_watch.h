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
#include "common/base/address/ip_address.h"
#include "common/base/metrics.h"
#include "common/base/time/event_loop.h"
#include "common/verbs/roce_address.h"

namespace espalier::agent {

using DevicesByAddress = std::map<IpAddress, std::string>;

// Returns the connected queue pairs that belong to no flow: their traffic is neither observed nor
// steered (DEVX, programs without the shim). A flow without a known local queue pair matches every
// queue pair with its peer's number; a flow from an unknown address matches on every device.
std::vector<KernelQueuePair> FindUnobserved(std::span<const KernelQueuePair> pairs,
                                            std::span<const FlowSample> flows,
                                            const DevicesByAddress& devices);

// Maps the addresses of this host to RDMA devices. Listing them opens all devices, and any program
// may announce a flow from an unknown address. Such addresses therefore cause a new list at growing
// intervals: 5 s at first, up to 5 min.
// Thread safety: none.
class DeviceTable {
 public:
  using List = std::function<std::vector<verbs::RoceAddress>()>;

  explicit DeviceTable(List list) : list_(std::move(list)) {}
  // Lists the devices again if a flow has an unknown address and the interval has passed.
  const DevicesByAddress& Find(std::span<const FlowSample> flows, TimePoint now);

 private:
  bool KnowsAll(std::span<const FlowSample> flows) const;

  const List list_;
  DevicesByAddress devices_;
  Duration wait_{};
  TimePoint next_{};
};

// Lists the kernel's queue pairs every few seconds. Queue pairs that are unobserved in two
// successive lists are counted (espalier_agent_unobserved_queue_pairs) and logged once each. Does
// nothing if the host has no RDMA. Thread safety: the agent's loop thread; the references must
// outlive it.
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
  std::set<Key> seen_;   // unobserved at the last look
  std::set<Key> known_;  // logged, and still unobserved
  TimerPtr timer_;
};

}  // namespace espalier::agent
