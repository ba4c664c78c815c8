#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "controller/api/shown_flow.h"
#include "controller/state/state.h"

namespace espalier::controller {

// What flows do to the links now, by DirectedLink::Index. Host links carry traffic here, but no
// paths: those begin at the leaf.
struct LinkTraffic {
  std::vector<std::int64_t> paths;          // of flows
  std::vector<std::uint64_t> achieved_bps;  // what they achieve, split evenly over their paths
};

// The flows of a job.
struct JobStatistics {
  std::int64_t flows = 0;
  std::int64_t routed = 0;
  std::int64_t unroutable = 0;
  std::uint64_t achieved_bps = 0;
  std::optional<std::uint64_t> slowest_bps;  // of those that send
  std::vector<bool> directions;              // that they take, by DirectedLink::Index

  // The most flows, of any job, on a link that this one takes. O(directions).
  std::int64_t MaxLinkFlows(const LinkTraffic& traffic) const;
};

// All that the views count over flows, in one pass that can be made in pieces: flow by flow.
class FlowStatistics {
 public:
  explicit FlowStatistics(const State& state);
  // Of all flows and edges. O(flows x hops).
  static FlowStatistics Take(const State& state);

  // O(hops).
  void Count(const State& state, const ShownFlow& flow);

  std::int64_t flows() const { return flows_; }
  std::int64_t unacknowledged() const { return unacknowledged_; }
  std::int64_t Of(FlowStatus status) const { return by_status_[static_cast<std::size_t>(status)]; }
  const LinkTraffic& traffic() const { return traffic_; }
  std::int64_t max_link_flows() const;
  const std::map<std::uint32_t, JobStatistics>& jobs() const { return jobs_; }
  // All zeros for a job that has no flows.
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
