#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "collective/transport/base/fork_guard.h"
#include "collective/transport/base/transport.h"
#include "collective/transport/tcp/slot_pool.h"
#include "common/base/unique_fd.h"

namespace espalier::transport {

class TcpConnection;

// Whose turn it is to lend among the connections of a rank, where one is to at a time: ranks that
// share cores cannot send to all at once, and what waits in the kernel falls out of the caches.
struct LendingTurn {
  bool is_kept = false;                   // else all lend as they like
  const TcpConnection* holder = nullptr;  // has the turn while it lends
  bool is_wanted = false;                 // another has asked meanwhile, in vain

  // Lets another lend too, where nothing else moves: its message may be what the holder's peer
  // waits for. Whether there is one.
  bool PassOn() {
    holder = nullptr;
    return std::exchange(is_wanted, false);
  }
};

// One TCP connection, with as many slots in each direction: a stream of frames, each a header and a
// message, or a last one with the reason for giving up. Messages that are lent are sent from where
// they are, those that are awaited in a place are received there. Large ones that are taken in
// pieces come through a small piece of memory that stays in the caches. What waits is in slots of
// the pool, which outlives the connection, as the turn does.
class TcpConnection : public Outbox, public Inbox {
 public:
  TcpConnection(UniqueFd socket, int peer, int slots, SlotPool& pool, LendingTurn& turn);

  std::byte* TryAcquire() override;
  void Commit(std::size_t bytes, const MessageTag& tag) override;
  bool Borrows() const override { return true; }
  bool CanLend() override;
  void Lend(std::span<const std::byte> data, const MessageTag& tag) override;
  bool IsLending() const override { return lent_ > sent_; }
  const Message* TryPeek() override;
  const Message* TryReceive(std::byte* place, std::size_t bytes) override;
  Result<bool> TryTake(std::size_t bytes, const Taker& taker) override;
  void Release() override;

  int socket() const { return socket_.get(); }
  bool WantsToSend() const { return sent_ != committed_ && !broken_; }
  bool WantsToReceive() const;
  // Send what the socket takes; receive what it has, one message at most. Whether anything moved.
  // A socket that has taken or given all it can is not asked again before MarkReady.
  bool Send();
  bool Receive();
  // What poll is to wait for; has the socket wait for as much as is worth to be received at once.
  short PrepareToPoll();
  void MarkReady(short events);
  // What has been received with the message before.
  bool HasMore() const { return !ahead_.empty() && WantsToReceive(); }
  // Why this connection is of no more use: the peer's reason for giving up at once; a cut only
  // where something is asked of it in vain.
  std::optional<std::string> Failure() const;
  // Why nothing more will come on it, whether or not anything is asked of it.
  std::optional<std::string> Ending() const;
  void SendAbort(const std::string& reason);
  // Tells the peer what this rank does; false while there is no place for it in the stream.
  bool SendNotice(const MessageTag& call);
  // What the peer has told last, until it is forgotten.
  const std::optional<MessageTag>& notice() const { return notice_; }
  void ForgetNotice() { notice_.reset(); }

 private:
  struct Header {
    std::uint32_t kind = 0;
    std::uint32_t reserved = 0;
    std::uint64_t bytes = 0;
    MessageTag tag = {};
  };
  // Both directions number their messages from 0 on; message k is at k modulo the slots.
  struct Outgoing {
    Header header;
    std::byte* slot = nullptr;  // null: lent
    const std::byte* data = nullptr;
  };
  struct Incoming {
    Header header;
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

  template <typename T>
  T& At(std::vector<T>& messages, std::uint64_t number) {
    return messages[number % messages.size()];
  }
  bool HasRoom() const { return committed_ - sent_ < out_.size() && !broken_; }
  const Message* Peek();
  std::size_t Read(std::byte* to, std::size_t bytes);
  bool ReceiveHeader(Incoming& message);
  bool ReceiveData(Incoming& message);
  void PassOn(const Incoming& message);
  bool AcceptHeader(Incoming& message);
  bool AcceptMessage(Incoming& message);
  void Break(std::string why);
  void BreakAfterLastWords(const std::string& why);

  UniqueFd socket_;
  const ForkGuard guard_;
  int peer_;
  SlotPool& pool_;
  LendingTurn& turn_;
  std::vector<Outgoing> out_;
  std::uint64_t committed_ = 0;
  std::uint64_t sent_ = 0;
  std::uint64_t lent_ = 0;      // the number after the last message that was lent
  std::size_t sent_bytes_ = 0;  // of the frame after those sent, header included
  std::vector<Incoming> in_;
  std::uint64_t received_ = 0;
  std::uint64_t released_ = 0;
  std::size_t received_bytes_ = 0;  // of the frame after those received, header included
  Awaited awaited_;                 // for message released_, unless it has begun to come
  const Taker* taker_ = nullptr;    // while it may be called
  std::optional<Error> take_error_;
  std::byte* landing_ = nullptr;  // for the piece that is coming
  std::size_t landed_ = 0;
  std::array<std::byte, kAheadBytes> ahead_memory_ = {};
  std::span<std::byte> ahead_;  // received, and not looked at
  bool is_dry_ = false;         // nothing to receive, when last asked
  bool is_full_ = false;        // nor room to send
  int least_ = 1;               // that poll waits for
  Message message_;
  bool needs_slot_ = false;
  bool needs_message_ = false;
  bool broken_ = false;
  std::string why_broken_;
  std::optional<std::string> abort_;
  std::optional<MessageTag> notice_;
};

}  // namespace espalier::transport
