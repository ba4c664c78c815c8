#pragma once

#include <optional>
#include <string>

#include "collective/transport/tcp/slot_pool.h"
#include "collective/transport/tcp/tcp_link.h"
#include "collective/transport/tcp/tcp_receiver.h"
#include "collective/transport/tcp/tcp_sender.h"
#include "common/base/unique_fd.h"

namespace espalier::transport {

// One TCP connection with a peer, with as many slots in each direction. What waits is in slots of
// the pool, which outlives the connection, as the turn does.
// Thread safety: one thread at a time.
class TcpConnection {
 public:
  TcpConnection(UniqueFd socket, int peer, int slots, SlotPool& pool, ZeroCopySendToken& turn);

  TcpSender& sender() { return sender_; }
  const TcpSender& sender() const { return sender_; }
  TcpReceiver& receiver() { return receiver_; }
  const TcpReceiver& receiver() const { return receiver_; }
  int socket() const { return link_.socket(); }
  // What poll is to wait for.
  short PrepareToPoll();
  // What poll has seen.
  void MarkReady(short events);
  // Why this connection is of no more use: the peer's reason for giving up at once; a cut only
  // where something is asked of it in vain.
  std::optional<std::string> Failure() const;
  // Why nothing more will come on it, whether or not anything is asked of it.
  std::optional<std::string> Ending() const;

 private:
  TcpLink link_;
  const int peer_;
  TcpReceiver receiver_;
  TcpSender sender_;
};

}  // namespace espalier::transport
