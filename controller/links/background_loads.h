#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/metrics.h"
#include "common/base/result.h"
#include "common/base/time/event_loop.h"
#include "common/fabric/topology.h"
#include "controller/state/state.h"

namespace espalier::controller {

// What a telemetry feed measured on links between switches.
struct LinkLoadReport {
  struct Entry {
    fabric::DirectedLink link;
    double bps = 0;  // the mean since the source's last report
  };
  std::string source;  // 1 to kMaxSourceCharacters printable characters
  std::vector<Entry> loads;
  // Whether `bps` counts only traffic that Espalier does not steer; else it counts all traffic.
  bool only_background = false;
  // After this time the loads are unknown, unless they are reported again.
  Duration max_age{};
};

// Owns the background load of each directed link between switches: the traffic that Espalier does
// not steer, such as storage, unmanaged hosts, and mice in sum. It puts the loads in force into
// FlowPaths::SetBaseLoads, where all assignments find them.
//
// Of a report that counts all traffic, the background is what remains after taking off, first, what
// the agents' flows achieved on the paths of their ports since the source's last report (with a
// sixteenth for headers), and second, what tree edges reserve. The lesser of the last two results
// counts: agents and switches are not read at the same moments, and a flow may take its new port
// later than it is told. Agents tell of a change of rate after 0.1 to 0.3 s, so reports that come
// faster than kLeastSpan are joined, and their mean counts as one. Only a first report on a link
// without own flows counts at once.
//
// Loads in force are whole sixteenths of the link's rate. To keep small changes from causing work,
// one changes only if a report differs by more than a sixteenth, and it falls only after no report
// within kHold was as high. A load whose report is older than its max_age is unknown, which counts
// as none, and its source is in State::silent_feeds until it reports again, for a day at most. The
// latest report on a link counts, whatever its source.
//
// Memory: O(links). Deterministic: all times are arguments. Thread safety: the controller's loop
// thread. The references must outlive it.
class BackgroundLoads {
 public:
  static constexpr std::size_t kMaxSourceCharacters = 63;
  static constexpr Duration kLeastMaxAge = std::chrono::milliseconds(100);
  static constexpr Duration kGreatestMaxAge = std::chrono::hours(1);
  static constexpr Duration kHold = std::chrono::seconds(5);
  static constexpr Duration kLeastSpan = std::chrono::milliseconds(400);
  static constexpr Duration kFeedIsMissedFor = std::chrono::hours(24);
  static constexpr std::size_t kMostSilentFeeds = 64;

  // `on_change` is called after loads in force have changed, with the number of links.
  BackgroundLoads(State& state, Metrics& metrics, std::function<void(std::size_t)> on_change);

  // Takes a report as a whole, or not at all. Up to a tenth above a link's rate is taken as the
  // rate, since counters are not read at equal intervals.
  // Errors: kInvalidArgument for a source or max_age out of range, a link that joins a host, a link
  // that occurs twice, and a load that is negative, not finite or greater than that.
  Result<void> HandleReport(const LinkLoadReport& report, TimePoint now);
  // Forgets loads that are too old. To be called periodically, as it also samples the rates of
  // flows: O(flows x hops) while a report that counts all traffic is in force, else O(links) at
  // most.
  void Tick(TimePoint now);

  // What is known about a directed link.
  struct Background {
    std::int64_t bps = 0;           // in force
    std::int64_t reported_bps = 0;  // of the last report, without own traffic
    std::string source;
    TimePoint measured;
  };
  std::optional<Background> Find(fabric::DirectedLink link) const;  // none: unknown

 private:
  struct Entry {
    bool is_known = false;
    bool counts_all = false;
    std::string source;
    TimePoint measured;
    Duration max_age{};
    std::int64_t background_bps = 0;  // of the last report
    std::int64_t candidate_bps = 0;   // the same before it was compared with the one before
    std::int64_t steps = 0;           // in force
    TimePoint last_high{};            // when a report last was about as high
    // Of reports that count all traffic: the start of the span that is not judged yet, own_bits_
    // then, and what the switches have counted since.
    TimePoint span_start{};
    double own_bits = 0;
    double total_bits = 0;
  };

  Result<void> Check(const LinkLoadReport& report) const;
  std::int64_t RateOf(std::size_t link) const;
  // Adds up what own flows have sent since the last call.
  void SampleOwnTraffic(TimePoint now);
  // What remains of a measured load without own traffic; within a span, of the one before. Notes it
  // in the entry.
  std::int64_t BackgroundOf(std::size_t link, std::int64_t total_bps, TimePoint now);
  // Returns whether the load in force has changed.
  bool Apply(Entry& entry, std::size_t link, TimePoint now);
  void CountSource(const std::string& source, int links, TimePoint now);
  void Publish(std::size_t changed);

  State& state_;
  std::function<void(std::size_t)> on_change_;
  std::vector<Entry> entries_;                  // by DirectedLink::Index
  std::map<std::string, std::size_t> sources_;  // known links by source
  std::size_t counting_all_ = 0;                // known links of reports that count all traffic
  std::vector<double> own_bps_;                 // by directed link, at the last sample
  std::vector<double> reserved_bps_;
  std::vector<double> own_bits_;  // the integral of own_bps_
  TimePoint sampled_{};
  Gauge& loaded_links_;
};

}  // namespace espalier::controller
