#include "agent/dpdk/offload/offload.h"

#include <utility>

#include "common/base/log.h"

namespace espalier::dpdk {
namespace {

constexpr std::uint32_t kHalfOfPsns = 1U << 23;

// Returns the bytes without payload of a frame with so many tags.
std::uint64_t HeaderBytes(const FlowKey& key, std::uint8_t vlan_tags) {
  return 14U + 4U * vlan_tags + (key.is_v4() ? 20U : 40U) + kMinRoceUdp;
}

}  // namespace

Offload::Offload(DeviceRules* device, DatapathFlowTable& table, Metrics& metrics)
    : device_(device),
      table_(table),
      offloaded_(metrics.MakeGauge("espalier_dpdk_offloaded_flows",
                                   "Flows whose packets the device rewrites")),
      trusted_(metrics.MakeGauge("espalier_dpdk_offload_trusted",
                                 "1: receivers have acknowledged packets that the device rewrote; "
                                 "0: not known yet; -1: they have not, and the device gets no more "
                                 "rules")),
      created_(
          metrics.MakeCounter("espalier_dpdk_offload_rules_total", "Rules created in the device")),
      stalled_(metrics.MakeCounter(
          "espalier_dpdk_offload_stalled_total",
          "Flows removed from the device because no packets were acknowledged")),
      unsupported_(metrics.MakeCounter("espalier_dpdk_offload_unsupported_total",
                                       "Rules refused because the device does not support them")),
      no_room_(metrics.MakeCounter("espalier_dpdk_offload_no_room_total",
                                   "Rules refused because the device has no room for more")),
      failed_(metrics.MakeCounter("espalier_dpdk_offload_failed_total",
                                  "Rules that the device refused for another reason, did not "
                                  "count or did not remove")) {}

void Offload::Update(Flow& flow, TimePoint now) {
  if (device_ == nullptr) return;
  if (flow.id && flow.generation != generation_) Forget(flow);
  if (flow.id) Watch(flow, now);
  if (!IsFit(flow)) return Withdraw(flow);
  if (flow.id && flow.rule.port == table_.port(flow.slot)) return;
  Put(flow, now);
}

bool Offload::IsFit(const Flow& flow) const {
  const std::uint16_t port = table_.port(flow.slot);
  return trust_ != Trust::kNone && port != 0 && port != flow.own_port && port != flow.core_port &&
         flow.kind == FlowKind::kRequests && flow.vlan_tags <= 1 &&
         table_.HasAcknowledgements(flow.slot) && !refuses_[table_.key(flow.slot).is_v4() ? 0 : 1];
}

// Complexity: the device is read once in kReadInterval.
void Offload::Watch(Flow& flow, TimePoint now) {
  if (now < flow.next_read) return;
  flow.next_read = now + kReadInterval;
  const std::optional<DeviceCounts> counts = device_->Read(*flow.id);
  if (!counts) {
    // Without counts, a device that loses packets would go unnoticed.
    failed_.Add();
    flow.core_port = flow.rule.port;
    return;
  }
  flow.counts = *counts;
  CountAcknowledgements(flow);
  const bool waits =
      flow.counts.packets > flow.packets_at_progress && flow.counts.packets > flow.acknowledged;
  if (!waits) {
    flow.waits_since.reset();
  } else if (!flow.waits_since) {
    flow.waits_since = now;
  } else if (now - *flow.waits_since >= kStall) {
    Stall(flow);
  }
}

void Offload::CountAcknowledgements(Flow& flow) {
  const std::uint32_t next = table_.acknowledged_psn(flow.slot);
  const std::uint32_t gained = (next - flow.acknowledged_psn) & kPsnMask;
  if (gained == 0 || gained >= kHalfOfPsns) return;
  flow.acknowledged_psn = next;
  // An acknowledgement of packets that cores have sent proves nothing about the device.
  const std::uint32_t unseen = (next - SeenByCores(flow)) & kPsnMask;
  if (!flow.is_proven && (unseen == 0 || unseen >= kHalfOfPsns)) return;
  flow.acknowledged += flow.is_proven ? gained : unseen;
  flow.packets_at_progress = flow.counts.packets;
  flow.waits_since.reset();
  flow.is_proven = true;
  strikes_ = 0;
  if (std::exchange(trust_, Trust::kProven) == Trust::kProven) return;
  trusted_.Set(1);
  Log(LogLevel::kInfo, "event=offload_proven qpn={} port={}", flow.rule.key.qpn(), flow.rule.port);
}

void Offload::Stall(Flow& flow) {
  stalled_.Add();
  flow.core_port = flow.rule.port;
  Log(LogLevel::kWarning, "event=offload_stalled qpn={} port={} packets={} proven={}",
      flow.rule.key.qpn(), flow.rule.port, flow.counts.packets, flow.is_proven);
  if (flow.is_proven || trust_ == Trust::kProven || ++strikes_ < kStrikes) return;
  GiveUp("receivers acknowledge no packets that the device rewrites");
}

void Offload::Put(Flow& flow, TimePoint now) {
  const bool waits_for_proof = !flow.id && trust_ == Trust::kUntried && rules_ > 0;
  if (waits_for_proof) return;
  if (now < pauses_until_) return Withdraw(flow);
  const DeviceRule rule{
      .key = table_.key(flow.slot),
      .own_port = flow.own_port,
      .port = table_.port(flow.slot),
      .vlan_tags = flow.vlan_tags,
      .level = flow.id && flow.rule.level == 1 ? std::uint8_t{0} : std::uint8_t{1}};
  const Result<RuleId> id = device_->Create(rule);
  if (!id) {
    Refuse(flow, id.error(), now);
    return Withdraw(flow);
  }
  created_.Add();
  const std::optional<RuleId> old = flow.id;
  if (old) {
    flow.counts = device_->Read(*old).value_or(flow.counts);
    CountAcknowledgements(flow);
    flow.ended.packets += flow.counts.packets;
    flow.ended.frame_bytes += flow.counts.frame_bytes;
  } else {
    offloaded_.Set(static_cast<double>(++rules_));
    flow.acknowledged_psn = table_.acknowledged_psn(flow.slot);
    flow.is_proven = false;
  }
  flow.id = *id;
  flow.rule = rule;
  flow.generation = generation_;
  flow.core_port = 0;
  flow.counts = {};
  flow.acknowledged = 0;
  flow.packets_at_progress = 0;
  flow.waits_since.reset();
  flow.next_read = now + kReadInterval;
  if (old) Destroy(*old);
}

void Offload::Refuse(Flow& flow, const Error& error, TimePoint now) {
  const FlowKey& key = table_.key(flow.slot);
  switch (error.code) {
    case ErrorCode::kUnsupported:
      unsupported_.Add();
      refuses_[key.is_v4() ? 0 : 1] = true;
      Log(LogLevel::kWarning, "event=offload_unsupported family={} what=\"{}\"",
          key.is_v4() ? "ipv4" : "ipv6", error.message);
      return;
    case ErrorCode::kResourceExhausted:
      no_room_.Add();
      pauses_until_ = now + kRest;
      return;
    default:
      failed_.Add();
      flow.core_port = table_.port(flow.slot);
      Log(LogLevel::kWarning, "event=offload_failed qpn={} what=\"{}\"", key.qpn(), error.message);
  }
}

// Returns the flow to the cores, if the device has it.
void Offload::Withdraw(Flow& flow) {
  if (!flow.id) return;
  if (flow.generation != generation_) return Forget(flow);
  flow.counts = device_->Read(*flow.id).value_or(flow.counts);
  const RuleId id = *flow.id;
  Forget(flow);
  Destroy(id);
}

void Offload::Forget(Flow& flow) {
  flow.ended.packets += flow.counts.packets;
  flow.ended.frame_bytes += flow.counts.frame_bytes;
  flow.counts = {};
  flow.id.reset();
  table_.ContinueFromAcknowledged(flow.slot);
  offloaded_.Set(static_cast<double>(--rules_));
}

void Offload::Destroy(RuleId id) {
  if (device_->Destroy(id)) return;
  failed_.Add();
  GiveUp("the device did not remove a rule");
}

void Offload::GiveUp(std::string_view why) {
  device_->Flush();
  ++generation_;
  trust_ = Trust::kNone;
  trusted_.Set(-1);
  Log(LogLevel::kError, "event=offload_ended flows_to_cores={} why=\"{}\"", rules_, why);
}

void Offload::Remove(Flow& flow) {
  if (device_ != nullptr) Withdraw(flow);
}

FlowCounts Offload::Total(const Flow& flow) const {
  FlowCounts total = table_.Read(flow.slot);
  const std::uint64_t packets = flow.ended.packets + flow.counts.packets;
  const std::uint64_t around = packets * HeaderBytes(table_.key(flow.slot), flow.vlan_tags);
  const std::uint64_t bytes = flow.ended.frame_bytes + flow.counts.frame_bytes;
  total.packets += static_cast<std::uint32_t>(packets);
  total.bytes += bytes > around ? bytes - around : 0;
  return total;
}

}  // namespace espalier::dpdk
