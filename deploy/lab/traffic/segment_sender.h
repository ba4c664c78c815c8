#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "common/base/ip_address.h"
#include "common/loop/asio_event_loop.h"
#include "deploy/lab/traffic/agent_connection.h"
#include "deploy/lab/traffic/segment_connection.h"
#include "deploy/lab/traffic/traffic_report.h"

namespace espalier::traffic {

// Sends the bytes of one flow over TCP as an RDMA program sends messages: in segments, each
// acknowledged whole by the receiver. A segment goes over a connection from the source port that
// is in force when it begins; those begun before a change of port end on the old connection, side
// by side with the next. Where the path is dead, or a connection that is not the current one makes
// no progress, its segments are cut off and sent again over the port in force. The receiver drops
// what it had already.
//
// A flow over several paths has a connection for each; a segment goes over the one that has least
// on its way. All together keep to the rate that the agent names (SO_MAX_PACING_RATE).
//
// Thread safety: the loop's thread.
class SegmentSender {
 public:
  struct Options {
    std::uint32_t flow = 0;  // WorkloadFlow::index
    IpAddress source;
    IpAddress destination;
    std::vector<std::uint16_t> own_ports;  // one a path, without an agent's word
    std::int64_t segment_bytes = 1'000'000;
    std::int64_t epoch_bytes = 0;  // announced_bytes of its plan: what one epoch sends
  };
  // Calls on_acknowledged (never inside Send) with the bytes acknowledged in all.
  SegmentSender(io::AsioEventLoop& loop, const Options& options, SteeredFlow steered,
                std::function<void(std::int64_t)> on_acknowledged);

  // More bytes to send, after those given before; no segment spans two calls.
  void Send(std::int64_t bytes);
  // The agent may have news.
  void HandleNews();
  // Called every kTick: progress to the agent, and a look for connections that are stuck.
  void HandleTick();
  static constexpr std::chrono::milliseconds kTick{20};
  // No more will be sent: tells the agent and closes.
  void Finish();

  const SentFlow& Report() const { return report_; }

 private:
  struct PortChoice {
    std::uint16_t port;
    bool steered;
  };

  // At least one.
  std::vector<PortChoice> PortsInForce() const;
  // One of them is its port.
  bool IsInForce(const SegmentConnection& connection) const;
  void Pump();
  // Opens connections that are missing, and closes those that are needed no more.
  void UpdateConnections();
  void LimitRates();
  // Of the connections in force, the one that takes the next segment; none for now.
  SegmentConnection* ReadyConnection();
  bool OpenConnection(PortChoice choice);
  void HandleAcknowledged(SegmentConnection* connection, const Segment& segment);
  void HandleBroken(SegmentConnection* connection);
  // Takes back what it has not delivered and closes it.
  void Abandon(SegmentConnection* connection);
  void Bury(SegmentConnection* connection);
  void Pause();
  PortUse& Use(const SegmentConnection::Options& options);
  void ReportProgress();
  void ReportTransport();

  io::AsioEventLoop& loop_;
  const Options options_;
  SteeredFlow steered_;
  std::function<void(std::int64_t)> on_acknowledged_;

  std::uint64_t next_sequence_ = 0;
  std::deque<Segment> pending_;  // not with any connection, ascending
  std::int64_t to_send_ = 0;     // bytes given and not acknowledged
  // Those in force, and those before them that have segments left to deliver; the last one took
  // the last segment.
  std::vector<std::unique_ptr<SegmentConnection>> connections_;
  std::vector<std::unique_ptr<SegmentConnection>> buried_;  // closed inside their own handlers
  TimerPtr pause_;
  std::uint16_t avoided_ = 0;      // was taken by another flow of the same pair; 0: none
  std::uint32_t old_retries_ = 0;  // of connections that are gone
  int ticks_ = 0;
  SentFlow report_;
};

}  // namespace espalier::traffic
