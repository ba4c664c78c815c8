#include "agent/flows/flow_reporter.h"

#include <algorithm>
#include <string>
#include <unordered_map>
#include <utility>

// The reporter remembers what the controller was last told about each flow and reports differences.
//
// Problem: thousands of flows change with every look, and the controller needs openings and ends at
// once but progress only roughly.
// Idea: openings and ends are reported immediately. Progress is reported at most once in a progress
// interval, and only for flows whose change matters. Edges are reported more often. An unreported
// change stays a difference to what was reported, so it is reported when it has grown or when the
// refresh interval has passed. Invariant: reported_ is what a controller knows that has received
// all reports; ids ascend, so one merge with the measures finds openings and ends. Cost: linear in
// the flows; a message has one table of jobs and addresses, found by hashing.

namespace espalier::agent {
namespace {

// Fills messages row by row, together with the tables of jobs and addresses that rows refer to.
class ReportBuilder {
 public:
  ReportBuilder(TimePoint now, std::size_t max_rows) : now_(now), max_rows_(max_rows) {}

  void AddOpened(const FlowSample& sample, PortInUse port) {
    wire::FlowReport& report = Row();
    wire::OpenedFlow opened{.id = sample.id,
                            .job = Index(report.jobs, jobs_, sample.job),
                            .source = Index(report.addresses, addresses_, sample.source),
                            .destination = Index(report.addresses, addresses_, sample.destination),
                            .protocol = sample.protocol,
                            .destination_port = sample.destination_port,
                            .local_qpn = sample.local_qpn,
                            .remote_qpn = sample.remote_qpn,
                            .max_paths = sample.max_paths,
                            .movable = sample.movable,
                            .age_us = AgeUs(sample.first_seen),
                            .source_port = port.port,
                            .steered = port.steered,
                            .path_ports = std::move(port.path_ports),
                            .keeps_rate = sample.keeps_rate,
                            .path_fixed = sample.path_fixed};
    report.opened.push_back(std::move(opened));
  }

  std::uint64_t AgeUs(TimePoint at) const {
    const auto age = std::chrono::duration_cast<std::chrono::microseconds>(now_ - at).count();
    return static_cast<std::uint64_t>(std::max<std::int64_t>(0, age));
  }

  // A flow's opening and its first progress count as one row, so they are in the same message.
  void AddProgress(const FlowMeasure& flow, bool just_opened) {
    wire::FlowReport& report = just_opened ? reports_.back() : Row();
    report.progress.push_back({.id = flow.sample->id,
                               .remaining_bytes = flow.sample->remaining_bytes,
                               .outstanding_bytes = flow.sample->outstanding_bytes,
                               .achieved_bps = flow.achieved_bps,
                               .state = flow.state,
                               .sent_bytes = flow.sample->sent_bytes,
                               .edges = flow.activity.edges,
                               .edge_age_us = AgeUs(flow.activity.last_edge),
                               .duty_permille = flow.activity.duty_permille});
  }

  void AddEnded(wire::LocalFlowId id) { Row().ended.push_back(id); }

  std::vector<wire::FlowReport> Take() { return std::move(reports_); }

 private:
  wire::FlowReport& Row() {
    if (reports_.empty() || rows_ == max_rows_) {
      reports_.emplace_back();
      rows_ = 0;
      jobs_.clear();
      addresses_.clear();
    }
    ++rows_;
    return reports_.back();
  }

  template <typename T>
  static std::uint32_t Index(std::vector<T>& table, std::unordered_map<T, std::uint32_t>& known,
                             const T& value) {
    const auto [at, is_new] = known.emplace(value, static_cast<std::uint32_t>(table.size()));
    if (is_new) table.push_back(value);
    return at->second;
  }

  const TimePoint now_;
  const std::size_t max_rows_;
  std::vector<wire::FlowReport> reports_;
  std::size_t rows_ = 0;
  std::unordered_map<std::string, std::uint32_t> jobs_;
  std::unordered_map<IpAddress, std::uint32_t> addresses_;
};

}  // namespace

FlowReporter::Reported FlowReporter::Describe(TimePoint now, const FlowMeasure& flow) {
  return {.id = flow.sample->id,
          .remaining_bytes = flow.sample->remaining_bytes,
          .state = flow.state,
          .achieved_bps = flow.achieved_bps,
          .edges = flow.activity.edges,
          .duty_permille = flow.activity.duty_permille,
          .at = now};
}

bool FlowReporter::HasEdge(const Reported& before, const Reported& current) {
  return current.edges != before.edges ||
         (current.duty_permille == 0) != (before.duty_permille == 0);
}

bool FlowReporter::IsWorthReporting(const Reported& before, const Reported& current) const {
  const std::uint64_t change = current.remaining_bytes > before.remaining_bytes
                                   ? current.remaining_bytes - before.remaining_bytes
                                   : before.remaining_bytes - current.remaining_bytes;
  if (current.state != before.state) return true;
  if (change > before.remaining_bytes / options_.remaining_change) return true;
  return current.at - before.at >= options_.refresh_interval &&
         (change != 0 || current.achieved_bps != before.achieved_bps ||
          current.duty_permille != before.duty_permille);
}

std::vector<wire::FlowReport> FlowReporter::ReportChanges(
    TimePoint now, std::span<const FlowMeasure> flows,
    const std::function<PortInUse(const FlowSample&)>& port_in_use) {
  ReportBuilder builder(now, options_.max_flows_per_message);
  const bool with_progress = now >= next_progress_;
  const bool with_edges = with_progress || now >= next_edges_;
  bool any_progress = false;
  std::vector<Reported> reported;
  reported.reserve(flows.size());
  auto before = reported_.begin();
  for (const FlowMeasure& flow : flows) {
    const wire::LocalFlowId id = flow.sample->id;
    for (; before != reported_.end() && before->id < id; ++before) builder.AddEnded(before->id);
    const Reported current = Describe(now, flow);
    const bool is_known = before != reported_.end() && before->id == id;
    if (!is_known) {
      builder.AddOpened(*flow.sample, port_in_use(*flow.sample));
      builder.AddProgress(flow, true);
      reported.push_back(current);
      continue;
    }
    const bool has_edge = with_edges && HasEdge(*before, current);
    if (has_edge || (with_progress && IsWorthReporting(*before, current))) {
      builder.AddProgress(flow, false);
      any_progress |= with_progress;
      if (has_edge) {
        ++edge_rows_;
        next_edges_ = now + progress_interval_ / options_.edge_reports;
      }
      reported.push_back(current);
    } else {
      reported.push_back(*before);
    }
    ++before;
  }
  for (; before != reported_.end(); ++before) builder.AddEnded(before->id);
  reported_ = std::move(reported);
  if (any_progress) next_progress_ = now + progress_interval_;
  return builder.Take();
}

wire::FlowReport FlowReporter::ReportAll(
    TimePoint now, std::span<const FlowMeasure> flows,
    const std::function<PortInUse(const FlowSample&)>& port_in_use) {
  ReportBuilder builder(now, flows.size());
  reported_.clear();
  for (const FlowMeasure& flow : flows) {
    builder.AddOpened(*flow.sample, port_in_use(*flow.sample));
    builder.AddProgress(flow, true);
    reported_.push_back(Describe(now, flow));
  }
  next_progress_ = now + progress_interval_;
  std::vector<wire::FlowReport> reports = builder.Take();
  wire::FlowReport report = reports.empty() ? wire::FlowReport{} : std::move(reports.front());
  report.full = true;
  return report;
}

}  // namespace espalier::agent
