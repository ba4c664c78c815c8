#pragma once

#include <cstdint>
#include <functional>

#include "common/base/address/ip_address.h"
#include "common/base/unique_fd.h"
#include "common/base/units.h"
#include "common/loop/asio_event_loop.h"
#include "deploy/lab/traffic/agent_connection.h"
#include "deploy/lab/workload/traffic_report.h"

namespace espalier::traffic {

// Sends the bytes of one flow as datagrams of kDatagramBytes at an even rate, without
// acknowledgement. A new port takes effect at the next burst, 2 ms away at most.
// Thread safety: the loop's thread.
class UdpSender {
 public:
  static constexpr std::int64_t kDatagramBytes = 1400;

  struct Options {
    std::uint32_t flow = 0;
    IpAddress source;
    IpAddress destination;
    std::uint16_t own_port = 0;
    std::int64_t bytes = 0;
    BitsPerSecond rate;
  };
  // Calls on_done once, when all bytes are sent.
  UdpSender(io::AsioEventLoop& loop, const Options& options, SteeredFlow steered,
            std::function<void()> on_done);

  void Start();
  void Finish();
  SentFlow Report() const { return report_; }

 private:
  void Burst();
  bool OpenSocket();
  bool SendOne();
  void CountOne();

  io::AsioEventLoop& loop_;
  const Options options_;
  SteeredFlow steered_;
  std::function<void()> on_done_;
  UniqueFd socket_;
  TimerPtr timer_;
  TimePoint start_;
  std::uint16_t port_ = 0;
  SentFlow report_;
};

}  // namespace espalier::traffic
