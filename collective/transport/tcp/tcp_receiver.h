#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "collective/transport/base/transport.h"
#include "collective/transport/tcp/slot_pool.h"
#include "collective/transport/tcp/tcp_frame.h"
#include "collective/transport/tcp/tcp_link.h"

namespace espalier::transport {

// The receiving half of a TcpConnection: a queue of messages that have come. Those that are awaited
// in a place are received there; large ones that are taken in pieces come through a small piece of
// memory that stays in the caches; all others wait in slots of the pool.
// Thread safety: one thread at a time.
class TcpReceiver : public Inbox {
 public:
  TcpReceiver(TcpLink& link, int slots, SlotPool& pool)
      : link_(link), pool_(pool), queue_(static_cast<std::size_t>(slots)) {}

  const Message* TryPeek() override { return Peek(); }
  const Message* TryReceive(std::byte* place, std::size_t bytes) override;
  Result<bool> TryConsume(std::size_t bytes, const PieceHandler& handler) override;
  void Release() override;

  bool WantsToReceive() const;
  // Whether a message has been asked for in vain.
  bool NeedsMessage() const { return needs_message_; }
  // Receives what the socket has, one message at most; whether anything moved. A socket that has
  // given all it can is not asked again before MarkReady.
  bool Receive();
  // What has been received with the message before.
  bool HasMore() const { return !ahead_.empty() && WantsToReceive(); }
  void MarkReady() { is_dry_ = false; }
  // Has poll wait for as much as is worth to be received at once.
  void PrepareToPoll();
  // A peer that has gone may have said why before: takes that in, and breaks the link if that has
  // not.
  void BreakAfterLastWords(const std::string& why);
  // The peer's reason for giving up.
  const std::optional<std::string>& abort() const { return abort_; }
  // What the peer has told last, until it is forgotten.
  const std::optional<MessageTag>& notice() const { return notice_; }
  void ForgetNotice() { notice_.reset(); }

 private:
  struct Incoming {
    FrameHeader header;
    std::byte* slot = nullptr;  // null: received in place, or taken
    std::byte* data = nullptr;  // null: taken, in pieces
  };
  // How the next message is wanted, if it is of so many bytes.
  struct Awaited {
    std::byte* place = nullptr;
    std::size_t bytes = 0;
    bool is_taken = false;
  };
  static constexpr std::size_t kAheadBytes = 4096;

  // Messages are numbered from 0 on; message k is at k modulo the slots.
  Incoming& At(std::uint64_t number) { return queue_[number % queue_.size()]; }
  const Message* Peek();
  std::size_t Read(std::byte* to, std::size_t bytes);
  bool ReceiveHeader(Incoming& message);
  bool ReceiveData(Incoming& message);
  void PassOn(const Incoming& message);
  bool AcceptHeader(Incoming& message);
  bool AcceptMessage(Incoming& message);

  TcpLink& link_;
  SlotPool& pool_;
  std::vector<Incoming> queue_;
  std::uint64_t received_ = 0;
  std::uint64_t released_ = 0;
  std::size_t received_bytes_ = 0;       // of the frame after those received, header included
  Awaited awaited_;                      // for message released_, unless it has begun to come
  const PieceHandler* taker_ = nullptr;  // while it may be called
  std::optional<Error> take_error_;
  std::byte* landing_ = nullptr;  // for the piece that is coming
  std::size_t landed_ = 0;
  std::array<std::byte, kAheadBytes> ahead_memory_ = {};
  std::span<std::byte> ahead_;  // received, and not looked at
  bool is_dry_ = false;         // nothing to receive, when last asked
  int least_ = 1;               // that poll waits for
  Message message_;
  bool needs_message_ = false;
  std::optional<std::string> abort_;
  std::optional<MessageTag> notice_;
};

}  // namespace espalier::transport
