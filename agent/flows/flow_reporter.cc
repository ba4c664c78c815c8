#include "agent/flows/flow_reporter.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <unordered_map>
#include <utility>

// The reporter remembers what the controller was last told about each flow and reports differences.
//
// Problem: thousands of flows change with every look, and the controller needs openings and ends at
// once but progress only roughly.
// Idea: openings and ends are reported immediately. Progress is reported at most once in a progress
// interval, and only for flows whose change matters. Edges are reported more often, but an idle
// edge waits for a report of anything else, which halves the messages of flows that change in turn.
// Its row is kept, and goes ahead if its flow becomes busy again meanwhile. An unreported change
// stays a difference to what was reported, so it is reported when it has grown or when the refresh
// interval has passed. Invariant: reported_ is what a controller knows that has received all
// reports; ids ascend, so one merge with the measures finds openings and ends. Cost: linear in the
// flows; a message has one table of jobs and addresses, found by hashing.

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
                            .keeps_weights = sample.keeps_weights,
                            .path_fixed = sample.announced.path_fixed,
                            .timeout_us = sample.wait.timeout_us,
                            .repetitions = sample.wait.repetitions};
    report.opened.push_back(std::move(opened));
  }

  std::uint64_t AgeUs(TimePoint at) const {
    const auto age = std::chrono::duration_cast<std::chrono::microseconds>(now_ - at).count();
    return static_cast<std::uint64_t>(std::max<std::int64_t>(0, age));
  }

  static wire::FlowProgress RowOf(const FlowMeasure& flow) {
    return {.id = flow.sample->id,
            .remaining_bytes = flow.sample->remaining_bytes,
            .outstanding_bytes = flow.sample->outstanding_bytes,
            .achieved_bps = flow.achieved_bps,
            .state = flow.state,
            .sent_bytes = flow.sample->sent_bytes,
            .edges = flow.activity.edges,
            .duty_permille = flow.activity.duty_permille};
  }

  void AddProgress(wire::FlowProgress row, TimePoint edge) {
    row.edge_age_us = AgeUs(edge);
    Row().progress.push_back(row);
  }
  void AddProgress(const FlowMeasure& flow) { AddProgress(RowOf(flow), flow.activity.last_edge); }

  // A flow's opening and its first progress count as one row, so they are in the same message.
  void AddOpened(const FlowMeasure& flow, PortInUse port) {
    AddOpened(*flow.sample, std::move(port));
    reports_.back().progress.push_back(RowOf(flow));
    reports_.back().progress.back().edge_age_us = AgeUs(flow.activity.last_edge);
  }

  void AddEnded(wire::LocalFlowId id) { Row().ended.push_back(id); }

  std::vector<wire::FlowReport> Take() { return std::move(reports_); }
  // Appends all messages of another builder.
  void Append(ReportBuilder&& other) {
    std::ranges::move(other.reports_, std::back_inserter(reports_));
    rows_ = max_rows_;
  }

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

bool FlowReporter::MayWait(TimePoint now, const Reported& before, const FlowMeasure& flow) const {
  const Activity& activity = flow.activity;
  const bool is_idle = before.edges % 2 == 1 && activity.edges == before.edges + 1;
  return is_idle && before.duty_permille == 0 && activity.duty_permille == 0 &&
         now - activity.last_edge < options_.max_idle_report_delay;
}

FlowReporter::Due FlowReporter::DueAt(TimePoint now, const Reported& before,
                                      const FlowMeasure& flow) const {
  const Reported current = Describe(now, flow);
  if (MayWait(now, before, flow)) return Due::kWaits;
  if (now >= std::min(next_edges_, next_progress_) && HasEdge(before, current)) return Due::kEdge;
  const bool is_due = now >= next_progress_ && IsWorthReporting(before, current);
  return is_due ? Due::kProgress : Due::kNothing;
}

bool FlowReporter::HasNews(TimePoint now, std::span<const FlowMeasure> flows) const {
  if (flows.size() != reported_.size()) return true;
  for (std::size_t i = 0; i < flows.size(); ++i) {
    if (reported_[i].id != flows[i].sample->id) return true;
    const Due due = DueAt(now, reported_[i], flows[i]);
    if (due == Due::kEdge || due == Due::kProgress) return true;
  }
  return false;
}

std::vector<wire::FlowReport> FlowReporter::ReportChanges(
    TimePoint now, std::span<const FlowMeasure> flows,
    const std::function<PortInUse(const FlowSample&)>& port_in_use) {
  const bool has_news = HasNews(now, flows);
  ReportBuilder ahead(now, options_.max_flows_per_message);
  ReportBuilder builder(now, options_.max_flows_per_message);
  const bool is_progress_due = now >= next_progress_;
  bool any_known = false;
  bool any_edge = false;
  std::vector<Reported> reported;
  reported.reserve(flows.size());
  std::vector<Waiting> waiting;
  auto before = reported_.begin();
  auto waits = waiting_.begin();
  for (const FlowMeasure& flow : flows) {
    const wire::LocalFlowId id = flow.sample->id;
    for (; before != reported_.end() && before->id < id; ++before) builder.AddEnded(before->id);
    while (waits != waiting_.end() && waits->row.id < id) ++waits;
    const Reported current = Describe(now, flow);
    if (before == reported_.end() || before->id != id) {
      builder.AddOpened(flow, port_in_use(*flow.sample));
      reported.push_back(current);
      continue;
    }
    const bool has_waited = waits != waiting_.end() && waits->row.id == id;
    const Due due = DueAt(now, *before, flow);
    if (due == Due::kNothing || (due == Due::kWaits && !has_news)) {
      if (has_waited) {
        waiting.push_back(*waits);
      } else if (due == Due::kWaits) {
        waiting.push_back({ReportBuilder::RowOf(flow), flow.activity.last_edge});
      }
      reported.push_back(*before);
      ++before;
      continue;
    }
    if (has_waited && waits->row.edges != current.edges) ahead.AddProgress(waits->row, waits->edge);
    builder.AddProgress(flow);
    any_known = true;
    if (HasEdge(*before, current)) {
      ++edge_rows_;
      any_edge = true;
    }
    reported.push_back(current);
    ++before;
  }
  for (; before != reported_.end(); ++before) builder.AddEnded(before->id);
  reported_ = std::move(reported);
  waiting_ = std::move(waiting);
  if (any_edge) next_edges_ = now + progress_interval_ / options_.edge_reports;
  if (any_known && is_progress_due) next_progress_ = now + progress_interval_;
  ahead.Append(std::move(builder));
  return ahead.Take();
}

wire::FlowReport FlowReporter::ReportAll(
    TimePoint now, std::span<const FlowMeasure> flows,
    const std::function<PortInUse(const FlowSample&)>& port_in_use) {
  ReportBuilder builder(now, flows.size());
  reported_.clear();
  waiting_.clear();
  for (const FlowMeasure& flow : flows) {
    builder.AddOpened(flow, port_in_use(*flow.sample));
    reported_.push_back(Describe(now, flow));
  }
  next_progress_ = now + progress_interval_;
  std::vector<wire::FlowReport> reports = builder.Take();
  wire::FlowReport report = reports.empty() ? wire::FlowReport{} : std::move(reports.front());
  report.full = true;
  return report;
}

}  // namespace espalier::agent
