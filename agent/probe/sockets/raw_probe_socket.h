#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "agent/probe/probe_socket.h"
#include "agent/probe/sockets/source_sockets.h"
#include "common/base/result.h"
#include "common/base/unique_fd.h"

namespace espalier::agent {

// Sends and receives on raw sockets (CAP_NET_RAW): one for each source address to send, bound to it
// so that the host routes by it, and one for each address family to receive all ICMP errors.
// Thread safety: the agent's loop thread.
class RawProbeSocket : public ProbeSocket {
 public:
  // `is_own`: whether an address is one of the NICs that the agent watches; probes from others are
  // refused, whoever names them.
  // Errors: kPermissionDenied without CAP_NET_RAW. A host without IPv6 probes over IPv4 only.
  // `interface_of`: the number of the interface by which a packet of the probe's flow would leave,
  // as the kernel routes raw sockets without ports; 0, or empty: there is no choice. Probes for
  // which it fails are not sent.
  using IsOwn = std::function<bool(const IpAddress&)>;
  using InterfaceOf = std::function<Result<unsigned>(const Probe& probe)>;
  static Result<std::unique_ptr<RawProbeSocket>> Open(IsOwn is_own, InterfaceOf interface_of = {});

  // Readable when HandleReady has something to do. Level-triggered.
  int fd() const { return epoll_.get(); }
  // Bounded work; never blocks.
  void HandleReady();

  // Further errors: kFailedPrecondition if the host has no route.
  Result<ProbeMark> Send(const Probe& probe) override;
  void OnReply(std::function<void(const ProbeReply&)> callback) override;

 private:
  RawProbeSocket(IsOwn is_own, InterfaceOf interface_of)
      : is_own_(std::move(is_own)), interface_of_(std::move(interface_of)) {}
  Result<void> OpenListener(int family);
  void Receive(int listener, bool is_v4);
  std::uint32_t DrawWord();

  UniqueFd epoll_;
  UniqueFd listener_v4_;
  UniqueFd listener_v6_;
  const IsOwn is_own_;
  const InterfaceOf interface_of_;
  SourceSockets senders_;
  std::array<std::uint32_t, 64> random_{};
  std::size_t random_left_ = 0;  // words at the end of random_ that were not used
  std::function<void(const ProbeReply&)> on_reply_;
};

}  // namespace espalier::agent
