#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/base/event_loop.h"
#include "common/fabric/topology.h"

namespace espalier::controller {

// What a host measured of one subflow that had something to send during the whole measurement.
struct PathSample {
  static constexpr std::size_t kMostLinks = 10;

  std::uint64_t subflow = 0;  // any number that tells subflows apart
  std::uint32_t job = 0;
  fabric::NodeId source;       // NIC
  fabric::NodeId destination;  // NIC
  // DirectedLink::Index of the links of its path, the NICs' links first and last.
  std::array<std::uint32_t, kMostLinks> links{};
  std::size_t link_count = 0;
  double share = 1;  // of a flow: 1/k for one of k subflows
  double bps = 0;
  double retries_per_second = 0;     // retransmissions of the subflow
  double congestion_per_second = 0;  // CNPs and out-of-sequence packets of its device
  double rtt_us = 0;                 // 0: unknown

  std::span<const std::uint32_t> Links() const { return std::span(links).first(link_count); }
  // Without those of the NICs.
  std::span<const std::uint32_t> FabricLinks() const { return Links().subspan(1, link_count - 2); }
};

struct PathQualityOptions {
  Duration freshness = std::chrono::milliseconds(1'200);  // for which a sample counts
  std::size_t siblings = 3;  // as many must have been measured besides a subflow
  // A value is clearly worse than its siblings' median if it differs by more than so many standard
  // deviations (estimated by the median absolute deviation), and by at least the margins below.
  double deviations = 3.5;
  double rate_margin = 0.25;  // of the median
  double retries_margin = 2;  // a second
  double rtt_margin = 1;      // of the median
  double rtt_margin_us = 50;
  // A path that loses packets is fast from time to time, and TCP repeats nothing while it waits
  // ever longer for an acknowledgement. So as many samples without such a sign keep the count of
  // bad ones, as long as the rate, smoothed exponentially with this time constant, is clearly
  // worse.
  int most_quiet = 3;
  Duration smoothing = std::chrono::seconds(1);
  Duration memory = std::chrono::minutes(1);  // of the bad paths of a NIC
  // For which a path that a host has left counts, and as how many bad samples.
  Duration left_memory = std::chrono::seconds(10);
  int left_evidence = 2;
  Duration trial = std::chrono::seconds(2);  // of the path that it takes instead
};

// Judges the paths of subflows by comparison with their siblings: subflows of the same job, or else
// of all jobs, whose paths have the same length and the same slowest link.
//
// A subflow is bad if its rate is clearly worse than its siblings', below what water-filling would
// give it at least (an even share of each link of its path among the subflows that send), and if
// the network shows signs of it: more retransmissions, congestion notifications or a longer
// round-trip time than its siblings have. A program that sends less than it could shows none, and
// slows down all subflows of its job alike.
//
// A bad subflow accuses its path, unless the NIC at one of its ends is to blame: most of its
// subflows are bad, on paths that have no link in common. So does a subflow whose host has left the
// path on its own, once it delivers on another path: its ends cannot be to blame. Without that, a
// link of which all flows save themselves would never be accused, and get other flows.
//
// Memory: O(subflows). Deterministic: all times are arguments. Thread safety: none.
class PathQuality {
 public:
  // `capacities_bps`: by DirectedLink::Index.
  explicit PathQuality(std::vector<double> capacities_bps, const PathQualityOptions& options = {});

  void Take(const PathSample& sample, TimePoint now);
  // The host of this subflow has left the path of the sample, of which only that matters. If probes
  // on it were answered, the acknowledgements may be lost elsewhere: then it counts only as far as
  // the path has been measured as bad, as probes pass a path that loses one packet in ten, too.
  void HandleLeft(const PathSample& sample, bool was_answered, TimePoint now);
  // The subflow between these NICs delivers again after it has left a path.
  void HandleRecovered(std::uint64_t subflow, fabric::NodeId source, fabric::NodeId destination,
                       TimePoint now);
  // Forgets all paths that were left: something else explains why.
  void ForgetLeft() { left_.clear(); }
  void Forget(std::uint64_t subflow) { samples_.erase(subflow); }

  struct Judged {
    PathSample sample;
    TimePoint taken{};
    int bad_in_a_row = 0;  // of the samples on this path, with few good ones among them
    bool accuses = false;  // bad, and neither NIC is to blame
    bool is_left = false;  // the host has left the path
    std::string signs;     // if it is bad: "rate=0.21 retries_per_second=120"
  };
  // Judges the samples that came since the last call. Returns all fresh ones, and the paths that
  // were left. O(n log n) for n of them.
  std::vector<const Judged*> Judge(TimePoint now);
  bool HasNews() const { return has_news_; }

 private:
  struct Entry : Judged {
    bool is_new = true;
    double fraction = 1;  // of its share
    double smoothed = 1;  // the same
    double weight = 1;    // of the last sample in `smoothed`; 0: it is counted
    int quiet_in_a_row = 0;
  };
  struct Left : Judged {
    bool has_recovered = false;
  };
  struct Norm {
    double median = 0;
    double deviation = 0;
  };
  struct Norms {
    Norm fraction;
    Norm retries;
    Norm congestion;
    Norm rtt;
  };
  struct Class {
    std::uint32_t job = 0;
    std::size_t hops = 0;
    double slowest_bps = 0;
    auto operator<=>(const Class&) const = default;
  };
  struct BadPath {
    std::vector<fabric::LinkId> links;  // between switches, ascending
    TimePoint seen{};
  };
  struct NicHistory {
    std::vector<BadPath> bad_paths;
    std::size_t bad = 0;  // fresh samples
    std::size_t good = 0;

    void SetPath(const PathSample& sample, bool is_bad, TimePoint now);
    void Note(const Judged& judged, TimePoint now);
    bool IsToBlame() const;
  };

  void ComputeFractions(std::span<Entry* const> fresh) const;
  bool IsSlower(double fraction, const Norms& norms) const;
  // Empty: the network shows none.
  std::string SignsOf(const Entry& entry, const Norms& norms) const;
  void JudgeLeft(TimePoint now);
  void JudgeClass(std::span<Entry* const> members);
  void JudgeNics(std::span<Entry* const> fresh, TimePoint now);
  Norms NormsOf(std::span<Entry* const> members) const;
  double SlowestOf(const PathSample& sample) const;

  const std::vector<double> capacities_bps_;
  const PathQualityOptions options_;
  std::map<std::uint64_t, Entry> samples_;
  std::map<std::uint64_t, Left> left_;  // the last path that each subflow has left
  std::map<fabric::NodeId, NicHistory> nics_;
  bool has_news_ = false;
};

}  // namespace espalier::controller
