#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "common/base/address/ip_address.h"
#include "common/loop/asio_event_loop.h"
#include "deploy/lab/traffic/agent_connection.h"
#include "deploy/lab/traffic/segment_connection.h"
#include "deploy/lab/workload/traffic_report.h"

namespace espalier::traffic {

// Sends the bytes of one flow over TCP as an RDMA program sends messages: in segments, each of
// which the receiver acknowledges as a whole. A segment uses a connection from the source port that
// is in force when it begins. Segments that began before a change of port finish on the old
// connection, in parallel with the next ones. If the path is dead, or an old connection makes no
// progress, its segments are aborted and sent again from the port in force. The receiver drops
// duplicates.
//
// A split flow has a connection for each path; a segment uses the one that then has the fewest
// bytes in flight for the weight of its path. Together they keep the agent's rate limit
// (SO_MAX_PACING_RATE).
//
// Thread safety: the loop's thread.
class SegmentSender {
 public:
  struct Options {
    std::uint32_t flow = 0;  // WorkloadFlow::index
    IpAddress source;
    IpAddress destination;
    std::vector<std::uint16_t> own_ports;  // one per path, used without ports from the agent
    std::int64_t segment_bytes = 1'000'000;
    std::int64_t epoch_bytes = 0;  // what one epoch of a ring sends; 0: only what Send was given
    // Whether the bytes that are still to be sent are announced to the agent. Otherwise it sees
    // only those of the segments that were begun and are not acknowledged, as with a queue pair.
    bool announces_remaining = true;
    // Whether the connections live as long as the flow: they are opened before the first byte, and
    // follow the ports in force while there is nothing to send.
    bool stays_connected = false;
    // How long the first byte waits for the agent's first ports. What begins without them stays on
    // the paths of ECMP until its segments end.
    Duration first_ports_patience = std::chrono::milliseconds(20);
  };
  // Calls on_acknowledged (never inside Send) with the total bytes acknowledged.
  SegmentSender(io::AsioEventLoop& loop, const Options& options, SteeredFlow steered,
                std::function<void(std::int64_t)> on_acknowledged);

  // Opens the connections, if they are to stay.
  void Connect();
  // Adds bytes to send, after those given before; no segment spans two calls.
  void Send(std::int64_t bytes);
  // Handles a possible change of the path set.
  void HandleNews();
  // Reports progress to the agent and checks for stuck connections. Call it every kTick.
  void HandleTick();
  static constexpr std::chrono::milliseconds kTick{20};
  // Ends the flow: notifies the agent and closes the connections.
  void Finish();

  const SentFlow& Report() const { return report_; }
  // The ports in force.
  std::vector<std::uint16_t> Ports() const;

 private:
  struct PortChoice {
    std::uint16_t port;
    bool steered;
    std::uint16_t weight = 1;  // the part of the bytes in flight, in proportion to the others
  };

  // At least one port.
  std::vector<PortChoice> PortsInForce() const;
  // True if the connection's port is one of these.
  bool IsInForce(const SegmentConnection& connection) const;
  // That of its port; 0: it is not in force.
  std::uint16_t WeightOf(const SegmentConnection& connection) const;
  void Pump();
  // Whether the agent may still tell the first ports before the first byte is sent.
  bool IsWaitingForPorts() const;
  // Opens missing connections and closes those that are not needed.
  void UpdateConnections();
  void LimitRates();
  // The connection in force that takes the next segment, of this length; null if none can at the
  // moment.
  SegmentConnection* ReadyConnection(std::int64_t length);
  bool OpenConnection(PortChoice choice);
  void HandleAcknowledged(SegmentConnection* connection, const Segment& segment);
  void HandleBroken(SegmentConnection* connection);
  // Takes back the undelivered segments of a connection and closes it.
  void Abandon(SegmentConnection* connection);
  void Bury(SegmentConnection* connection);
  void Pause();
  std::int64_t OutstandingBytes() const;
  PortUse& Use(const SegmentConnection::Options& options);
  void ReportProgress();
  void ReportTransport();

  io::AsioEventLoop& loop_;
  const Options options_;
  SteeredFlow steered_;
  std::function<void(std::int64_t)> on_acknowledged_;

  std::uint64_t next_sequence_ = 0;
  std::deque<Segment> pending_;  // not on any connection, ascending
  std::int64_t to_send_ = 0;     // bytes given and not acknowledged
  // Connections in force, and older ones with undelivered segments; the last one took the last
  // segment.
  std::vector<std::unique_ptr<SegmentConnection>> connections_;
  std::vector<std::unique_ptr<SegmentConnection>> buried_;  // closed inside their own handlers
  TimePoint first_bytes_{};  // when there was something to send first
  TimerPtr pause_;
  std::uint16_t avoided_ = 0;      // port in use by another flow of the same pair; 0: none
  std::uint32_t old_retries_ = 0;  // of closed connections
  SentFlow report_;
};

}  // namespace espalier::traffic
