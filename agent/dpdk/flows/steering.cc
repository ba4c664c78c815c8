#include "agent/dpdk/flows/steering.h"

#include <algorithm>
#include <utility>

namespace espalier::dpdk {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;
constexpr std::uint32_t kHalfOfPsns = 1U << 23;
// Further back than anything is sent again, further ahead than one READ request counts.
constexpr std::uint32_t kFarBack = 1U << 16;
constexpr std::uint32_t kFarAhead = 1U << 22;

// By one writer: no locked instruction.
template <typename T>
void Add(std::atomic<T>& number, T amount) {
  number.store(static_cast<T>(number.load(kRelaxed) + amount), kRelaxed);
}

// What a packet is to a flow, by its opcode.
enum class Role : std::uint8_t {
  kRequest,          // of a connection: counts up its PSN
  kResponse,         // to READ requests: counts up theirs
  kAcknowledgement,  // of a connection
  kOther,            // datagrams, congestion notifications, what is not known
};

constexpr std::array<Role, 256> MakeRoles() {
  std::array<Role, 256> roles{};
  for (std::size_t opcode = 0; opcode < roles.size(); ++opcode) {
    const auto service = static_cast<Service>(opcode >> 5);
    const std::size_t operation = opcode & 0x1F;
    const bool is_connected = service == Service::kReliable || service == Service::kUnreliable ||
                              service == Service::kExtended;
    roles[opcode] = Role::kRequest;
    if (operation >= kReadResponseFirst && operation <= kReadResponseOnly) {
      roles[opcode] = Role::kResponse;
    }
    if (operation == kAcknowledge || operation == kAtomicAcknowledge) {
      roles[opcode] = Role::kAcknowledgement;
    }
    if (!is_connected) roles[opcode] = Role::kOther;
  }
  return roles;
}

constexpr std::array<Role, 256> kRoles = MakeRoles();

Role RoleOf(const RocePacket& packet) { return kRoles[packet.opcode()]; }

bool IsConnected(const RocePacket& packet) { return RoleOf(packet) != Role::kOther; }

// Management and multicast have numbers of their own.
bool IsOrdinaryQueuePair(const RocePacket& packet) {
  const std::uint32_t qpn = packet.destination_qpn();
  return qpn > 1 && qpn != 0xFFFFFF;
}

}  // namespace

// A RoCEv2 packet between two stages.
struct Steering::Found {
  RocePacket packet;
  std::uint64_t hash;
  std::uint32_t guess;
};

void Steering::Outgoing(std::span<const Frame> frames, std::uint32_t now_us) {
  const FlowTable::View view = table_.Begin();
  const std::size_t first = std::min(frames.size(), kBatch);
  for (std::size_t i = 0; i < first; ++i) __builtin_prefetch(frames[i].data);
  while (!frames.empty()) {
    const std::size_t count = std::min(frames.size(), kBatch);
    SteerBatch(view, frames.first(count), std::min(frames.size() - count, kBatch), now_us);
    frames = frames.subspan(count);
  }
  table_.Finish(core_);
}

[[gnu::always_inline]] inline void Steering::Count(FlowLine& line, FlowEcho& echo,
                                                   const RocePacket& packet, std::uint32_t now_us) {
  Add<std::uint32_t>(line.packets, 1);
  const std::uint32_t watch = line.watch.load(kRelaxed);
  const bool of_responses = (watch & FlowLine::kResponses) != 0;
  if (RoleOf(packet) != (of_responses ? Role::kResponse : Role::kRequest)) return;
  const std::uint32_t psn = packet.psn();
  const bool is_next =
      psn == line.next_psn.load(kRelaxed) && packet.source_port() == line.own_port.load(kRelaxed);
  if (!is_next && !CountOutOfTurn(line, packet)) [[unlikely]]
    return;
  line.next_psn.store((psn + 1) & kPsnMask, kRelaxed);
  Add<std::uint64_t>(line.bytes, packet.payload_and_extended_headers());
  if (packet.asks_for_acknowledgement() && (watch & FlowLine::kWatching) == 0) {
    echo.watched_at_us.store(now_us, kRelaxed);
    line.watch.store(FlowLine::kWatching | psn, kRelaxed);
  }
}

// Some were missed (a READ request counts for its responses), this one is sent again, or the queue
// pair is another. True for the first.
bool Steering::CountOutOfTurn(FlowLine& line, const RocePacket& packet) {
  const std::uint32_t responses = line.watch.load(kRelaxed) & FlowLine::kResponses;
  const std::uint32_t ahead = (packet.psn() - line.next_psn.load(kRelaxed)) & kPsnMask;
  const bool jumped = ahead < kHalfOfPsns ? ahead > kFarAhead : kPsnMask + 1 - ahead > kFarBack;
  if (jumped || line.own_port.load(kRelaxed) != packet.source_port()) {
    Tell({.kind = FlowEvent::Kind::kRestarted,
          .flow_kind = responses != 0 ? FlowKind::kResponses : FlowKind::kRequests,
          .own_port = packet.source_port(),
          .key = line.key,
          .psn = packet.psn(),
          .message_bytes = packet.DmaBytes().value_or(0)});
    return false;
  }
  if (ahead < kHalfOfPsns) return true;
  Add<std::uint32_t>(line.retries, 1);
  // Which of the two would be acknowledged nobody knows (Karn's rule).
  line.watch.store(responses, kRelaxed);
  return false;
}

[[gnu::always_inline]] inline std::uint64_t Steering::Steer(const FlowTable::View& view,
                                                            const RocePacket& packet,
                                                            std::uint32_t slot,
                                                            std::uint32_t now_us) {
  if (packet.opcode() == kSendOnly && packet.IsProbe()) [[unlikely]]
    return 0;
  FlowLine& line = view.lines[slot];
  Count(line, view.echoes[slot], packet, now_us);
  const std::uint16_t port = line.port.load(kRelaxed);
  if (port == 0) return 0;
  return RewriteSourcePort(packet, port, patch_) ? 1 : 0;
}

// `ahead`: so many frames follow the span, for the next batch.
void Steering::SteerBatch(const FlowTable::View& view, std::span<const Frame> frames,
                          std::size_t ahead, std::uint32_t now_us) {
  Found found[kBatch];
  std::size_t size = 0;
  const Frame* const following = frames.data() + frames.size();
  for (std::size_t i = 0; i < frames.size(); ++i) {
    if (i < ahead) __builtin_prefetch(following[i].data);
    // Field by field where it stays: a copy would read in one what was written in parts, and wait.
    Found& one = found[size];
    const RocePacket packet = ParseRoce(frames[i].data, frames[i].bytes);
    if (!packet) continue;
    one.packet.ip = packet.ip;
    one.packet.udp = packet.udp;
    one.packet.udp_bytes = packet.udp_bytes;
    one.packet.is_v4 = packet.is_v4;
    one.hash = HashOf(packet);
    view.snapshot->flows.Prefetch(one.hash);
    __builtin_prefetch(packet.icrc(), 1);
    ++size;
  }
  Add<std::uint64_t>(counts_.frames, frames.size());
  Add<std::uint64_t>(counts_.roce, size);
  for (Found& one : std::span(found, size)) {
    one.guess = view.snapshot->flows.Guess(one.hash);
    if (one.guess != FlowIndex::kNoSlot) __builtin_prefetch(&view.lines[one.guess], 1);
  }
  std::uint64_t rewritten = 0;
  for (const Found& one : std::span(found, size)) {
    if (one.guess == FlowIndex::kNoSlot) {
      HandleUnknown(one.packet);
    } else if (Matches(view.lines[one.guess].key, one.packet)) [[likely]] {
      rewritten += Steer(view, one.packet, one.guess, now_us);
    } else {
      rewritten += SteerByFullSearch(view, one, now_us);
    }
  }
  Add<std::uint64_t>(counts_.rewritten, rewritten);
}

// Another flow with the same fingerprint stands before it, or alone.
std::uint64_t Steering::SteerByFullSearch(const FlowTable::View& view, const Found& one,
                                          std::uint32_t now_us) {
  const auto is_it = [&](std::uint32_t slot) { return Matches(view.lines[slot].key, one.packet); };
  const auto slot = view.snapshot->flows.Find(one.hash, is_it);
  if (slot) return Steer(view, one.packet, *slot, now_us);
  HandleUnknown(one.packet);
  return 0;
}

void Steering::HandleUnknown(const RocePacket& packet) {
  const Operation operation = packet.operation();
  const bool begins =
      operation == kWriteFirst || operation == kSendFirst || operation == kReadResponseFirst;
  if (!begins || !IsConnected(packet) || !IsOrdinaryQueuePair(packet)) return;
  FlowEvent event{.kind = FlowEvent::Kind::kNewFlow,
                  .own_port = packet.source_port(),
                  .key = KeyOf(packet),
                  .psn = packet.psn(),
                  .message_bytes = packet.DmaBytes().value_or(0)};
  if (operation == kReadResponseFirst) {
    event.flow_kind = FlowKind::kResponses;
    FlowKey hosts = event.key;
    hosts.number &= 0xFF;
    const PendingRead& read = ReadAt(hosts, event.psn);
    if (read.psn == event.psn && read.requester == hosts) event.message_bytes = read.bytes;
  }
  Tell(event);
}

void Steering::Incoming(std::span<const Frame> frames, std::uint32_t now_us) {
  const FlowTable::View view = table_.Begin();
  may_tell_of_stranger_ = view.wants_strangers;
  for (const Frame& frame : frames) __builtin_prefetch(frame.data);
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
      ReadAt(hosts, packet.psn()) = {hosts, packet.psn(), packet.DmaBytes().value_or(0)};
    }
  }
  table_.Finish(core_);
}

void Steering::HandleAcknowledgement(const FlowTable::View& view, const RocePacket& packet,
                                     std::uint32_t now_us) {
  const auto is_it = [&](std::uint32_t slot) {
    return Matches(view.acknowledgements[slot].key, packet);
  };
  const auto slot = view.snapshot->acknowledgements.Find(HashOf(packet), is_it);
  const std::uint32_t psn = packet.psn();
  if (!slot) {
    if (!std::exchange(may_tell_of_stranger_, false)) return;
    return Tell({.kind = FlowEvent::Kind::kAcknowledgement, .key = KeyOf(packet), .psn = psn});
  }
  FlowLine& line = view.lines[*slot];
  FlowEcho& echo = view.echoes[*slot];
  // "Resend from here" acknowledges what is before; an old acknowledgement nothing.
  const std::uint32_t next = packet.IsSequenceNak() ? psn : (psn + 1) & kPsnMask;
  const std::uint32_t gained = (next - echo.next_acknowledged_psn.load(kRelaxed)) & kPsnMask;
  if (gained < kHalfOfPsns) echo.next_acknowledged_psn.store(next, kRelaxed);
  const std::uint32_t watch = line.watch.load(kRelaxed);
  if ((watch & FlowLine::kWatching) == 0) return;
  if (((next - 1 - (watch & kPsnMask)) & kPsnMask) >= kHalfOfPsns) return;
  line.watch.store(watch & FlowLine::kResponses, kRelaxed);
  const std::uint32_t sample =
      std::max<std::uint32_t>(1, now_us - echo.watched_at_us.load(kRelaxed));
  const std::uint32_t smoothed = echo.rtt_us.load(kRelaxed);
  echo.rtt_us.store(smoothed == 0 ? sample : smoothed - smoothed / 8 + sample / 8, kRelaxed);
}

Steering::PendingRead& Steering::ReadAt(const FlowKey& key, std::uint32_t psn) {
  return reads_[Mix(HashOf(key), psn) % kPendingReads];
}

void Steering::Tell(const FlowEvent& event) {
  if (!events_.Push(event)) Add<std::uint64_t>(counts_.lost_events, 1);
}

}  // namespace espalier::dpdk
