#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "common/base/metrics.h"
#include "common/base/time/event_loop.h"
#include "common/fabric/topology.h"
#include "controller/telemetry/collector.h"
#include "controller/telemetry/polls/link_states.h"
#include "controller/telemetry/polls/poll_target.h"
#include "controller/telemetry/polls/port_readers.h"
#include "controller/telemetry/polls/port_readings.h"
#include "controller/telemetry/port_counters.h"
#include "controller/telemetry/switch_ports.h"

namespace espalier::telemetry {

// A source of a switch's ports, as the configuration lists it.
struct Poll {
  fabric::NodeId node;
  const PortReader* reader = nullptr;
  PollTarget target;
  std::vector<Exporter::Port> ports;  // listed by their names
};

// What the polled switches say of their links: states and loads.
//
// A source that has not answered for three intervals is silent: what it said is unknown then, never
// down. A port counts as down only if the topology file names it, or the source has said that it is
// up before; a port that is missing in an answer is unknown.
//
// Loads are those of PortCounters, each `counters_interval`. If several sources count a port, the
// first one to do so is used until it is silent. What polls say of a load goes before what sFlow
// says: sFlow's is used where polls have said nothing for three intervals of counters.
//
// Whatever switches answer, memory is O(ports of the topology + sources). Thread safety: one
// thread, but for Knows. The topology must outlive it.
class PolledSwitches {
 public:
  static constexpr std::size_t kMostUnmatched = 64;  // names that a source keeps

  struct Options {
    Duration interval = std::chrono::seconds(1);
    Duration counters_interval = std::chrono::seconds(5);
  };
  struct Source {
    TimePoint heard{};  // the beginning, until it answers
    bool is_silent = false;
    std::uint64_t answers = 0;
    std::uint64_t failures = 0;
    std::string problem;  // of the last poll; "": none
    std::size_t up = 0;   // ports that stand for links
    std::size_t down = 0;
    std::set<std::string> unmatched;  // names that stand for no link, in printable characters
  };

  PolledSwitches(const fabric::Topology& topology, std::vector<Poll> polls, const Options& options,
                 Metrics& metrics, TimePoint now);

  // Whether a port of this name of the switch stands for a link. Thread safety: any thread.
  bool Knows(std::size_t poll, std::string_view name) const {
    return ports_.FindName(poll, name).has_value();
  }
  // The source has answered, at this time.
  void HandleReadings(std::size_t poll, const PortReadings& readings, TimePoint at);
  // It has not, or its answer cannot be read.
  void HandleFailure(std::size_t poll, const std::string& problem);
  // To be called at least once a second.
  void Tick(TimePoint now);

  // The loads that were measured since the last call, of links between switches: by polls, else
  // those of sFlow that are given.
  std::vector<Collector::Load> TakeLoads(const std::vector<Collector::Load>& sflow, TimePoint now);
  LinkStates& links() { return links_; }

  const fabric::Topology& topology() const { return topology_; }
  const std::vector<Poll>& polls() const { return polls_; }
  const Source& SourceOf(std::size_t poll) const { return sources_[poll].source; }
  // Links of the switch whose port the last answer did not name, as "leaf0--spine1>spine1".
  std::vector<std::string> Missing(std::size_t poll) const;

 private:
  struct Port {
    PortState state = PortState::kUnknown;
    bool was_up = false;
    bool is_named = false;  // by the last answer
  };
  struct Entry {
    Source source;
    TimePoint counters_due{};
    std::unordered_map<std::size_t, Port> ports;  // by DirectedLink::Index
  };
  struct Counters {
    explicit Counters(Metrics& metrics);
    Counter& answers;
    Counter& failures;
    Counter& refused;
    Counter& left_out;
    Counter& implausible;
    Gauge& silent;
    Gauge& unmatched;
  };

  void SetState(Source& source, std::size_t out, Port& port, PortState state);
  void HandleState(Entry& entry, const SwitchPorts::Named& named, PortState state);
  void HandleCounters(std::size_t poll, fabric::DirectedLink out, const PortReading& port,
                      TimePoint at);
  void NoteUnmatched(std::size_t poll, const std::set<std::string>& names);

  const fabric::Topology& topology_;
  const std::vector<Poll> polls_;
  const Options options_;
  const TimePoint begin_;
  SwitchPorts ports_;  // constant, so that Knows needs no lock
  PortCounters port_counters_;
  LinkStates links_;
  std::vector<Entry> sources_;                               // by poll
  std::unordered_map<std::size_t, std::size_t> counted_by_;  // poll, by DirectedLink::Index of out
  std::unordered_map<std::size_t, TimePoint> loads_at_;      // by DirectedLink::Index
  Counters counters_;
};

}  // namespace espalier::telemetry
