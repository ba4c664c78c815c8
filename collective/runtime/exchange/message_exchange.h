#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "collective/runtime/calls/backend.h"
#include "collective/runtime/calls/call_signature.h"
#include "collective/runtime/calls/exchange.h"
#include "collective/transport/base/transport.h"
#include "collective/transport/base/wait_limit.h"
#include "common/base/result.h"

namespace espalier::runtime {

// Runs the exchanges of one rank over the connections of a transport, on the calling thread.
//
// Problem: a rank sends to many peers and receives from many, sizes differ, and no send may keep a
// receive from going on. Idea: a block is cut into messages of the transport's preferred size,
// which follow one another on the connection of its two ranks; all blocks advance in turns, and the
// rank sleeps only if none can. Each message carries the size of its whole block with its tag, or
// with the signature of the call, so a receiver detects blocks that contradict what it expects, and
// writes nothing of them. Invariant: the messages of two blocks of one connection never mix.
// Messages of single ranks and collective exchanges have connections of their own, so they do not
// meet. Cost: as many messages as each block has parts (one if it is empty), and at most one copy
// on each side; where the transport can, data is sent from the caller's memory and received in it.
//
// A message under a tag that this rank does not receive in the exchange is kept until it is. All
// kept messages together have at most kMaxKeptBytes.
// Errors of Run: those of Group::RunExchange; after one the group must not be used again.
// Thread safety: one thread at a time.
class MessageExchange {
 public:
  static constexpr std::size_t kMaxKeptBytes = 64 << 20;

  // The path must outlive the exchange.
  explicit MessageExchange(const Backend::MessagePath& path) : path_(path) {}

  // Refuses a receive of this rank from itself for which it has sent nothing, or of another size.
  // Errors: kInvalidArgument; nothing has happened.
  Result<void> CheckOwn(const Exchange& exchange) const;
  // Runs an exchange that CheckExchange and CheckOwn have accepted. Opens the connections that it
  // needs; both ranks of a connection do so in their first exchange over it.
  Result<void> Run(const Exchange& exchange, const CallSignature& call,
                   const transport::WaitLimit& limit);

 private:
  // A message that came before its receive.
  struct Kept {
    std::uint64_t tag = 0;
    std::vector<std::byte> bytes;
  };
  // The block that arrives at the moment.
  struct Arriving {
    std::span<std::byte> place;  // of the whole block
    std::size_t done = 0;
    std::optional<std::size_t> wanted;  // index of the receive; none: it is kept
    std::uint64_t label = 0;            // of the call, or the tag
  };
  struct Lane {
    transport::Outbox* outbox = nullptr;
    transport::Inbox* inbox = nullptr;
    std::deque<OutgoingBlock> sends;      // the first one is being sent
    std::size_t sent = 0;                 // bytes of it
    std::vector<IncomingBlock> receives;  // that have not come
    std::optional<Arriving> arriving;

    bool IsDone() const { return sends.empty() && receives.empty(); }
  };

  bool IsCollective() const { return call_.exchange != ExchangeKind::kMessages; }
  int channel() const { return path_.channel + (IsCollective() ? 1 : 0); }
  transport::MessageTag LabelOf(std::uint64_t tag, std::size_t whole) const;
  Result<void> Prepare(const Exchange& exchange, transport::Deadline deadline);
  Result<void> TakeKept(int peer, Lane& lane);
  Result<void> Keep(int peer, std::uint64_t tag, std::size_t bytes);
  bool TrySend(Lane& lane);
  Result<void> Begin(int peer, Lane& lane, const transport::Message& message);
  Result<bool> TryReceive(int peer, Lane& lane);
  Result<void> Advance(const transport::WaitLimit& limit);
  std::string DescribeWaits() const;
  tl::unexpected<Error> FailOfSizes(int peer, std::uint64_t tag, std::uint64_t theirs,
                                    std::size_t ours) const;

  Backend::MessagePath path_;
  CallSignature call_;
  std::map<int, Lane> lanes_;  // of the exchange in progress, by peer
  std::map<int, std::deque<Kept>> kept_;
  std::size_t kept_bytes_ = 0;
};

}  // namespace espalier::runtime
