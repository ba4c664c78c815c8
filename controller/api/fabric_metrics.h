#pragma once

#include <cstddef>
#include <cstdint>

#include "common/base/metrics.h"
#include "controller/api/views/flow_statistics.h"
#include "controller/controller.h"

namespace espalier::controller {

// The metrics of each link between switches, of each other link that is not up, and of each job.
// How many there are is bounded: espalier_controller_series_omitted counts what is left out. Of the
// jobs, those with the most flows are shown.
// Thread safety: the controller's loop thread.
class FabricMetrics {
 public:
  static constexpr std::size_t kMostDirections = 16'384;  // of links
  static constexpr std::size_t kMostJobs = 256;

  explicit FabricMetrics(Metrics& metrics);

  // Sets all of them. O(flows x hops + links).
  void Refresh(const Controller& controller);

 private:
  void RefreshLinks(const Controller& controller, const LinkTraffic& traffic);
  void RefreshJobs(const Controller& controller, const FlowStatistics& statistics);
  void Set(GaugeFamily& family, const GaugeFamily::Labels& labels, double value);

  GaugeFamily& link_load_;
  GaugeFamily& link_bps_;
  GaugeFamily& link_state_;
  GaugeFamily& job_flows_;
  GaugeFamily& job_unroutable_;
  GaugeFamily& job_bps_;
  GaugeFamily& job_slowest_bps_;
  GaugeFamily& job_allreduce_seconds_;
  GaugeFamily& job_ideal_seconds_;
  Gauge& omitted_;
  std::int64_t left_out_ = 0;  // in this round
};

}  // namespace espalier::controller
