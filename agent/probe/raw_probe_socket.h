#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>

#include "agent/probe/probe_socket.h"
#include "common/base/result.h"
#include "common/base/unique_fd.h"

namespace espalier::agent {

// Sends and receives on raw sockets (CAP_NET_RAW): one for each source address to send, bound to it
// so that the host routes by it, and one for each address family to receive all ICMP errors.
// Thread safety: the agent's loop thread.
class RawProbeSocket : public ProbeSocket {
 public:
  // Errors: kPermissionDenied without CAP_NET_RAW. A host without IPv6 probes over IPv4 only.
  static Result<std::unique_ptr<RawProbeSocket>> Open();

  // Readable when HandleReady has something to do. Level-triggered.
  int fd() const { return epoll_.get(); }
  // Bounded work; never blocks.
  void HandleReady();

  // Further errors: kFailedPrecondition if the host has no route, kResourceExhausted for more than
  // 256 source addresses.
  Result<void> Send(const Probe& probe) override;
  void OnReply(std::function<void(const ProbeReply&)> callback) override;

 private:
  RawProbeSocket() = default;
  Result<void> OpenListener(int family);
  Result<int> SenderFor(const IpAddress& source);
  void Receive(int listener, bool is_v4);

  UniqueFd epoll_;
  UniqueFd listener_v4_;
  UniqueFd listener_v6_;
  std::map<IpAddress, UniqueFd> senders_;
  std::uint16_t identification_ = 0;
  std::function<void(const ProbeReply&)> on_reply_;
};

}  // namespace espalier::agent
