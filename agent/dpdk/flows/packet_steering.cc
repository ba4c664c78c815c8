#include "agent/dpdk/flows/packet_steering.h"

#include <algorithm>
#include <utility>

#include "agent/dpdk/flows/header_prediction.h"

// Problem: give each packet its flow's source port at line rate, and count what the path guard
// needs: bytes, retransmissions, acknowledgements, round trips. With many flows, waiting for a
// cache miss in each packet would cost more than everything else.
// Idea: three stages for each frame. Locate finds the headers and the bucket of the index; LookUp
// finds the line of the flow that probably owns the packet; Steer compares the predicted header,
// counts, stores the port, and corrects the ICRC by one exclusive-or. Each stage prefetches for the
// next one. Frames without a predicted header take SteerAny, which parses and compares everything,
// learns the prediction, and reports new flows.
// Invariant: a packet is changed only if it is a valid RoCEv2 packet of a flow in the table; both
// paths give the same bytes and counts. Bytes count once: a PSN behind the expected one is a
// retransmission, and one far away is another queue pair with the same number. The round trip is
// measured for one packet at a time and never for a retransmitted one (Karn's algorithm).
// Cost: O(1) for each frame; comparing a predicted header takes some 15 instructions.

namespace espalier::dpdk {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;
constexpr std::uint32_t kHalfOfPsns = 1U << 23;
// Further back than any retransmission, and further ahead than one READ request can advance.
constexpr std::uint32_t kFarBack = 1U << 16;
constexpr std::uint32_t kFarAhead = 1U << 22;

// Adds without a locked instruction, as there is one writer.
template <typename T>
void Add(std::atomic<T>& number, T amount) {
  number.store(static_cast<T>(number.load(kRelaxed) + amount), kRelaxed);
}

Role RoleOf(const RocePacket& packet) { return kRoles[packet.opcode()]; }

bool IsConnected(const RocePacket& packet) { return RoleOf(packet) != Role::kOther; }

// False for the numbers reserved for management and multicast.
bool IsOrdinaryQueuePair(const RocePacket& packet) {
  const std::uint32_t qpn = packet.destination_qpn();
  return qpn > 1 && qpn != 0xFFFFFF;
}

// True for the first packet of a message of several packets.
bool Begins(const RocePacket& packet) {
  const Operation operation = packet.operation();
  return operation == kWriteFirst || operation == kSendFirst || operation == kReadResponseFirst;
}

// `second_line`: 0 if headers end in the first cache line.
[[gnu::always_inline]] inline void FetchHeaders(std::span<const Frame> frames,
                                                std::ptrdiff_t second_line) {
  for (const Frame& frame : frames) __builtin_prefetch(frame.data);
  if (second_line == 0) return;
  for (const Frame& frame : frames) __builtin_prefetch(frame.data + second_line);
}

// Handles a packet with the predicted header. Returns true if its port changes.
[[gnu::always_inline]] inline bool SteerExpected(FlowLine& line, std::uint8_t* udp,
                                                 std::uint16_t port) {
  const std::uint32_t udp_bytes = line.udp_bytes;
  line.next.store(QueuePairAndPsn(udp) + 1, kRelaxed);
  Add<std::uint32_t>(line.packets, 1);
  Add<std::uint64_t>(line.bytes, udp_bytes - kMinRoceUdp);
  const std::uint32_t difference = line.icrc_difference;
  if (difference == 0) return false;
  Store16(udp, port);
  Store32(udp + udp_bytes - 4, Load32(udp + udp_bytes - 4) ^ difference);
  return true;
}

}  // namespace

// The state of a frame between two stages.
struct PacketSteering::Staged {
  Candidate packet;
  union {
    std::uint64_t hash;  // before the look-up
    FlowLine* line;      // after it; the first one if it is in no flow
  };
};

// The state that all frames of a burst share, and the three stages of a frame; inlined so that
// everything is in registers.
struct PacketSteering::Burst {
  const DatapathFlowTable::View& view;
  const std::uint32_t claim;
  const std::uint32_t now_us;
  const FlowIndex::Reader flows = view.snapshot->flows.reader();
  FlowLine* const lines = view.lines;
  bool any_v6 = false;
  std::uint64_t foreign = 0;
  std::uint64_t rewritten = 0;

  // Finds the packet, and where its flow is looked up.
  [[gnu::always_inline]] void Locate(const Frame& frame, Staged& staged) {
    const Candidate packet = FindCandidate(frame.data, frame.bytes);
    staged.packet.udp = packet.udp;
    staged.packet.end = packet.end;
    staged.packet.is_v4 = packet.is_v4;
    any_v6 |= !packet.is_v4;
    staged.hash = packet.udp == nullptr ? 0 : HashOf(packet);
    flows.Prefetch(staged.hash);
    __builtin_prefetch(packet.end - 4, 1);
  }
  [[gnu::always_inline]] void LookUp(Staged& staged) const {
    staged.line = lines + flows.Guess(staged.hash);
    __builtin_prefetch(staged.line, 1);
  }
  [[gnu::always_inline]] void Steer(PacketSteering& steering, const Frame& frame,
                                    const Staged& staged) {
    FlowLine& line = *staged.line;
    const std::uint16_t port = line.port.load(kRelaxed);
    const bool is_expected =
        staged.packet.udp != nullptr && IsExpected(line, staged.packet, claim, port);
    if (!is_expected) [[unlikely]] {
      const Outcome outcome = steering.SteerUnexpected(view, frame, staged, now_us);
      foreign += outcome == Outcome::kForeign ? 1 : 0;
      rewritten += outcome == Outcome::kRewritten ? 1 : 0;
      return;
    }
    if (SteerExpected(line, staged.packet.udp, port)) ++rewritten;
  }
};

void PacketSteering::Outgoing(std::span<const Frame> frames, std::uint32_t now_us) {
  const DatapathFlowTable::View view = table_.Begin();
  if (view.snapshot->flows.bytes() <= kCachedIndexBytes) {
    SteerByStages(view, frames, now_us);
  } else {
    SteerInterleaved(view, frames, now_us);
  }
  table_.Finish(core_);
}

void PacketSteering::SteerByStages(const DatapathFlowTable::View& view,
                                   std::span<const Frame> frames, std::uint32_t now_us) {
  Burst burst{.view = view, .claim = ClaimOf(core_), .now_us = now_us};
  Staged staged[kBatch];
  const std::size_t all = frames.size();
  while (!frames.empty()) {
    const std::span<const Frame> batch = frames.first(std::min(frames.size(), kBatch));
    frames = frames.subspan(batch.size());
    Staged* end = staged;
    for (const Frame& frame : batch) burst.Locate(frame, *end++);
    for (Staged* one = staged; one != end; ++one) burst.LookUp(*one);
    const Staged* one = staged;
    for (const Frame& frame : batch) burst.Steer(*this, frame, *one++);
  }
  CountBurst(all, burst.foreign, burst.rewritten);
  second_line_ = burst.any_v6 ? 64 : 0;
}

void PacketSteering::SteerInterleaved(const DatapathFlowTable::View& view,
                                      std::span<const Frame> frames, std::uint32_t now_us) {
  Burst burst{.view = view, .claim = ClaimOf(core_), .now_us = now_us};
  Staged ring[kRing];
  const std::size_t count = frames.size();
  const std::ptrdiff_t second_line = second_line_;
  // Before the first frame, the subtraction wraps around to a huge number.
  for (std::size_t at = 0; at < count + 3 * kAhead; ++at) {
    const std::size_t located = at - kAhead;
    const std::size_t looked_up = at - 2 * kAhead;
    const std::size_t steered = at - 3 * kAhead;
    if (at < count) {
      __builtin_prefetch(frames[at].data);
      __builtin_prefetch(frames[at].data + second_line);
    }
    if (located < count) burst.Locate(frames[located], ring[located % kRing]);
    if (looked_up < count) burst.LookUp(ring[looked_up % kRing]);
    if (steered < count) burst.Steer(*this, frames[steered], ring[steered % kRing]);
  }
  CountBurst(count, burst.foreign, burst.rewritten);
  second_line_ = burst.any_v6 ? 64 : 0;
}

void PacketSteering::CountBurst(std::uint64_t frames, std::uint64_t foreign,
                                std::uint64_t rewritten) {
  Add<std::uint64_t>(counts_.frames, frames);
  Add<std::uint64_t>(counts_.roce, frames - foreign);
  Add<std::uint64_t>(counts_.rewritten, rewritten);
}

PacketSteering::Outcome PacketSteering::SteerUnexpected(const DatapathFlowTable::View& view,
                                                        const Frame& frame, const Staged& staged,
                                                        std::uint32_t now_us) {
  FlowLine& line = *staged.line;
  const std::uint16_t port = line.port.load(kRelaxed);
  if (staged.packet.udp == nullptr ||
      !ExpectAlike(line, staged.packet, ClaimOf(core_), port, patch_)) {
    return SteerAny(view, frame, now_us);
  }
  const bool is_rewritten = SteerExpected(line, staged.packet.udp, port);
  return is_rewritten ? Outcome::kRewritten : Outcome::kAsItWas;
}

// The slow path, for any frame.
PacketSteering::Outcome PacketSteering::SteerAny(const DatapathFlowTable::View& view,
                                                 const Frame& frame, std::uint32_t now_us) {
  const RocePacket packet = ParseRoce(frame.data, frame.bytes);
  if (!packet) return Outcome::kForeign;
  const auto is_it = [&](std::uint32_t slot) {
    return Matches(view.details[slot + 1].key, packet);
  };
  const auto slot = view.snapshot->flows.Find(HashOf(packet), is_it);
  if (!slot) {
    HandleUnknown(view, packet);
    return Outcome::kAsItWas;
  }
  if (packet.opcode() == kSendOnly && packet.IsProbe()) return Outcome::kAsItWas;
  FlowLine& line = view.lines[*slot + 1];
  const std::uint16_t port = line.port.load(kRelaxed);
  if (Count(line, view.details[*slot + 1], packet, now_us)) {
    Expect(line, packet, ClaimOf(core_), port, patch_);
  }
  const bool is_rewritten = port != 0 && RewriteSourcePort(packet, port, patch_);
  return is_rewritten ? Outcome::kRewritten : Outcome::kAsItWas;
}

// Counts the packet. Returns true if it carries the flow's bytes and is no retransmission.
bool PacketSteering::Count(FlowLine& line, FlowDetails& details, const RocePacket& packet,
                           std::uint32_t now_us) {
  Add<std::uint32_t>(line.packets, 1);
  const std::uint32_t watch = details.watch.load(kRelaxed);
  const std::uint32_t kind = watch >> FlowDetails::kKindShift;
  if (kind == static_cast<std::uint32_t>(FlowKind::kAnswers)) {
    if (Begins(packet)) TellNewFlow(packet);
    return false;
  }
  if (kind != static_cast<std::uint32_t>(RoleOf(packet))) return false;
  const std::uint32_t psn = packet.psn();
  const bool is_next =
      psn == line.next_psn() && Load16(packet.udp) == details.own_port.load(kRelaxed);
  if (!is_next && !CountOutOfTurn(line, details, packet)) return false;
  line.next.store(std::uint64_t{packet.destination_qpn()} << 32 | ((psn + 1) & kPsnMask), kRelaxed);
  Add<std::uint64_t>(line.bytes, packet.payload_and_extended_headers());
  if (packet.asks_for_acknowledgement() && (watch & FlowDetails::kWatching) == 0) {
    details.watched_at_us.store(now_us, kRelaxed);
    details.watch.store((watch & FlowDetails::kKind) | FlowDetails::kWatching | psn, kRelaxed);
  }
  return true;
}

// Handles a packet with an unexpected PSN or port. Returns true if packets before it were missed,
// as by a READ request, which advances the PSN by its responses. Returns false if it is a
// retransmission, or if another queue pair has the number.
bool PacketSteering::CountOutOfTurn(FlowLine& line, FlowDetails& details,
                                    const RocePacket& packet) {
  const std::uint32_t kind = details.watch.load(kRelaxed) & FlowDetails::kKind;
  const std::uint32_t ahead = (packet.psn() - line.next_psn()) & kPsnMask;
  const bool jumped = ahead < kHalfOfPsns ? ahead > kFarAhead : kPsnMask + 1 - ahead > kFarBack;
  if (jumped || details.own_port.load(kRelaxed) != Load16(packet.udp)) {
    Tell({.kind = FlowEvent::Kind::kRestarted,
          .flow_kind = static_cast<FlowKind>(kind >> FlowDetails::kKindShift),
          .own_port = packet.source_port(),
          .key = details.key,
          .psn = packet.psn(),
          .message_bytes = packet.DmaBytes().value_or(0),
          .vlan_tags = packet.vlan_tags});
    return false;
  }
  if (ahead < kHalfOfPsns) return true;
  Add<std::uint32_t>(details.retries, 1);
  // It would be unclear which transmission is acknowledged (Karn's algorithm).
  details.watch.store(kind, kRelaxed);
  return false;
}

void PacketSteering::HandleUnknown(const DatapathFlowTable::View& view, const RocePacket& packet) {
  if (!IsConnected(packet) || !IsOrdinaryQueuePair(packet)) return;
  const bool asks_for_data = packet.operation() == kReadRequest;
  if (RoleOf(packet) == Role::kAcknowledgement || asks_for_data) return HandleAnswer(view, packet);
  if (Begins(packet)) TellNewFlow(packet);
}

void PacketSteering::TellNewFlow(const RocePacket& packet) {
  FlowEvent event{.kind = FlowEvent::Kind::kNewFlow,
                  .own_port = packet.source_port(),
                  .key = KeyOf(packet),
                  .psn = packet.psn(),
                  .message_bytes = packet.DmaBytes().value_or(0),
                  .vlan_tags = packet.vlan_tags};
  if (packet.operation() == kReadResponseFirst) {
    event.flow_kind = FlowKind::kResponses;
    FlowKey hosts = event.key;
    hosts.number &= 0xFF;
    const PendingRead& read = ReadAt(hosts, event.psn);
    if (read.psn == event.psn && read.requester == hosts) {
      event.message_bytes = read.bytes;
      event.local_qpn = read.qpn;
    }
  }
  Tell(event);
}

void PacketSteering::RenewReports(const DatapathFlowTable::View& view) {
  if (look_ == view.look) return;
  look_ = view.look;
  arrivals_left_ = answers_left_ = kReportedStreams;
}

void PacketSteering::HandleAnswer(const DatapathFlowTable::View& view, const RocePacket& packet) {
  if (!view.LooksAtAll()) return;
  const auto is_it = [&](std::uint32_t slot) { return Matches(view.matches[slot].key, packet); };
  const auto match = view.snapshot->streams.matches.Find(HashOf(packet), is_it);
  const FlowKind answered =
      packet.operation() == kReadRequest ? FlowKind::kResponses : FlowKind::kRequests;
  if (match) return view.matches[*match].Compare(packet.psn(), answered);
  RenewReports(view);
  if (answers_left_ == 0) return;
  --answers_left_;
  Tell({.kind = FlowEvent::Kind::kAnswer,
        .flow_kind = answered,
        .own_port = packet.source_port(),
        .key = KeyOf(packet),
        .psn = packet.psn(),
        .vlan_tags = packet.vlan_tags});
}

void PacketSteering::HandleArrival(const DatapathFlowTable::View& view, const RocePacket& packet) {
  const auto is_it = [&](std::uint32_t slot) { return Matches(view.arrivals[slot].key, packet); };
  const auto known = view.snapshot->streams.arrivals.Find(HashOf(packet), is_it);
  const auto kind = static_cast<FlowKind>(RoleOf(packet));
  if (known) {
    ArrivalLine& line = view.arrivals[*known];
    if (line.kind == kind) line.Advance(packet.psn(), packet.payload_and_extended_headers());
    if (!view.LooksAtAll()) --arrivals_left_;
    return;
  }
  if (arrivals_left_ == 0 || !Begins(packet)) return;
  --arrivals_left_;
  Tell({.kind = FlowEvent::Kind::kArrival,
        .flow_kind = kind,
        .key = KeyOf(packet),
        .psn = packet.psn()});
}

void PacketSteering::Incoming(std::span<const Frame> frames, std::uint32_t now_us) {
  const DatapathFlowTable::View view = table_.Begin();
  may_report_unmatched_ack_ = view.reports_unmatched_acks;
  RenewReports(view);
  FetchHeaders(frames, second_line_);
  for (const Frame& frame : frames) {
    Add<std::uint64_t>(counts_.frames, 1);
    const RocePacket packet = ParseRoce(frame.data, frame.bytes);
    if (!packet) continue;
    Add<std::uint64_t>(counts_.roce, 1);
    if (!IsConnected(packet) || !IsOrdinaryQueuePair(packet)) continue;
    if (RoleOf(packet) == Role::kAcknowledgement) {
      HandleAcknowledgement(view, packet, now_us);
    } else if (packet.operation() == kReadRequest) {
      const FlowKey hosts = KeyOf(packet).Reversed(0);
      ReadAt(hosts, packet.psn()) = {hosts, packet.psn(), packet.DmaBytes().value_or(0),
                                     packet.destination_qpn()};
    } else if (view.LooksAtAll() || (arrivals_left_ > 0 && Begins(packet))) {
      HandleArrival(view, packet);
    }
  }
  table_.Finish(core_);
}

void PacketSteering::HandleAcknowledgement(const DatapathFlowTable::View& view,
                                           const RocePacket& packet, std::uint32_t now_us) {
  const auto is_it = [&](std::uint32_t slot) {
    return Matches(view.acknowledgements[slot].key, packet);
  };
  const auto slot = view.snapshot->acknowledgements.Find(HashOf(packet), is_it);
  const std::uint32_t psn = packet.psn();
  if (!slot) {
    const auto is_match = [&](std::uint32_t at) { return Matches(view.matches[at].key, packet); };
    const auto match = view.snapshot->streams.matches.Find(HashOf(packet), is_match);
    if (match) return view.matches[*match].Compare(psn, FlowKind::kRequests);
    if (!std::exchange(may_report_unmatched_ack_, false)) return;
    return Tell({.kind = FlowEvent::Kind::kAcknowledgement, .key = KeyOf(packet), .psn = psn});
  }
  FlowDetails& details = view.details[*slot + 1];
  // A sequence NAK acknowledges everything before its PSN; an old acknowledgement nothing new.
  const std::uint32_t next = packet.IsSequenceNak() ? psn : (psn + 1) & kPsnMask;
  const std::uint32_t gained = (next - details.next_acknowledged_psn.load(kRelaxed)) & kPsnMask;
  if (gained < kHalfOfPsns) details.next_acknowledged_psn.store(next, kRelaxed);
  const std::uint32_t watch = details.watch.load(kRelaxed);
  if ((watch & FlowDetails::kWatching) == 0) return;
  if (((next - 1 - (watch & kPsnMask)) & kPsnMask) >= kHalfOfPsns) return;
  details.watch.store(watch & FlowDetails::kKind, kRelaxed);
  const std::uint32_t sample =
      std::max<std::uint32_t>(1, now_us - details.watched_at_us.load(kRelaxed));
  const std::uint32_t smoothed = details.rtt_us.load(kRelaxed);
  details.rtt_us.store(smoothed == 0 ? sample : smoothed - smoothed / 8 + sample / 8, kRelaxed);
}

PacketSteering::PendingRead& PacketSteering::ReadAt(const FlowKey& key, std::uint32_t psn) {
  return reads_[((HashOf(key) ^ psn) * kHashFactor >> 32) % kPendingReads];
}

void PacketSteering::Tell(const FlowEvent& event) {
  if (!events_.Push(event)) Add<std::uint64_t>(counts_.lost_events, 1);
}

}  // namespace espalier::dpdk
