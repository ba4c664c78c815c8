#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/address/ip_address.h"
#include "common/base/time/event_loop.h"
#include "common/fabric/topology.h"
#include "controller/telemetry/sflow.h"

namespace espalier::telemetry {

// A switch that sends sFlow, as the configuration lists it.
struct Exporter {
  fabric::NodeId node;
  IpAddress agent;   // the address that its datagrams name
  IpAddress source;  // the address that they come from
  struct Port {
    std::uint32_t index = 0;   // ifIndex; 0: the port is listed by its name
    fabric::DirectedLink out;  // the direction of the link that leaves the switch there
    std::string name{};
  };
  std::vector<Port> ports;  // beside those that the topology and port names tell
};

// The switches that send sFlow: who may send, which datagrams were lost, and who is silent.
//
// A datagram counts if a listed switch names itself in it and it comes from that switch's address.
// Both can be forged where strangers reach the collector: keep it on the management network.
// Sequence numbers are those of an agent and sub-agent. A number that was seen is a repetition; one
// that is more than kWindow behind is too late. A sub-agent has started again if its uptime falls
// in two datagrams that continue each other, so that no single datagram makes it forget.
//
// Thread safety: none. Memory: O(exporters x kMostSubAgents).
class Exporters {
 public:
  static constexpr std::size_t kMostSubAgents = 64;
  static constexpr std::uint32_t kWindow = 64;
  static constexpr Duration kSilentAfter = std::chrono::seconds(30);

  enum class Verdict : std::uint8_t {
    kTake,
    kTakeRestarted,  // take it; what is remembered of the switch's ports and counters is void
    kStranger,
    kRepeated,
    kLate,
    kTooManySubAgents,
  };
  struct Judged {
    Verdict verdict = Verdict::kStranger;
    std::size_t exporter = 0;  // if it is taken
  };
  struct State {
    std::uint64_t datagrams = 0;
    std::uint64_t lost = 0;  // by gaps of sequences; those that come late are taken off
    std::uint64_t restarts = 0;
    std::optional<TimePoint> heard;
    bool IsSilent(TimePoint now) const { return !heard || now - *heard >= kSilentAfter; }
  };

  explicit Exporters(std::vector<Exporter> exporters);

  // Classifies a datagram by its head.
  Judged Judge(const IpAddress& source, const SflowDatagram& datagram, TimePoint now);

  const std::vector<Exporter>& list() const { return exporters_; }
  const State& StateOf(std::size_t exporter) const { return states_[exporter]; }

 private:
  struct SubAgent {
    std::uint32_t sequence = 0;  // the highest
    std::uint32_t uptime_ms = 0;
    std::uint64_t seen = 1;  // bit i: sequence - i has come
    // The sequence and uptime of a datagram that looks like that of a restart.
    std::optional<std::pair<std::uint32_t, std::uint32_t>> restart;
  };

  Verdict JudgeSequence(SubAgent& sub_agent, const SflowDatagram& datagram, State& state);

  std::vector<Exporter> exporters_;
  std::map<std::pair<IpAddress, IpAddress>, std::size_t> by_addresses_;  // agent, source
  std::vector<State> states_;
  std::vector<std::map<std::uint32_t, SubAgent>> sub_agents_;
};

}  // namespace espalier::telemetry
