#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "common/base/address/ip_address.h"
#include "common/base/result.h"
#include "common/base/unique_fd.h"
#include "common/loop/asio_event_loop.h"
#include "deploy/lab/workload/traffic_report.h"

namespace espalier::traffic {

// Receives the segments of every TCP flow to one host. A segment counts once, when it has arrived
// whole. Repeated segments, on any connection, are acknowledged again and dropped.
// Thread safety: the loop's thread.
class SegmentReceiver {
 public:
  // Called with the total bytes of one flow that were received without a gap.
  using OnReceived = std::function<void(std::uint32_t flow, std::int64_t total_bytes)>;

  // Listens on address:4791 for the flows with these numbers; connections of other flows are
  // closed. Errors: kInternal, kPermissionDenied (bind).
  static Result<std::unique_ptr<SegmentReceiver>> Listen(io::AsioEventLoop& loop,
                                                         const IpAddress& address,
                                                         const std::vector<std::uint32_t>& flows,
                                                         OnReceived on_received);
  ~SegmentReceiver();

  std::vector<ReceivedFlow> Report() const;

 private:
  class Connection;

  SegmentReceiver(io::AsioEventLoop& loop, UniqueFd socket, OnReceived on_received);

  struct Flow {
    ReceivedFlow received;
    std::uint64_t next = 0;        // all earlier segments have arrived
    std::int64_t whole_bytes = 0;  // bytes of those
    std::map<std::uint64_t, std::int64_t>
        early;  // lengths of those that arrived before an earlier one
  };

  void Accept();
  bool HasFlow(std::uint32_t flow) const { return flows_.contains(flow); }
  void HandleSegment(std::uint32_t flow, std::uint64_t sequence, std::int64_t length);

  io::AsioEventLoop& loop_;
  UniqueFd socket_;
  TimerPtr watch_;
  OnReceived on_received_;
  std::map<std::uint32_t, Flow> flows_;
  std::map<int, std::unique_ptr<Connection>> connections_;  // by descriptor
};

}  // namespace espalier::traffic
