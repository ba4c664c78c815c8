#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "agent/probe/sockets/source_sockets.h"
#include "agent/probe/train_socket.h"
#include "common/base/result.h"
#include "common/base/unique_fd.h"

namespace espalier::agent {

// Sends probe trains by raw sockets (CAP_NET_RAW), and receives them: UDP by sockets that are bound
// to the port, so that the kernel answers nothing and no other program gets the packets; TCP by raw
// sockets with a filter for segments of trains. The kernel stamps arrivals. The raw sockets are
// open only while the socket listens, as the kernel then offers them every TCP segment of the host.
// Thread safety: the agent's loop thread.
class RawTrainSocket : public TrainSocket {
 public:
  // Errors: kPermissionDenied without CAP_NET_RAW. A host without IPv6 sends and receives IPv4
  // only.
  static Result<std::unique_ptr<RawTrainSocket>> Open();

  // Readable when HandleReady has something to do. Level-triggered.
  int fd() const { return epoll_.get(); }

  Result<void> Send(const TrainPacket& packet) override;
  Result<void> Listen(std::uint16_t port) override;
  void OnArrival(std::function<void(const TrainArrival&)> callback) override;
  void HandleReady() override;
  std::uint64_t Dropped() override;

 private:
  struct Listener {
    UniqueFd fd;
    int family = 0;
    std::uint8_t protocol = 0;
  };

  RawTrainSocket() = default;
  Result<void> OpenListener(int family, std::uint8_t protocol, std::uint16_t port);
  void Receive(const Listener& listener);

  UniqueFd epoll_;
  SourceSockets senders_;
  std::uint16_t port_ = 0;
  std::vector<Listener> listeners_;
  std::uint64_t dropped_before_ = 0;  // by listeners that are closed
  std::function<void(const TrainArrival&)> on_arrival_;
};

}  // namespace espalier::agent
