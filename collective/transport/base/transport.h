#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "common/base/result.h"

namespace espalier::transport {

using Deadline = std::chrono::steady_clock::time_point;

// Travels with a message, unread by the transport: which call of a collective it is part of.
using MessageTag = std::array<std::uint64_t, 4>;

// Judges what a peer says that it is doing. True: nothing to object to, nor will there be; false:
// ask again when this rank does something else.
using CallCheck = std::function<Result<bool>(int peer, const MessageTag& theirs)>;

struct Message {
  std::span<const std::byte> bytes;
  MessageTag tag = {};
};

// Consecutive bytes of a message of `whole` bytes, from `offset` on, which is a multiple of 64;
// good for the call that it is handed to.
struct Piece {
  std::span<const std::byte> bytes;
  std::size_t offset = 0;
  std::size_t whole = 0;
  MessageTag tag = {};
};
using PieceHandler = std::function<Result<void>(const Piece& piece)>;

// The sending end of a FIFO connection. Messages are written where they are sent from.
class Outbox {
 public:
  virtual ~Outbox() = default;
  // A free slot of Transport::slot_bytes bytes, the same one until Commit; null while there is
  // none. Aligned to 64 bytes.
  virtual std::byte* TryAcquire() = 0;
  // Sends the first `bytes` of the acquired slot.
  virtual void Commit(std::size_t bytes, const MessageTag& tag) = 0;

  // Whether this outbox can ever be lent memory of the caller's, to send it from where it is.
  virtual bool SupportsSendInPlace() const { return false; }
  // Whether it can now: one loan at a time, and a free slot.
  virtual bool CanSendInPlace() { return false; }
  // Sends `data`, a slot's bytes at most, which stays as it is while IsSendingInPlace().
  virtual void SendInPlace(std::span<const std::byte> /*data*/, const MessageTag& /*tag*/) {}
  virtual bool IsSendingInPlace() const { return false; }
};

// The receiving end. Messages are read where they arrived, in the order they were committed.
class Inbox {
 public:
  virtual ~Inbox() = default;
  // The oldest message that is not released; null while there is none: ask only where one is to
  // come, as a peer that has gone is an error then.
  virtual const Message* TryPeek() = 0;
  // The same; a message of so many bytes may arrive at `place` instead, which is the inbox's to
  // write until a message is returned: ask for the same again until then. Message::bytes tells
  // where it is.
  virtual const Message* TryReceive(std::byte* /*place*/, std::size_t /*bytes*/) {
    return TryPeek();
  }
  // Takes a message piece by piece while it arrives, for what can use each at once; one of another
  // size than `bytes`, or that is there already, may come as one piece. True when `taker` has had
  // all of it, and Release is to follow; false while more is to come: ask for the same again until
  // then. Errors: those of the taker, after which the connection is of no more use.
  virtual Result<bool> TryConsume(std::size_t bytes, const PieceHandler& handler);
  virtual void Release() = 0;
};

inline Result<bool> Inbox::TryConsume(std::size_t /*bytes*/, const PieceHandler& handler) {
  const Message* message = TryPeek();
  if (message == nullptr) return false;
  auto taken =
      handler({.bytes = message->bytes, .whole = message->bytes.size(), .tag = message->tag});
  if (!taken) return Propagate(taken);
  return true;
}

// A connection with a peer, as a pair of FIFOs with `slots()` slots each way.
struct Endpoint {
  int peer = 0;
  int channel = 0;
  auto operator<=>(const Endpoint&) const = default;
};

// One rank's connections with the others of its group. Nothing but Connect, Wait and Flush blocks,
// and those not past their deadline.
//
// Failure: once a peer has died, has aborted or has cut a connection that is still needed, Wait
// and Flush say so with an error that names the rank, and the group is of no more use; this rank
// then calls Abort, so that all others learn the cause too.
// Errors of all: kUnavailable for a peer that is gone or does not come in time.
//
// Thread safety: one thread at a time.
class Transport {
 public:
  virtual ~Transport() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual std::size_t slot_bytes() const = 0;
  // The size of messages that moves large data fastest: at most slot_bytes.
  virtual std::size_t message_bytes() const { return slot_bytes(); }
  virtual int slots() const = 0;

  // What this rank does from here on. Where it waits for long, its peers are told, and `check`
  // is asked about what they tell: so that ranks that wait for one another in different calls find
  // out. Transports may do without.
  virtual void Enter(const MessageTag& /*call*/, const CallCheck& /*check*/) {}

  // Opens what is not open yet. Both ends must call it, in any order.
  virtual Result<void> Connect(std::span<const Endpoint> endpoints, Deadline deadline) = 0;
  // Ends of an open connection; valid as long as the transport.
  virtual Outbox& outbox(Endpoint endpoint) = 0;
  virtual Inbox& inbox(Endpoint endpoint) = 0;

  // Returns when something may have changed for an outbox that gave no slot or an inbox that gave
  // no message since the last Wait. May return early.
  virtual Result<void> Wait(Deadline deadline) = 0;
  // Returns when all committed messages are out of this process's hands.
  virtual Result<void> Flush(Deadline deadline) = 0;
  // Whether all peers that were connected are there and well, without waiting.
  virtual Result<void> Check() { return {}; }
  // Tells every peer, as well as it can, that this rank gives up, and why.
  virtual void Abort(const Error& cause) = 0;
};

}  // namespace espalier::transport
