#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "agent/flows/flow_meter.h"
#include "agent/flows/port_table.h"
#include "agent/flows/transport_state.h"
#include "common/base/time/event_loop.h"
#include "proto/messages.h"

namespace espalier::agent {

// Counts the segments that the kernel's sockets of TCP flows send again. A socket counts for the
// path of a flow whose five-tuple it has and whose user it belongs to.
//
// Every kInterval up to kMostSockets connections of flows with a path set are due, in equal parts
// for the users that have some, each user's in turn. They are read kMostAtOnce at a call, so that
// one call takes below a millisecond.
// Thread safety: the agent's loop thread. Complexity: O(flows log flows) every kInterval.
class SocketRepeats {
 public:
  static constexpr Duration kInterval = std::chrono::milliseconds(500);
  static constexpr std::size_t kMostSockets = 256;
  static constexpr std::size_t kMostAtOnce = 64;

  struct Count {
    std::uint32_t repeats = 0;
    std::uint32_t rtt_us = 0;
  };

  explicit SocketRepeats(TransportReaders readers) : readers_(std::move(readers)) {}

  // Input: all elephants.
  void HandleMeasures(TimePoint now, std::span<const FlowMeasure> flows, const PortTable& ports);
  // Returns what the flow has sent again from this port since the last call; none if the latest
  // reading has found no socket of it. What a socket had sent again before it was read first does
  // not count.
  std::optional<Count> Take(wire::LocalFlowId flow, std::uint16_t port);

 private:
  using Key = std::pair<wire::LocalFlowId, std::uint16_t>;  // flow and port
  struct Subject {
    Key key;
    std::uint32_t user = kUnknownUser;
    std::uint64_t payer = 0;
    TcpConnection connection;
  };
  struct Reading {
    std::uint64_t cookie = 0;
    std::uint32_t total = 0;
    Count count;  // since it was taken last
  };

  // By payer, and then by key.
  static std::vector<Subject> FindSubjects(std::span<const FlowMeasure> flows,
                                           const PortTable& ports);
  void ForgetOthers(std::span<const Subject> subjects);
  void Choose(std::vector<Subject> subjects);
  void ReadDue();
  void Handle(const Subject& subject, const std::optional<TcpSocket>& socket);

  const TransportReaders readers_;
  TimePoint next_{};
  std::vector<Subject> due_;
  std::map<std::uint64_t, Key> latest_;  // that was due, by payer
  std::map<Key, Reading> readings_;
};

}  // namespace espalier::agent
