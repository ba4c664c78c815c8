#include "controller/api/fabric_metrics.h"

#include <algorithm>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "controller/api/views/flow_statistics.h"
#include "controller/api/views/job_view.h"
#include "controller/api/views/link_view.h"

namespace espalier::controller {

using fabric::DirectedLink;
using fabric::LinkId;

FabricMetrics::FabricMetrics(Metrics& metrics)
    : link_load_(metrics.MakeGauges("espalier_link_load",
                                    "Load of a direction of a link: the flows, background traffic "
                                    "and reservations that are planned on it, relative to the "
                                    "fastest link",
                                    kMostDirections)),
      link_bps_(
          metrics.MakeGauges("espalier_link_bits_per_second",
                             "Traffic on a direction of a link, in bits per second: what its "
                             "flows achieved, and the background traffic that a feed reported",
                             kMostDirections)),
      link_state_(metrics.MakeGauges("espalier_link_state",
                                     "State of a link: 0 is up, 1 lossy, 2 drained, 3 down",
                                     kMostDirections)),
      job_flows_(metrics.MakeGauges("espalier_job_flows", "Open flows of a job", kMostJobs)),
      job_unroutable_(metrics.MakeGauges("espalier_job_flows_unroutable",
                                         "Open flows of a job that have no usable path, or an end "
                                         "that the topology does not have",
                                         kMostJobs)),
      job_bps_(metrics.MakeGauges("espalier_job_bits_per_second",
                                  "Rate of all flows of a job, in bits per second", kMostJobs)),
      job_slowest_bps_(metrics.MakeGauges("espalier_job_slowest_flow_bits_per_second",
                                          "Rate of the slowest flow of a job that sends, in bits "
                                          "per second",
                                          kMostJobs)),
      job_allreduce_seconds_(metrics.MakeGauges(
          "espalier_job_allreduce_seconds",
          "Mean duration of the latest all-reduces of a job, in seconds", kMostJobs)),
      job_ideal_seconds_(metrics.MakeGauges(
          "espalier_job_allreduce_ideal_seconds",
          "Their duration if each flow had its links to itself, in seconds", kMostJobs)),
      omitted_(metrics.MakeGauge(
          "espalier_controller_series_omitted",
          "Values of links and jobs that the metrics omit because there are too many")) {}

void FabricMetrics::Set(GaugeFamily& family, const GaugeFamily::Labels& labels, double value) {
  if (!family.Set(labels, value)) ++left_out_;
}

void FabricMetrics::RefreshLinks(const Controller& controller, const LinkTraffic& traffic) {
  const State& state = controller.state();
  const auto capacities = state.view.capacities();
  const std::span<const fabric::Link> links = state.topology.links();
  for (std::size_t i = 0; i < links.size(); ++i) {
    const LinkId id(static_cast<std::int32_t>(i));
    const fabric::Link& link = links[i];
    const bool is_between_switches =
        state.topology.node(link.a).kind == fabric::NodeKind::kSwitch &&
        state.topology.node(link.b).kind == fabric::NodeKind::kSwitch;
    if (!is_between_switches && link.state == fabric::LinkState::kUp) continue;
    Set(link_state_, {{"link", link.id}}, static_cast<double>(ShownState(state, id)));
    if (!is_between_switches) continue;
    for (const bool forward : {true, false}) {
      const DirectedLink direction{id, forward};
      const GaugeFamily::Labels labels = {
          {"link", link.id}, {"to", state.topology.node(forward ? link.b : link.a).id}};
      const auto background = controller.links().background.Find(direction);
      const double bps = static_cast<double>(traffic.achieved_bps[direction.Index()]) +
                         static_cast<double>(background ? background->bps : 0);
      Set(link_bps_, labels, std::min(bps, static_cast<double>(link.rate.value)));
      const std::int64_t capacity = capacities[direction.Index()];
      const std::int64_t load = state.flow_paths.assigner().LoadOf(direction.Index());
      Set(link_load_, labels, capacity == 0 ? 0 : MakeLoad(state.view, load, capacity).Value());
    }
  }
  for (GaugeFamily* family : {&link_load_, &link_bps_, &link_state_}) family->EndRound();
}

void FabricMetrics::RefreshJobs(const Controller& controller, const FlowStatistics& statistics) {
  const State& state = controller.state();
  std::vector<std::pair<std::int64_t, std::uint32_t>> jobs;  // (flows, job)
  for (std::uint32_t job = 0; job < state.flows.jobs().size(); ++job) {
    if (!ShowsJob(state, controller.Now(), job, statistics)) continue;
    jobs.emplace_back(statistics.StatisticsOf(job).flows, job);
  }
  std::ranges::stable_sort(jobs, std::greater<>(), &std::pair<std::int64_t, std::uint32_t>::first);
  if (jobs.size() > kMostJobs) {
    left_out_ += static_cast<std::int64_t>(jobs.size() - kMostJobs);
    jobs.resize(kMostJobs);
  }
  for (const auto& [flows, job] : jobs) {
    const JobStatistics& counted = statistics.StatisticsOf(job);
    const auto [allreduce, ideal] = MedianRound(state, job, controller.Now());
    const GaugeFamily::Labels labels = {{"job", state.flows.JobName(job)}};
    Set(job_flows_, labels, static_cast<double>(counted.flows));
    Set(job_unroutable_, labels, static_cast<double>(counted.unroutable));
    Set(job_bps_, labels, static_cast<double>(counted.achieved_bps));
    Set(job_slowest_bps_, labels, static_cast<double>(counted.slowest_bps.value_or(0)));
    Set(job_allreduce_seconds_, labels, allreduce);
    Set(job_ideal_seconds_, labels, ideal);
  }
  for (GaugeFamily* family : {&job_flows_, &job_unroutable_, &job_bps_, &job_slowest_bps_,
                              &job_allreduce_seconds_, &job_ideal_seconds_}) {
    family->EndRound();
  }
}

void FabricMetrics::Refresh(const Controller& controller) {
  left_out_ = 0;
  const FlowStatistics statistics = FlowStatistics::Take(controller.state());
  RefreshLinks(controller, statistics.traffic());
  RefreshJobs(controller, statistics);
  omitted_.Set(static_cast<double>(left_out_));
}

}  // namespace espalier::controller
