#include "agent/host/unobserved_watch.h"

#include <algorithm>
#include <chrono>
#include <tuple>

#include "common/base/log.h"

namespace espalier::agent {
namespace {

constexpr Duration kBetweenLooks = std::chrono::seconds(5);
constexpr Duration kMaxWait = std::chrono::minutes(5);

}  // namespace

std::vector<KernelQueuePair> FindUnobserved(std::span<const KernelQueuePair> pairs,
                                            std::span<const FlowSample> flows,
                                            const DevicesByAddress& devices) {
  // Device, peer's number and own number of each flow; "" and 0 for unknown ones.
  std::set<std::tuple<std::string, std::uint32_t, std::uint32_t>> observed;
  for (const FlowSample& flow : flows) {
    const auto device = devices.find(flow.source);
    observed.emplace(device == devices.end() ? "" : device->second, flow.remote_qpn,
                     flow.local_qpn);
  }
  std::vector<KernelQueuePair> unobserved;
  for (const KernelQueuePair& pair : pairs) {
    bool is_seen = false;
    for (const std::string& device : {pair.device, std::string()}) {
      is_seen |= observed.contains({device, pair.remote_number, pair.number}) ||
                 observed.contains({device, pair.remote_number, 0});
    }
    if (!is_seen) unobserved.push_back(pair);
  }
  return unobserved;
}

UnobservedWatch::UnobservedWatch(EventLoop& loop, FlowSource& flows, Metrics& metrics)
    : loop_(loop),
      flows_(flows),
      count_(metrics.MakeGauge("espalier_agent_unobserved_queue_pairs",
                               "RDMA connections of this host whose traffic the agent does not "
                               "observe")) {
  Look();
}

bool DeviceTable::KnowsAll(std::span<const FlowSample> flows) const {
  return std::all_of(flows.begin(), flows.end(), [&](const FlowSample& flow) {
    return flow.local_qpn == 0 || devices_.contains(flow.source);
  });
}

const DevicesByAddress& DeviceTable::Find(std::span<const FlowSample> flows, TimePoint now) {
  if (KnowsAll(flows) || now < next_) return devices_;
  devices_.clear();
  for (const verbs::RoceAddress& address : list_()) devices_[address.address] = address.device;
  wait_ = KnowsAll(flows) ? kBetweenLooks : std::clamp(2 * wait_, kBetweenLooks, kMaxWait);
  next_ = now + wait_;
  return devices_;
}

void UnobservedWatch::Look() {
  const auto pairs = ListQueuePairs();
  if (!pairs && pairs.error().code == ErrorCode::kUnsupported) return;
  // A kernel that does not answer blocks the loop, so it is asked at growing intervals.
  wait_ = pairs ? kBetweenLooks : std::clamp(2 * wait_, kBetweenLooks, kMaxWait);
  timer_ = loop_.After(wait_, [this] { Look(); });
  if (!pairs) return;
  std::set<Key> seen;
  std::set<Key> known;
  const std::span<const FlowSample> flows = flows_.Flows();
  for (const KernelQueuePair& pair :
       FindUnobserved(*pairs, flows, devices_.Find(flows, loop_.Now()))) {
    const Key key(pair.device, pair.number);
    seen.insert(key);
    if (!seen_.contains(key)) continue;
    known.insert(key);
    if (known_.contains(key)) continue;
    Log(LogLevel::kWarning,
        "event=unobserved_queue_pair device={} number={} peer={} pid={} owner={}", pair.device,
        pair.number, pair.remote_number, pair.process, pair.owner);
  }
  seen_ = std::move(seen);
  known_ = std::move(known);
  count_.Set(static_cast<double>(known_.size()));
}

}  // namespace espalier::agent
