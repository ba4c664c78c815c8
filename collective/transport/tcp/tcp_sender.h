#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "collective/transport/base/transport.h"
#include "collective/transport/tcp/slot_pool.h"
#include "collective/transport/tcp/tcp_frame.h"
#include "collective/transport/tcp/tcp_link.h"
#include "collective/transport/tcp/tcp_receiver.h"

namespace espalier::transport {

class TcpSender;

// Whose turn it is to lend among the connections of a rank, where one is to at a time.
//
// Problem: a message that is lent is sent from the caller's memory, without a copy, in as many
// parts as the kernel takes at a time; ranks that share cores cannot send to all peers at once, and
// what waits in the kernel for several of them falls out of the caches. Idea: the connection that
// has lent keeps the turn until the kernel has all of its message; others wait for it. Invariant: a
// rank never waits for a peer that waits for a message which only the turn holds back: when nothing
// moves, the turn is passed on (PassOn). Cost: a look at one pointer for each loan.
struct ZeroCopySendToken {
  bool is_kept = false;               // else all lend as they like
  const TcpSender* holder = nullptr;  // has the turn while it lends
  bool is_wanted = false;             // another has asked meanwhile, in vain

  // Lets another lend too, where nothing else moves: its message may be what the holder's peer
  // waits for. Whether there is one.
  bool PassOn() {
    holder = nullptr;
    return std::exchange(is_wanted, false);
  }
};

// The sending half of a TcpConnection: a queue of messages, in slots of the pool or lent, of which
// the socket takes as much as it can at a time.
// Thread safety: one thread at a time.
class TcpSender : public Outbox {
 public:
  // The receiver of the same connection: what a peer that has gone has said before is taken in.
  TcpSender(TcpLink& link, TcpReceiver& receiver, int slots, SlotPool& pool,
            ZeroCopySendToken& turn)
      : link_(link),
        receiver_(receiver),
        pool_(pool),
        turn_(turn),
        queue_(static_cast<std::size_t>(slots)) {}

  std::byte* TryAcquire() override;
  void Commit(std::size_t bytes, const MessageTag& tag) override;
  bool SupportsSendInPlace() const override { return true; }
  bool CanSendInPlace() override;
  void SendInPlace(std::span<const std::byte> data, const MessageTag& tag) override;
  bool IsSendingInPlace() const override { return lent_ > sent_; }

  bool HasUnsent() const { return sent_ != committed_; }
  bool WantsToSend() const { return HasUnsent() && !link_.is_broken(); }
  // Whether a slot has been asked for in vain.
  bool NeedsSlot() const { return needs_slot_; }
  // Sends what the socket takes; whether anything moved. A socket that has taken all it can is not
  // asked again before MarkReady.
  bool Send();
  void MarkReady() { is_full_ = false; }
  // Tells the peer what this rank does; false while there is no place for it in the stream.
  bool SendNotice(const MessageTag& call);
  // Tells the peer why this rank gives up, as well as it can, and ends the connection.
  void SendAbort(const std::string& reason);

 private:
  struct Outgoing {
    FrameHeader header;
    std::byte* slot = nullptr;  // null: lent
    const std::byte* data = nullptr;
  };

  // Messages are numbered from 0 on; message k is at k modulo the slots.
  Outgoing& At(std::uint64_t number) { return queue_[number % queue_.size()]; }
  bool HasRoom() const { return committed_ - sent_ < queue_.size() && !link_.is_broken(); }

  TcpLink& link_;
  TcpReceiver& receiver_;
  SlotPool& pool_;
  ZeroCopySendToken& turn_;
  std::vector<Outgoing> queue_;
  std::uint64_t committed_ = 0;
  std::uint64_t sent_ = 0;
  std::uint64_t lent_ = 0;      // the number after the last message that was lent
  std::size_t sent_bytes_ = 0;  // of the frame after those sent, header included
  bool is_full_ = false;        // no room to send, when last tried
  bool needs_slot_ = false;
};

}  // namespace espalier::transport
