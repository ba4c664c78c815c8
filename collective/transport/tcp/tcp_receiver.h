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

// The receiving half of a TcpConnection: a queue of received messages.
//
// Problem: a copy from a slot to its destination costs a pass over memory, and reading a whole
// large message keeps the socket's lock from the sender. Idea: the inbox tells how the next message
// is awaited before its data is read. Data that is stored unchanged goes to its destination; large
// data that is reduced passes in pieces of 64 KiB through one slot, which stays in the caches;
// all else waits in slots of the pool. Invariant: only message released_ can be awaited, and how it
// is received is fixed when its header has been read. Cost: no extra copy for awaited messages; one
// system call receives several small messages.
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
  // Whether a message was requested and has not come.
  bool NeedsMessage() const { return needs_message_; }
  // Receives data from the socket, at most one message; returns whether there was any. A socket
  // that was empty is not read again before MarkReady.
  bool Receive();
  // Whether data was received together with an earlier message.
  bool HasMore() const { return !read_ahead_.empty() && WantsToReceive(); }
  void MarkReady() { is_drained_ = false; }
  // Makes poll(2) wait until a worthwhile number of bytes has come (SO_RCVLOWAT).
  void PrepareToPoll();
  // Receives what a peer has sent before it closed, which may be the reason of an abort, and marks
  // the link as broken.
  void BreakAfterLastWords(const std::string& why);
  // The reason of the peer's abort.
  const std::optional<std::string>& abort() const { return abort_; }
  // The call of the peer's last notice, until ForgetNotice.
  const std::optional<MessageTag>& notice() const { return notice_; }
  void ForgetNotice() { notice_.reset(); }
  // The call of the peer's last message or notice.
  const std::optional<MessageTag>& last_call() const { return last_call_; }
  // The peer's last notice, for good.
  const std::optional<FrameHeader>& last_notice() const { return last_notice_; }

 private:
  struct Incoming {
    FrameHeader header;
    std::byte* slot = nullptr;  // null: received in place or in pieces
    std::byte* data = nullptr;  // null: received in pieces
  };
  // How the next message is to be received if it has `bytes` bytes.
  struct Awaited {
    std::byte* place = nullptr;
    std::size_t bytes = 0;
    bool in_pieces = false;
  };
  static constexpr std::size_t kReadAheadBytes = 4096;

  // Messages are numbered from 0; message k is at k modulo the number of slots.
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
  std::size_t received_bytes_ = 0;  // of the current frame, header included
  Awaited awaited_;                 // for message released_, unless its data has begun to come
  const PieceHandler* handler_ = nullptr;  // set while it may be called
  std::optional<Error> handler_error_;
  std::byte* piece_ = nullptr;   // slot of the current piece
  std::size_t piece_bytes_ = 0;  // bytes of the current piece
  std::array<std::byte, kReadAheadBytes> read_ahead_memory_ = {};
  std::span<std::byte> read_ahead_;  // bytes received but not processed
  bool is_drained_ = false;          // the socket was empty at the last read
  int least_ = 1;                    // bytes for which poll(2) waits
  Message message_;
  bool needs_message_ = false;
  std::optional<std::string> abort_;
  std::optional<MessageTag> notice_;
  std::optional<MessageTag> last_call_;
  std::optional<FrameHeader> last_notice_;
};

}  // namespace espalier::transport
