#include "collective/runtime/exchange/message_exchange.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

namespace espalier::runtime {
namespace {

using transport::Endpoint;
using transport::Message;
using transport::MessageTag;

// The first word of a message's label; a call signature never has it, as it would be of a kind that
// does not exist.
constexpr std::uint64_t kMessageMark = 0xff'6d'65'73'73'61'67'65;

void CopyBytes(std::span<const std::byte> from, std::byte* to) {
  if (!from.empty() && from.data() != to) std::memmove(to, from.data(), from.size());
}

}  // namespace

// The last word is the size of the whole block; a call signature has its program there, which
// exchanges do not have. The second word is a call's number, which messages do not have.
MessageTag MessageExchange::LabelOf(std::uint64_t tag, std::size_t whole) const {
  if (!IsCollective()) return {kMessageMark, 0, tag, whole};
  MessageTag label = ToTag(call_);
  label[3] = whole;
  return label;
}

Result<void> MessageExchange::CheckOwn(const Exchange& exchange) const {
  const int own = path_.transport.rank();
  for (const IncomingBlock& wanted : exchange.receives) {
    if (wanted.peer != own) continue;
    std::optional<std::size_t> bytes;
    const auto kept = kept_.find(own);
    if (kept != kept_.end() && exchange.kind == ExchangeKind::kMessages) {
      const auto found = std::ranges::find(kept->second, wanted.tag, &Kept::tag);
      if (found != kept->second.end()) bytes = found->bytes.size();
    }
    for (const OutgoingBlock& sent : exchange.sends) {
      if (!bytes && sent.peer == own && sent.tag == wanted.tag) bytes = sent.bytes.size();
    }
    if (bytes == wanted.bytes.size()) continue;
    return Fail(ErrorCode::kInvalidArgument,
                bytes ? fmt::format("rank {} receives {} bytes from itself under tag {}, but has "
                                    "sent {}",
                                    own, wanted.bytes.size(), wanted.tag, *bytes)
                      : fmt::format("rank {} receives from itself under tag {}, but has sent "
                                    "nothing there (send first, or in the same call)",
                                    own, wanted.tag));
  }
  return {};
}

Result<void> MessageExchange::Run(const Exchange& exchange, const CallSignature& call,
                                  const transport::WaitLimit& limit) {
  call_ = call;
  auto done = Prepare(exchange, limit.deadline);
  if (done) done = Advance(limit);
  lanes_.clear();
  return done;
}

// Sorts the blocks by peer. Those that this rank gives to itself are copied at once, or kept.
Result<void> MessageExchange::Prepare(const Exchange& exchange, transport::Deadline deadline) {
  const int own = path_.transport.rank();
  lanes_.clear();
  for (const IncomingBlock& block : exchange.receives) {
    lanes_[block.peer].receives.push_back(block);
  }
  for (auto& [peer, lane] : lanes_) {
    auto taken = IsCollective() ? Result<void>() : TakeKept(peer, lane);
    if (!taken) return taken;
  }
  for (const OutgoingBlock& block : exchange.sends) {
    Lane& lane = lanes_[block.peer];
    if (block.peer != own) {
      lane.sends.push_back(block);
      continue;
    }
    const auto wanted = std::ranges::find(lane.receives, block.tag, &IncomingBlock::tag);
    if (wanted != lane.receives.end()) {
      CopyBytes(block.bytes, wanted->bytes.data());
      lane.receives.erase(wanted);
    } else {
      auto kept = Keep(own, block.tag, block.bytes.size());
      if (!kept) return kept;
      CopyBytes(block.bytes, kept_[own].back().bytes.data());
    }
  }
  lanes_.erase(own);
  std::vector<Endpoint> endpoints;
  for (const auto& [peer, lane] : lanes_) {
    if (!lane.IsDone()) endpoints.push_back({peer, channel()});
  }
  auto connected = path_.transport.Connect(endpoints, deadline);
  if (!connected) return connected;
  for (const Endpoint& endpoint : endpoints) {
    lanes_[endpoint.peer].outbox = &path_.transport.outbox(endpoint);
    lanes_[endpoint.peer].inbox = &path_.transport.inbox(endpoint);
  }
  return {};
}

// Fills receives from messages that came earlier.
Result<void> MessageExchange::TakeKept(int peer, Lane& lane) {
  std::deque<Kept>& all = kept_[peer];
  std::vector<IncomingBlock> missing;
  for (const IncomingBlock& wanted : lane.receives) {
    const auto kept = std::ranges::find(all, wanted.tag, &Kept::tag);
    if (kept == all.end()) {
      missing.push_back(wanted);
      continue;
    }
    if (kept->bytes.size() != wanted.bytes.size()) {
      return FailOfSizes(peer, wanted.tag, kept->bytes.size(), wanted.bytes.size());
    }
    CopyBytes(kept->bytes, wanted.bytes.data());
    kept_bytes_ -= kept->bytes.size();
    all.erase(kept);
  }
  lane.receives = std::move(missing);
  return {};
}

Result<void> MessageExchange::Keep(int peer, std::uint64_t tag, std::size_t bytes) {
  if (bytes > kMaxKeptBytes - kept_bytes_) {
    return Fail(
        ErrorCode::kResourceExhausted,
        fmt::format("rank {} has sent {} bytes under tag {}, which rank {} does not receive "
                    "now, and {} bytes of earlier messages wait already (at most {} are "
                    "kept; receive messages in the order in which they are sent)",
                    peer, bytes, tag, path_.transport.rank(), kept_bytes_, kMaxKeptBytes));
  }
  kept_[peer].push_back({.tag = tag, .bytes = std::vector<std::byte>(bytes)});
  kept_bytes_ += bytes;
  return {};
}

// Sends the next message of the lane's first block, unless it has to wait.
bool MessageExchange::TrySend(Lane& lane) {
  if (lane.sends.empty()) return false;
  const OutgoingBlock& block = lane.sends.front();
  const auto rest = block.bytes.subspan(lane.sent);
  const auto part = rest.first(std::min(rest.size(), path_.transport.message_bytes()));
  const MessageTag label = LabelOf(block.tag, block.bytes.size());
  if (!part.empty() && lane.outbox->SupportsSendInPlace()) {
    if (!lane.outbox->CanSendInPlace()) return false;
    lane.outbox->SendInPlace(part, label);
  } else {
    std::byte* const slot = lane.outbox->TryAcquire();
    if (slot == nullptr) return false;
    CopyBytes(part, slot);
    lane.outbox->Commit(part.size(), label);
  }
  lane.sent += part.size();
  if (lane.sent == block.bytes.size()) {
    lane.sends.pop_front();
    lane.sent = 0;
  }
  return true;
}

tl::unexpected<Error> MessageExchange::FailOfSizes(int peer, std::uint64_t tag,
                                                   std::uint64_t theirs, std::size_t ours) const {
  const int own = path_.transport.rank();
  const std::size_t element = IsCollective() ? reduce::SizeOf(call_.type) : 1;
  const std::string what =
      IsCollective() ? Describe(call_) : fmt::format("the message under tag {}", tag);
  return Fail(
      ErrorCode::kFailedPrecondition,
      fmt::format("rank {} sends {} {} to rank {}, which expects {} ({}: both ranks must "
                  "give the same size)",
                  peer, theirs / element, element > 1 ? reduce::DataTypeName(call_.type) : "bytes",
                  own, ours / element, what));
}

// Checks the first message of a block and finds its place.
Result<void> MessageExchange::Begin(int peer, Lane& lane, const Message& message) {
  const int own = path_.transport.rank();
  const std::uint64_t whole = message.tag[3];
  Arriving arriving;
  if (IsCollective()) {
    CallSignature theirs = FromTag(message.tag);
    theirs.program = 0;
    if (!(theirs == call_)) return tl::unexpected(MismatchError(peer, theirs, own, call_));
    arriving.wanted = 0;
  } else {
    if (message.tag[0] != kMessageMark) {
      return Fail(
          ErrorCode::kFailedPrecondition,
          fmt::format("rank {} sent something other than a message (another version?)", peer));
    }
    arriving.label = message.tag[2];
    const auto found = std::ranges::find(lane.receives, arriving.label, &IncomingBlock::tag);
    if (found != lane.receives.end()) {
      arriving.wanted = static_cast<std::size_t>(found - lane.receives.begin());
    }
  }
  if (arriving.wanted) {
    arriving.place = lane.receives[*arriving.wanted].bytes;
    if (arriving.place.size() != whole) {
      return FailOfSizes(peer, arriving.label, whole, arriving.place.size());
    }
  } else {
    auto kept = Keep(peer, arriving.label, whole);
    if (!kept) return kept;
    arriving.place = kept_[peer].back().bytes;
  }
  lane.arriving = arriving;
  return {};
}

// Takes the next message from a peer if there is one. A message of the expected size arrives at its
// place.
Result<bool> MessageExchange::TryReceive(int peer, Lane& lane) {
  if (lane.receives.empty()) return false;
  const std::span<std::byte> expected = lane.arriving
                                            ? lane.arriving->place.subspan(lane.arriving->done)
                                            : lane.receives.front().bytes;
  const std::size_t most = std::min(expected.size(), path_.transport.message_bytes());
  const Message* const message =
      most > 0 ? lane.inbox->TryReceive(expected.data(), most) : lane.inbox->TryPeek();
  if (message == nullptr) return false;
  if (!lane.arriving) {
    auto begun = Begin(peer, lane, *message);
    if (!begun) return Propagate(begun);
  }
  Arriving& block = *lane.arriving;
  const std::size_t left = block.place.size() - block.done;
  const bool is_right = message->tag == LabelOf(block.label, block.place.size()) &&
                        message->bytes.size() <= left && (message->bytes.empty() == (left == 0));
  if (!is_right) {
    return Fail(ErrorCode::kFailedPrecondition,
                fmt::format("rank {} sent a part of {} bytes where rank {} expects at most {} "
                            "(another version?)",
                            peer, message->bytes.size(), path_.transport.rank(), left));
  }
  CopyBytes(message->bytes, block.place.data() + block.done);
  block.done += message->bytes.size();
  lane.inbox->Release();
  if (block.done < block.place.size()) return true;
  if (block.wanted) {
    lane.receives.erase(lane.receives.begin() + static_cast<std::ptrdiff_t>(*block.wanted));
  }
  lane.arriving.reset();
  return true;
}

std::string MessageExchange::DescribeWaits() const {
  std::vector<int> peers;
  for (const auto& [peer, lane] : lanes_) {
    if (!lane.IsDone()) peers.push_back(peer);
  }
  std::string text =
      fmt::format("rank {} waited for rank {} in ", path_.transport.rank(), fmt::join(peers, ", "));
  if (IsCollective()) return text + Describe(call_);
  text += "a call with messages";
  for (const auto& [peer, lane] : lanes_) {
    if (lane.receives.empty()) continue;
    return text + fmt::format(": nothing from rank {} under tag {}", peer, lane.receives[0].tag);
  }
  return text;
}

Result<void> MessageExchange::Advance(const transport::WaitLimit& limit) {
  while (true) {
    bool has_moved = false;
    bool is_done = true;
    for (auto& [peer, lane] : lanes_) {
      while (TrySend(lane)) has_moved = true;
      while (true) {
        auto received = TryReceive(peer, lane);
        if (!received) return Propagate(received);
        if (!*received) break;
        has_moved = true;
      }
      is_done = is_done && lane.IsDone();
    }
    if (is_done) {
      return transport::WaitInterruptibly(
          limit, [&](transport::Deadline nap) { return path_.transport.Flush(nap); });
    }
    if (has_moved) continue;
    auto waited = transport::WaitInterruptibly(
        limit, [&](transport::Deadline nap) { return path_.transport.Wait(nap); });
    if (waited) continue;
    return Fail(waited.error().code,
                fmt::format("{} ({})", waited.error().message, DescribeWaits()));
  }
}

}  // namespace espalier::runtime
