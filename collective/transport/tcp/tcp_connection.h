#pragma once

#include <optional>
#include <string>

#include "collective/transport/tcp/slot_pool.h"
#include "collective/transport/tcp/tcp_link.h"
#include "collective/transport/tcp/tcp_receiver.h"
#include "collective/transport/tcp/tcp_sender.h"
#include "common/base/unique_fd.h"

namespace espalier::transport {

// One TCP connection with a peer, with `slots` slots in each direction. Waiting messages are in
// slots of the pool. The pool and the token must outlive the connection.
// Thread safety: one thread at a time.
class TcpConnection {
 public:
  TcpConnection(UniqueFd socket, int peer, int slots, SlotPool& pool, ZeroCopySendToken& token);

  TcpSender& sender() { return sender_; }
  const TcpSender& sender() const { return sender_; }
  TcpReceiver& receiver() { return receiver_; }
  const TcpReceiver& receiver() const { return receiver_; }
  int socket() const { return link_.socket(); }
  // The events for which poll(2) must wait.
  short PrepareToPoll();
  // Takes the events that poll(2) has returned.
  void MarkReady(short events);
  // The failure of this connection: the cause of a peer's abort at once, but a closed connection
  // only if a message or a slot is still needed.
  std::optional<std::string> Failure() const;
  // The reason why nothing more will come on it, whether or not anything is needed.
  std::optional<std::string> Ending() const;
  // Whether the peer has closed its end, by itself or as its process has ended. Reads nothing.
  bool HasHungUp() const;

 private:
  TcpLink link_;
  const int peer_;
  TcpReceiver receiver_;
  TcpSender sender_;
};

}  // namespace espalier::transport
