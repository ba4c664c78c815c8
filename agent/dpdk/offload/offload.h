#pragma once

#include <cstdint>
#include <optional>

#include "agent/dpdk/flows/datapath_flow_table.h"
#include "agent/dpdk/offload/device_rules.h"
#include "common/base/metrics.h"
#include "common/base/time/event_loop.h"

namespace espalier::dpdk {

// Decides which flows a device rewrites itself and which the cores rewrite.
//
// A device that changes a port without correcting the invariant CRC makes packets that receivers
// drop silently. Devices do not report whether they correct it (rte_flow cannot express it). So the
// operator configures it, and Offload verifies it: only flows with known acknowledgements get a
// rule, at first one flow at a time. An acknowledgement of a packet that no core has seen proves
// that the receiver accepts rewritten packets. If the device counts packets and none is
// acknowledged for kStall, the flow returns to the cores until it has another port. After kStrikes
// such flows in a row without any proof, the device gets no more rules.
//
// The rule for a new port is made on the other level before the old rule is removed. Flows whose
// rules the device refuses stay with the cores, which steer every packet that they see.
// Thread safety: one thread, the control thread of the table.
class Offload {
 public:
  // Much longer than a round trip, much shorter than the time after which a queue pair fails.
  static constexpr Duration kStall = std::chrono::milliseconds(100);
  static constexpr Duration kReadInterval = std::chrono::milliseconds(10);
  // Time without new rules after the device had no room.
  static constexpr Duration kRest = std::chrono::seconds(1);
  static constexpr int kStrikes = 3;

  // The state of a flow; the caller sets the first four members.
  struct Flow {
    std::uint32_t slot = 0;
    std::uint16_t own_port = 0;
    std::uint8_t vlan_tags = 0;
    FlowKind kind = FlowKind::kRequests;

    std::optional<RuleId> id;  // none: the cores rewrite it
    DeviceRule rule{};         // in force
    unsigned generation = 0;
    std::uint16_t core_port = 0;  // with this port it stays with the cores
    bool is_proven = false;
    DeviceCounts ended{};   // of removed rules
    DeviceCounts counts{};  // of the rule in force
    std::uint32_t acknowledged_psn = 0;
    std::uint64_t acknowledged = 0;          // packets acknowledged under this rule
    std::uint64_t packets_at_progress = 0;   // counts.packets at the last acknowledgement
    std::optional<TimePoint> waits_since{};  // time without an acknowledgement
    TimePoint next_read{};
  };

  // `device` null: there is none.
  Offload(DeviceRules* device, DatapathFlowTable& table, Metrics& metrics);

  // Updates the flow's rule to its port in the table. To be called often.
  void Update(Flow& flow, TimePoint now);
  // Removes the flow's rule. To be called before the table removes the flow.
  void Remove(Flow& flow);
  // Returns the counts of the cores plus those of the device.
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
  unsigned generation_ = 0;  // of rules; grows when all rules are removed
  bool refuses_[2] = {};     // the device refuses rules for IPv4, IPv6
  TimePoint pauses_until_{};
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
