#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "collective/transport/transport.h"
#include "common/base/unique_fd.h"

namespace espalier::transport {

// One TCP connection with its slots for both directions: a stream of frames, each a header and a
// message, or a last one with the reason for giving up.
class TcpConnection : public Outbox, public Inbox {
 public:
  TcpConnection(UniqueFd socket, int peer, int slots, std::size_t slot_bytes);

  std::byte* TryAcquire() override;
  void Commit(std::size_t bytes, const MessageTag& tag) override;
  const Message* TryPeek() override;
  void Release() override;

  int socket() const { return socket_.get(); }
  bool WantsToSend() const { return sent_ != committed_ && !broken_; }
  bool WantsToReceive() const;
  // Move what the socket takes or has; whether anything moved.
  bool Send();
  bool Receive();
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
  // Both directions number their messages from 0 on; message k is in slot k modulo the slots.
  struct Slot {
    Header header;
    std::unique_ptr<std::byte[]> memory;  // aligned by hand; made when first used
    std::byte* data = nullptr;
  };

  Slot& At(std::vector<Slot>& slots, std::uint64_t message) {
    return slots[message % slots.size()];
  }
  void MakeMemory(Slot& slot) const;
  bool AcceptHeader(Slot& slot);
  void Break(std::string why);

  UniqueFd socket_;
  int peer_;
  std::size_t slot_bytes_;
  std::vector<Slot> out_;
  std::uint64_t committed_ = 0;
  std::uint64_t sent_ = 0;
  std::size_t sent_bytes_ = 0;  // of the frame after those, header included
  std::vector<Slot> in_;
  std::uint64_t received_ = 0;
  std::uint64_t released_ = 0;
  std::size_t received_bytes_ = 0;
  Message message_;
  bool needs_slot_ = false;
  bool needs_message_ = false;
  bool broken_ = false;
  std::string why_broken_;
  std::optional<std::string> abort_;
  std::optional<MessageTag> notice_;
};

}  // namespace espalier::transport
