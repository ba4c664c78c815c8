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

// Identifies the call to which a message belongs; the transport does not interpret it.
using MessageTag = std::array<std::uint64_t, 4>;

// The call in which a peer says that it is, beside that of this rank.
enum class PeerCall : std::uint8_t { kEarlier, kSame, kLater };
// Compares them. An error: they are incompatible.
using CallCheck = std::function<Result<PeerCall>(int peer, const MessageTag& theirs)>;

struct Message {
  std::span<const std::byte> bytes;
  MessageTag tag = {};
};

// Consecutive bytes of a message of `whole` bytes, from `offset` on (a multiple of 64). Valid
// during the call of the handler only.
struct Piece {
  std::span<const std::byte> bytes;
  std::size_t offset = 0;
  std::size_t whole = 0;
  MessageTag tag = {};
};
using PieceHandler = std::function<Result<void>(const Piece& piece)>;

// The sending end of a FIFO connection. Messages are written into the slots from which they are
// sent.
class Outbox {
 public:
  virtual ~Outbox() = default;
  // A free slot of Transport::slot_bytes bytes, aligned to 64 bytes; the same slot until Commit.
  // Null while no slot is free.
  virtual std::byte* TryAcquire() = 0;
  // Sends the first `bytes` of the acquired slot.
  virtual void Commit(std::size_t bytes, const MessageTag& tag) = 0;

  // Whether this outbox supports sending from the caller's memory without copying it first.
  virtual bool SupportsSendInPlace() const { return false; }
  // Whether SendInPlace may be called now: no send in place is in progress and a slot is free.
  virtual bool CanSendInPlace() { return false; }
  // Sends `data`, at most Transport::slot_bytes bytes. The caller must not change it while
  // IsSendingInPlace().
  virtual void SendInPlace(std::span<const std::byte> /*data*/, const MessageTag& /*tag*/) {}
  virtual bool IsSendingInPlace() const { return false; }
};

// The receiving end of a FIFO connection. Messages are read where they arrived, in the order in
// which they were committed.
class Inbox {
 public:
  virtual ~Inbox() = default;
  // The oldest message that is not released; null while there is none. Call it only if a message
  // must come, because the end of the peer is then an error.
  virtual const Message* TryPeek() = 0;
  // As TryPeek, but a message of `bytes` bytes may arrive at `place` instead of a slot;
  // Message::bytes tells where it is. The inbox may write to `place` until it returns a message, so
  // repeat the call with the same arguments until then.
  virtual const Message* TryReceive(std::byte* /*place*/, std::size_t /*bytes*/) {
    return TryPeek();
  }
  // Passes a message to `handler` piece by piece while it arrives. A message of another size than
  // `bytes`, or one that is already there, may come as one piece. Returns true when the handler has
  // received everything (Release must follow), and false while more is to come; repeat the call
  // until then. Errors: those of the handler, after which the connection must not be used again.
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

// Names a connection with a peer: a pair of FIFOs with Transport::slots() slots in each direction.
struct Endpoint {
  int peer = 0;
  int channel = 0;
  auto operator<=>(const Endpoint&) const = default;
};

// One rank's connections with the other ranks of its group. Only Connect, Wait and Flush block, and
// not past their deadline.
//
// Failure: if a peer has died, has aborted or has closed a connection that is still needed, Wait
// and Flush return an error that names the rank, and the group must not be used again. This rank
// then calls Abort, so that all other ranks learn the cause. Errors of all functions: kUnavailable
// for a peer that is gone or does not come in time.
//
// Thread safety: one thread at a time.
class Transport {
 public:
  virtual ~Transport() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual std::size_t slot_bytes() const = 0;
  // The message size that moves large data fastest; at most slot_bytes.
  virtual std::size_t message_bytes() const { return slot_bytes(); }
  virtual int slots() const = 0;

  // Announces the call that this rank enters. While the rank waits for long, the transport tells
  // its peers the call and the rank for which all wait in the end, and passes what peers tell to
  // `check`. Ranks that wait for each other in different calls detect the mismatch that way, and
  // every rank whose Wait times out names the rank that has not entered the call. Transports need
  // not support this.
  virtual void Enter(const MessageTag& /*call*/, const CallCheck& /*check*/) {}

  // Opens those of the connections that are not open yet. Both ends must call it, in any order.
  virtual Result<void> Connect(std::span<const Endpoint> endpoints, Deadline deadline) = 0;
  // The two ends of an open connection; valid as long as the transport.
  virtual Outbox& outbox(Endpoint endpoint) = 0;
  virtual Inbox& inbox(Endpoint endpoint) = 0;

  // Waits until an outbox that had no free slot or an inbox that had no message may have one. May
  // return early.
  virtual Result<void> Wait(Deadline deadline) = 0;
  // As Wait, but waits for `patience` at most. Returns whether there may be something new. A
  // transport that cannot tell always says so.
  virtual Result<bool> TryWait(std::chrono::microseconds /*patience*/) { return true; }
  // Waits until all committed messages have left this process.
  virtual Result<void> Flush(Deadline deadline) = 0;
  // Reports the failure of a connected peer that is already known, without waiting.
  virtual Result<void> Check() { return {}; }
  // Whether the process of a connected peer has certainly ended, or has left the group; false if
  // that is unknown. It neither waits nor receives, so it may be called after a failure.
  virtual bool HasLost(int /*peer*/) { return false; }
  // Tells every peer, on a best-effort basis, that this rank gives up, with the cause.
  virtual void Abort(const Error& cause) = 0;
};

}  // namespace espalier::transport
