#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "common/base/address/ip_address.h"
#include "common/base/result.h"
#include "common/base/unique_fd.h"
#include "common/loop/asio_event_loop.h"
#include "deploy/lab/workload/traffic_report.h"

namespace espalier::traffic {

// Counts the datagrams of every UDP flow to one host, each sequence number once. Other packets to
// the port (probes) are ignored.
// Thread safety: the loop's thread.
class UdpReceiver {
 public:
  static Result<std::unique_ptr<UdpReceiver>> Listen(io::AsioEventLoop& loop,
                                                     const IpAddress& address,
                                                     const std::vector<std::uint32_t>& flows);
  ~UdpReceiver() { watch_.reset(); }

  std::vector<ReceivedFlow> Report() const;

 private:
  struct Flow {
    ReceivedFlow received;
    std::vector<bool> seen;  // by sequence number
  };

  UdpReceiver(io::AsioEventLoop& loop, UniqueFd socket);
  void Read();

  UniqueFd socket_;
  TimerPtr watch_;
  std::map<std::uint32_t, Flow> flows_;
};

}  // namespace espalier::traffic
