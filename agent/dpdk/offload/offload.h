#pragma once

#include <cstdint>
#include <optional>

#include "agent/dpdk/flows/datapath_flow_table.h"
#include "agent/dpdk/offload/device_rules.h"
#include "common/base/event_loop.h"
#include "common/base/metrics.h"

namespace espalier::dpdk {

// Which flows a device rewrites by itself, and which the cores.
//
// A device that changes a port and leaves the invariant CRC as it was makes packets that receivers
// drop in silence. Nothing that a device says of itself tells (rte_flow has no word for it), so the
// operator does, and it is not believed before it is seen: only flows whose acknowledgements are
// known get a rule, at first one at a time. An acknowledgement of a packet that no core has seen
// proves that the receiver took what the device had rewritten. Where the device counts packets and
// none is acknowledged for kStall, the flow goes back to the cores until it has another port; after
// kStrikes such flows in a row, and none that was proven, the device gets no rules any more.
//
// A new port is made before the old one is broken: the rule for it lies on the other level. What a
// device refuses stays with the cores, which steer every packet that they see, rule or not.
// Thread safety: one thread, that of the table's control.
class Offload {
 public:
  // Much more than a round trip, much less than the tries after which a queue pair gives up.
  static constexpr Duration kStall = std::chrono::milliseconds(100);
  static constexpr Duration kReadInterval = std::chrono::milliseconds(10);
  // After the device had no room.
  static constexpr Duration kRest = std::chrono::seconds(1);
  static constexpr int kStrikes = 3;

  // What is kept of a flow; the first four are given.
  struct Flow {
    std::uint32_t slot = 0;
    std::uint16_t own_port = 0;
    std::uint8_t vlan_tags = 0;
    FlowKind kind = FlowKind::kRequests;

    std::optional<RuleId> id;  // none: it is with the cores
    DeviceRule rule{};         // in force
    unsigned generation = 0;
    std::uint16_t core_port = 0;  // for which it stays with the cores
    bool is_proven = false;
    DeviceCounts ended{};   // by rules that are no more
    DeviceCounts counts{};  // by this one
    std::uint32_t acknowledged_psn = 0;
    std::uint64_t acknowledged = 0;          // packets under this rule
    std::uint64_t packets_at_progress = 0;   // when packets were acknowledged last
    std::optional<TimePoint> waits_since{};  // for an acknowledgement
    TimePoint next_read{};
  };

  // `device`: null for none.
  Offload(DeviceRules* device, DatapathFlowTable& table, Metrics& metrics);

  // To be called often. Brings the flow's rule up to the port that the table has for it.
  void Update(Flow& flow, TimePoint now);
  // Before the table forgets the flow.
  void Remove(Flow& flow);
  // What cores have counted and what the device has.
  FlowCounts Total(const Flow& flow) const;

 private:
  enum class Trust : std::uint8_t { kUntried, kProven, kNone };

  bool IsFit(const Flow& flow) const;
  void Watch(Flow& flow, TimePoint now);
  void CountAcknowledgements(Flow& flow);
  void Stall(Flow& flow);
  void Put(Flow& flow, TimePoint now);
  void Refuse(Flow& flow, const Error& error, TimePoint now);
  void Withdraw(Flow& flow);
  void Forget(Flow& flow);
  void Destroy(RuleId id);
  void GiveUp(std::string_view why);
  std::uint32_t SeenByCores(const Flow& flow) const { return table_.next_psn(flow.slot); }

  DeviceRules* const device_;
  DatapathFlowTable& table_;
  Trust trust_ = Trust::kUntried;
  int strikes_ = 0;
  unsigned generation_ = 0;  // of rules; one more after all were flushed
  bool refuses_[2] = {};     // rules for IPv4, IPv6
  TimePoint rests_until_{};
  std::int64_t rules_ = 0;
  Gauge& offloaded_;
  Gauge& trusted_;
  Counter& created_;
  Counter& stalled_;
  Counter& unsupported_;
  Counter& no_room_;
  Counter& failed_;
};

}  // namespace espalier::dpdk
