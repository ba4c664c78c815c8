#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <unordered_map>
#include <vector>

#include "controller/api/views/shown_flow.h"
#include "controller/state/state.h"

namespace espalier::controller {

// The present traffic of links, by DirectedLink::Index. Host links carry traffic but no paths,
// which begin at the leaf.
struct LinkTraffic {
  std::vector<std::int64_t> paths;  // paths of flows
  // Of flows, over their paths by shares; not more than the link carries. Hosts measure in windows
  // of one length that begin at different times, so sums may exceed it.
  std::vector<std::uint64_t> achieved_bps;
  std::vector<std::int64_t> loads;  // BusiestLoads
};

// Statistics of the flows of a job.
struct JobStatistics {
  std::int64_t flows = 0;
  std::int64_t routed = 0;
  std::int64_t unroutable = 0;
  std::uint64_t achieved_bps = 0;            // not more than the links of its senders carry
  std::optional<std::uint64_t> slowest_bps;  // of the flows that send
  std::vector<bool> directions;              // the directed links that they use
  std::unordered_map<std::size_t, std::uint64_t> sent_bps;  // by directed link of a sender's NIC

  // The largest number of flows, of all jobs, on a link that this job uses. O(directed links).
  std::int64_t MaxLinkFlows(const LinkTraffic& traffic) const;
};

// Counts all that the views need over flows, in one pass that can be interrupted between flows.
class FlowStatistics {
 public:
  explicit FlowStatistics(const State& state);
  // Counts all flows and edges. O(flows x hops).
  static FlowStatistics Take(const State& state);

  // O(hops).
  void Count(const State& state, const ShownFlow& flow);

  std::int64_t flows() const { return flows_; }
  std::int64_t unacknowledged() const { return unacknowledged_; }
  std::int64_t Of(FlowStatus status) const { return by_status_[static_cast<std::size_t>(status)]; }
  const LinkTraffic& traffic() const { return traffic_; }
  std::int64_t max_link_flows() const;
  const std::map<std::uint32_t, JobStatistics>& jobs() const { return jobs_; }
  // All zeros for a job without flows.
  const JobStatistics& StatisticsOf(std::uint32_t job) const {
    static const JobStatistics idle;
    const auto found = jobs_.find(job);
    return found == jobs_.end() ? idle : found->second;
  }

 private:
  std::int64_t flows_ = 0;
  std::int64_t unacknowledged_ = 0;
  std::array<std::int64_t, static_cast<std::size_t>(FlowStatus::kUnroutable) + 1> by_status_{};
  LinkTraffic traffic_;
  std::map<std::uint32_t, JobStatistics> jobs_;  // by FlowTable::JobName
};

}  // namespace espalier::controller
