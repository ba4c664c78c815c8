#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "common/base/ip_address.h"
#include "common/base/unique_fd.h"
#include "common/io/asio_event_loop.h"
#include "deploy/lab/traffic/segment_format.h"
#include "deploy/lab/traffic/steering.h"
#include "deploy/lab/traffic/traffic_report.h"

namespace espalier::traffic {

// Sends the bytes of one flow over TCP as an RDMA program sends messages: in segments, each
// acknowledged whole by the receiver before the next begins, over a connection from the source
// port in force. A new port takes effect at the next segment; where the path is dead, or the
// segment makes no progress and there is another port, the segment in flight is cut off and sent
// again from the new one. The receiver drops what it had already.
//
// Invariant: at most one segment is in flight; segments are acknowledged in order.
// Thread safety: the loop's thread.
class TcpSender {
 public:
  struct Options {
    std::uint32_t flow = 0;  // FlowPlan::index
    IpAddress source;
    IpAddress destination;
    std::uint16_t own_port = 0;  // without an agent's word
    std::int64_t segment_bytes = 1'000'000;
    std::int64_t epoch_bytes = 0;  // announced_bytes of its plan: what one epoch sends
  };
  // Calls on_acknowledged (never inside Send) with the bytes acknowledged in all.
  TcpSender(io::AsioEventLoop& loop, const Options& options, SteeredFlow steered,
            std::function<void(std::int64_t)> on_acknowledged);

  // More bytes to send, after those given before; no segment spans two calls.
  void Send(std::int64_t bytes);
  // The agent may have news.
  void HandleNews();
  // Called every kTick: progress to the agent, and a look for a stalled segment.
  void HandleTick();
  static constexpr std::chrono::milliseconds kTick{20};
  // No more will be sent: tells the agent and closes.
  void Finish();

  SentFlow Report() const;

 private:
  enum class Step { kIdle, kConnecting, kSending, kAwaitingAck, kPausing };

  void StartSegment();
  void Connect(std::uint16_t port);
  bool OpenSocket(std::uint16_t port);
  void AwaitWritable();
  void HandleWritable();
  void FinishConnecting();
  void SendMore();
  void HandleReadable();
  void HandleAck();
  void Retry();
  void Abandon();
  void CloseSocket();
  PortUse& Use(std::uint16_t port);
  std::uint16_t PortInForce() const;
  std::int64_t InFlightAcknowledged() const;
  void ReportProgress();
  void ReportTransport();

  io::AsioEventLoop& loop_;
  const Options options_;
  SteeredFlow steered_;
  std::function<void(std::int64_t)> on_acknowledged_;

  Step step_ = Step::kIdle;
  UniqueFd socket_;
  TimerPtr watch_;
  TimerPtr pause_;
  std::uint16_t port_ = 0;           // of the socket
  std::uint16_t avoided_ = 0;        // was taken by another flow of the same pair; 0: none
  std::vector<std::int64_t> queue_;  // segments not acknowledged yet, the one in flight first
  std::size_t queue_begin_ = 0;
  std::int64_t to_send_ = 0;    // bytes of the segments in the queue
  std::uint64_t sequence_ = 0;  // of the first in the queue
  std::int64_t written_ = 0;    // of the segment in flight, with headers
  std::int64_t header_bytes_ = 0;
  std::uint64_t ack_ = 0;
  std::size_t ack_bytes_ = 0;

  TimePoint last_progress_;
  std::int64_t last_acknowledged_ = 0;
  std::uint32_t old_retries_ = 0;  // of earlier connections
  std::uint32_t retries_ = 0;
  int ticks_ = 0;
  SentFlow report_;
};

}  // namespace espalier::traffic
