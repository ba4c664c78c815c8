#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "collective/transport/base/send_observer.h"
#include "collective/transport/base/transport.h"
#include "collective/transport/tcp/slot_pool.h"
#include "collective/transport/tcp/tcp_frame.h"
#include "collective/transport/tcp/tcp_link.h"
#include "collective/transport/tcp/tcp_receiver.h"

namespace espalier::transport {

class TcpSender;

// The right to send in place, which the connections of a rank share: when ranks share cores, only
// one connection at a time may send from user memory.
//
// Problem: a message sent in place goes from the caller's memory to the kernel in as many parts as
// the kernel takes at a time. Ranks that share cores cannot serve all peers at once, and data that
// waits in the kernel for several peers leaves the caches. Idea: a connection that sends in place
// holds the token until the kernel has its whole message, and other connections wait for it.
// Invariant: a rank never waits for a peer that waits for a message which only the token holds
// back, because the token is passed on when nothing moves (PassOn). Cost: one pointer comparison
// for each message sent in place.
struct ZeroCopySendToken {
  bool is_kept = false;               // false: every connection may send in place
  const TcpSender* holder = nullptr;  // holds the token while it sends in place
  bool is_wanted = false;             // another connection has been refused meanwhile

  // Lets another connection send in place, too, when nothing else moves: its message may be what
  // the holder's peer waits for. Returns whether another connection was refused.
  bool PassOn() {
    holder = nullptr;
    return std::exchange(is_wanted, false);
  }
};

// The sending half of a TcpConnection: a queue of messages, in slots of the pool or in the caller's
// memory, of which the socket takes as much as it can at a time.
//
// Sending in place avoids the copy into a slot: the queue entry points to the caller's memory, and
// sendmsg(2) copies from there into the socket, header and data in one call. At most one message of
// a connection is sent in place at a time. The caller's memory is free again when the kernel has
// taken the whole message (IsSendingInPlace turns false).
// Thread safety: one thread at a time.
class TcpSender : public Outbox {
 public:
  // `receiver`: of the same connection; when sending fails, it reads what the peer sent before.
  TcpSender(TcpLink& link, TcpReceiver& receiver, int slots, SlotPool& pool,
            ZeroCopySendToken& token)
      : link_(link),
        receiver_(receiver),
        pool_(pool),
        token_(token),
        queue_(static_cast<std::size_t>(slots)) {}

  // Tells `watch` of all messages from now on; null: of none.
  void Observe(std::unique_ptr<SendWatch> watch) { watch_ = std::move(watch); }

  std::byte* TryAcquire() override;
  void Commit(std::size_t bytes, const MessageTag& tag) override;
  bool SupportsSendInPlace() const override { return true; }
  bool CanSendInPlace() override;
  void SendInPlace(std::span<const std::byte> data, const MessageTag& tag) override;
  bool IsSendingInPlace() const override { return in_place_end_ > sent_; }

  bool HasUnsent() const { return sent_ != committed_; }
  bool WantsToSend() const { return HasUnsent() && !link_.is_broken(); }
  // Whether a slot was requested and none was free.
  bool NeedsSlot() const { return needs_slot_; }
  // Sends what the socket takes; returns whether it took anything. A socket that was full is not
  // tried again before MarkReady.
  bool Send();
  void MarkReady() { is_full_ = false; }
  // Tells the peer in which call this rank is, and for which rank it waits in the end (-1: none).
  // Returns false while a frame is only partly sent.
  bool SendNotice(const MessageTag& call, int awaited);
  // Tells the peer the reason of an abort, on a best-effort basis, and ends the connection.
  void SendAbort(const std::string& reason);

 private:
  struct Outgoing {
    FrameHeader header;
    std::byte* slot = nullptr;  // null: sent in place
    const std::byte* data = nullptr;
  };

  // Messages are numbered from 0; message k is at k modulo the number of slots.
  Outgoing& At(std::uint64_t number) { return queue_[number % queue_.size()]; }
  bool HasRoom() const { return committed_ - sent_ < queue_.size() && !link_.is_broken(); }

  TcpLink& link_;
  TcpReceiver& receiver_;
  SlotPool& pool_;
  ZeroCopySendToken& token_;
  std::unique_ptr<SendWatch> watch_;
  std::vector<Outgoing> queue_;
  std::uint64_t committed_ = 0;
  std::uint64_t sent_ = 0;
  std::uint64_t in_place_end_ = 0;  // one more than the number of the last message sent in place
  std::size_t sent_bytes_ = 0;      // of the current frame, header included
  bool is_full_ = false;            // the socket was full at the last attempt
  bool needs_slot_ = false;
};

}  // namespace espalier::transport
