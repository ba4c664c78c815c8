#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/base/address/ip_address.h"
#include "common/base/metrics.h"
#include "common/base/result.h"
#include "common/base/time/event_loop.h"
#include "common/fabric/ecmp/path_map.h"
#include "common/fabric/topology.h"
#include "controller/state/state.h"

namespace espalier::controller {

// Of which flows switches sampled packets, on which links, as a telemetry feed reports it.
struct SightingReport {
  struct OnLink {
    fabric::DirectedLink link;
    std::uint32_t samples = 0;
  };
  struct Seen {
    IpAddress source;
    IpAddress destination;
    std::uint8_t protocol = 0;
    std::uint16_t source_port = 0;
    std::uint16_t destination_port = 0;
    std::uint32_t queue_pair = 0;  // the destination's, of RoCEv2; 0: none
    std::int64_t bps = 0;          // on the link with most samples
    double error = 0;              // of bps, relative, at 95 % confidence
    std::vector<OnLink> links;
  };
  std::string source;  // of the feed
  Duration window{};   // the packets were sampled in this time before the report
  std::vector<Seen> flows;
};

// What switches say of a flow.
struct Attestation {
  enum class State : std::uint8_t {
    kNotSeen,    // not since its ports or paths last changed
    kAsDecided,  // on a link of a decided path, and nowhere else
    kElsewhere,  // three samples or more on other links, or from other ports
  };
  enum class Cause : std::uint8_t {
    kNone,
    kPortNotOnWire,  // from a port that is not the decided one: the driver or program ignores it
    kPathMapStale,   // from the decided port, on links that the port is not known to take
    kSpread,         // from the decided port, on its links and on others: a switch spreads packets
  };
  State state = State::kNotSeen;
  Cause cause = Cause::kNone;
  std::uint32_t samples = 0;                // of the last window, on links between switches
  std::vector<fabric::DirectedLink> links;  // that carried it, between switches
  TimePoint at{};                           // of the report
};
std::string_view AttestationName(Attestation::State state);  // "AS_DECIDED", ...

// Compares what is decided for flows with what switches saw of them, and lists large flows that no
// agent has reported.
//
// A flow is judged once its ports and paths have not changed for the window of the report and
// kSettled before it, as samples come late. A sample misleads with a probability of at most one in
// a hundred (a wrong map of ports, a late one), so three unanimous ones are wrong with 10^-6. What
// a feed says moves no flow and takes no link out of use. A stale path map has the port verified by
// probes, and the other findings are events and a doubt of the fabric's health.
//
// Thread safety: the controller's loop thread. The references must outlive it. Memory: O(flows +
// kMostUnannounced). Complexity: O(open flows + flows of the report) for a report.
class Sightings {
 public:
  static constexpr std::uint32_t kEnough = 3;  // samples for a verdict
  static constexpr Duration kSettled = std::chrono::seconds(3);
  static constexpr Duration kMemory = std::chrono::seconds(30);
  static constexpr std::size_t kMostFlows = 4'096;  // of a report
  static constexpr std::size_t kMostUnannounced = 4'096;
  static constexpr std::size_t kMostFeeds = 64;
  static constexpr Duration kFeedIsMissedFor = std::chrono::hours(24);
  // A flow that nobody reported counts from this part of the slowest link of the fabric.
  static constexpr double kLeastPart = 0.01;

  // `verify`: has probes show which links the port takes now.
  using Verify = std::function<void(const fabric::PortKey& key, std::uint16_t port)>;
  Sightings(State& state, Verify verify, Metrics& metrics);

  // Takes a report as a whole or not at all. Errors: kInvalidArgument for a source or window out of
  // range, and for more than kMostFlows flows.
  Result<void> HandleReport(const SightingReport& report, TimePoint now);
  // Forgets what is older than kMemory. To be called periodically.
  void Tick(TimePoint now);

  // What is known of an open flow.
  Attestation Of(FlowSlot slot) const;

  struct Unannounced {
    SightingReport::Seen seen;
    TimePoint first{};
    TimePoint last{};
  };
  // Large flows that no agent reports, in the order of their addresses and ports.
  std::vector<const Unannounced*> ListUnannounced() const;
  // How many flows were seen, in the last reports, on other links than decided.
  std::size_t elsewhere() const;
  std::size_t as_decided() const;
  // When each feed has last reported, by its name: of the last day, kMostFeeds at most.
  const std::map<std::string, TimePoint>& feeds() const { return feeds_; }
  // As LinkTester::Doubts.
  std::vector<std::string> Doubts() const;

 private:
  struct Record {
    AgentId agent;
    wire::LocalFlowId local;
    std::uint64_t digest = 0;  // of its ports and paths
    TimePoint stable_since{};
    Attestation attestation;
  };
  struct Counted {
    std::uint32_t decided = 0;
    std::uint32_t elsewhere = 0;                 // from a decided port
    std::uint32_t other_port = 0;                // from a port that no subflow has
    std::uint16_t stale_port = 0;                // a decided port that was seen elsewhere
    std::map<std::size_t, std::uint32_t> links;  // by DirectedLink::Index
  };
  using Ends = std::pair<IpAddress, IpAddress>;
  using UnannouncedKey =
      std::tuple<IpAddress, IpAddress, std::uint8_t, std::uint16_t, std::uint16_t, std::uint32_t>;

  std::map<Ends, std::vector<FlowSlot>> FlowsByEnds() const;
  std::optional<FlowSlot> Match(const std::vector<FlowSlot>& flows,
                                const SightingReport::Seen& seen) const;
  void Count(FlowSlot slot, const SightingReport::Seen& seen, Counted& counted) const;
  void Judge(FlowSlot slot, const Counted& counted, Duration window, TimePoint now);
  void Announce(const Record& record, FlowSlot slot, const Counted& counted, TimePoint now);
  void NoteUnannounced(const SightingReport::Seen& seen, TimePoint now);
  std::uint64_t DigestOf(const Flow& flow) const;

  State& state_;
  const Verify verify_;
  std::int64_t least_bps_ = 0;
  std::unordered_map<std::size_t, Record> records_;  // by FlowSlot::Index
  std::map<UnannouncedKey, Unannounced> unannounced_;
  std::map<std::string, TimePoint> feeds_;
  Counter& reports_;
  Gauge& as_decided_;
  Gauge& elsewhere_;
  Gauge& unannounced_flows_;
};

}  // namespace espalier::controller
