#include "controller/offline/simulation/simulator.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <queue>
#include <utility>

#include "controller/offline/simulation/fluid_network.h"

namespace espalier::offline {
namespace {

constexpr std::int64_t kGapNs = 1;  // between rounds, and before the first
constexpr double kNanosecond = 1e-9;
constexpr std::int64_t kEventsBetweenLooks = 4096;

enum class AssignmentState : std::uint8_t {
  kClosed,   // its job computes, or its exchange has ended
  kWaiting,  // the next round begins after the gap
  kSending,
  kSent,  // waits for the other flows of its exchange
};

struct FlowRun {
  AssignmentState state = AssignmentState::kClosed;
  std::uint32_t exchange = 0;  // that it is in, unless closed
  std::vector<PathShare> paths;
  std::vector<FluidNetwork::Transfer> transfers;  // one for each path that is still sending
  std::int64_t round_start = 0;
};

struct ExchangeRun {
  int round = 0;
  std::size_t open_flows = 0;  // of this round
};

struct JobRun {
  int epoch = 0;
  std::uint32_t phase = 0;
  bool is_open = false;  // its connections are
  bool is_communicating = false;
  std::int64_t phase_start = 0;
  std::int64_t epoch_ns = 0;  // of communication in this epoch
  std::size_t open_exchanges = 0;
  double completion_seconds = 0;  // sums over flows
  double throughput_gbps = 0;
  JobOutcome outcome;
};

struct Event {
  enum class Kind : std::uint8_t { kPhaseStart, kRoundStart };
  std::int64_t time = 0;
  Kind kind = Kind::kPhaseStart;
  std::uint32_t subject = 0;  // a job, or an exchange

  bool operator>(const Event& other) const {
    return std::tie(time, kind, subject) > std::tie(other.time, other.kind, other.subject);
  }
};

std::vector<double> Capacities(const fabric::Topology& topology, bool is_ideal) {
  std::vector<double> capacities;
  for (std::size_t i = 0; i < topology.links().size(); ++i) {
    const fabric::LinkId id(static_cast<std::int32_t>(i));
    const bool is_free = is_ideal && topology.IsSwitchToSwitch(id);
    const double gbps = static_cast<double>(topology.link(id).rate.value) / 1e9;
    // One entry for each directed link, at DirectedLink::Index.
    capacities.insert(capacities.end(), 2, is_free ? 1e9 : gbps);
  }
  return capacities;
}

class Simulation {
 public:
  Simulation(const Workload& workload, Router& router, const SimulationOptions& options)
      : workload_(workload),
        router_(router),
        options_(options),
        network_(Capacities(workload.topology(), options.is_ideal)),
        flows_(workload.flows().size()),
        exchanges_(workload.exchanges().size()),
        jobs_(workload.jobs().size()),
        loads_(2 * workload.topology().links().size()) {}

  Result<SimulationOutcome> Run() {
    for (std::uint32_t j = 0; j < jobs_.size(); ++j) {
      jobs_[j].outcome.phase_seconds.resize(workload_.jobs()[j].phases.size());
      events_.push({.time = workload_.jobs()[j].start_ns, .subject = j});
    }
    while (const auto time = NextTime()) {
      now_ = *time;
      if (auto done = RunTick(); !done) return Propagate(done);
    }
    return Report();
  }

 private:
  std::optional<std::int64_t> NextTime() {
    auto time = network_.NextEnd();
    if (!events_.empty() && events_.top().time < time.value_or(events_.top().time + 1)) {
      time = events_.top().time;
    }
    return time;
  }

  // Runs all events of one nanosecond: ends before starts.
  Result<void> RunTick() {
    // All that has ended is noted before its consequences, which may assign and send again.
    sent_.clear();
    for (const FluidNetwork::Transfer transfer : network_.TakeEnded(now_)) EndTransfer(transfer);
    for (const std::uint32_t flow : sent_) {
      if (auto done = EndFlow(flow); !done) return done;
    }
    while (!events_.empty() && events_.top().time == now_) {
      const Event event = events_.top();
      events_.pop();
      ++outcome_.events;
      if (event.kind == Event::Kind::kRoundStart) StartRound(event.subject);
      if (event.kind == Event::Kind::kPhaseStart) {
        if (auto done = StartPhase(event.subject); !done) return done;
      }
    }
    network_.Settle(now_);
    return CheckLimits();
  }

  Result<void> CheckLimits() {
    if (outcome_.events > options_.max_events) {
      return Fail(ErrorCode::kResourceExhausted,
                  fmt::format("the simulation takes more than {} events", options_.max_events));
    }
    if (outcome_.events / kEventsBetweenLooks == looks_) return {};
    looks_ = outcome_.events / kEventsBetweenLooks;
    if (options_.is_cancelled()) return Fail(ErrorCode::kResourceExhausted, "interrupted");
    return {};
  }

  Result<void> StartPhase(std::uint32_t j) {
    JobRun& job = jobs_[j];
    const bool opens = !std::exchange(job.is_open, true);
    job.is_communicating = true;
    job.phase_start = now_;
    job.open_exchanges = workload_.jobs()[j].phases[job.phase].exchanges.size();
    const std::uint32_t first = workload_.FirstExchange(j, job.phase);
    for (std::uint32_t e = first; e < first + job.open_exchanges; ++e) {
      exchanges_[e].round = 0;
      PlanRound(e);
    }
    if (opens || options_.live_flows != LiveFlows::kConnections) return AssignPaths();
    NoteLoads();
    return {};
  }

  void PlanRound(std::uint32_t e) {
    for (const std::uint32_t f : workload_.exchanges()[e].flows) {
      flows_[f].state = AssignmentState::kWaiting;
      flows_[f].exchange = e;
    }
    exchanges_[e].open_flows = workload_.exchanges()[e].flows.size();
    events_.push({now_ + kGapNs, Event::Kind::kRoundStart, e});
  }

  void StartRound(std::uint32_t e) {
    const SimulatedExchange& exchange = workload_.exchanges()[e];
    for (const std::uint32_t f : exchange.flows) {
      flows_[f].state = AssignmentState::kSending;
      flows_[f].round_start = now_;
      options_.on_sending({f, now_, exchange.round_bytes, flows_[f].paths});
      Send(f, 8.0 * static_cast<double>(exchange.round_bytes));
    }
  }

  // Starts a transfer on every path of a flow, for its share of the bits.
  void Send(std::uint32_t f, double bits) {
    const SimulatedFlow& flow = workload_.flows()[f];
    for (const PathShare& path : flows_[f].paths) {
      links_.clear();
      flow.AppendLinks(path.links, links_);
      const auto transfer = network_.Add(links_, path.share, bits * path.share);
      if (transfer >= flow_of_.size()) flow_of_.resize(transfer + 1);
      flow_of_[transfer] = f;
      flows_[f].transfers.push_back(transfer);
    }
  }

  void EndTransfer(FluidNetwork::Transfer transfer) {
    ++outcome_.events;
    const std::uint32_t f = flow_of_[transfer];
    std::erase(flows_[f].transfers, transfer);
    if (!flows_[f].transfers.empty()) return;
    flows_[f].state = AssignmentState::kSent;
    sent_.push_back(f);
  }

  // Counts a flow that has sent its bytes of this round.
  Result<void> EndFlow(std::uint32_t f) {
    const std::uint32_t e = flows_[f].exchange;
    CountFlow(workload_.exchanges()[e], now_ - flows_[f].round_start);
    if (--exchanges_[e].open_flows > 0) return {};
    return EndRound(e);
  }

  void CountFlow(const SimulatedExchange& exchange, std::int64_t nanoseconds) {
    JobRun& job = jobs_[exchange.job];
    JobOutcome& outcome = job.outcome;
    const double seconds = static_cast<double>(nanoseconds) * kNanosecond;
    const double gbps =
        8.0 * static_cast<double>(exchange.round_bytes) / static_cast<double>(nanoseconds);
    job.completion_seconds += seconds;
    job.throughput_gbps += gbps;
    outcome.slowest_flow_seconds = std::max(outcome.slowest_flow_seconds, seconds);
    const bool is_first = outcome.flows++ == 0;
    if (is_first || gbps < outcome.slowest_flow_gbps) outcome.slowest_flow_gbps = gbps;
  }

  Result<void> EndRound(std::uint32_t e) {
    const SimulatedExchange& exchange = workload_.exchanges()[e];
    if (++exchanges_[e].round < exchange.rounds) {
      PlanRound(e);
      return {};
    }
    for (const std::uint32_t f : exchange.flows) flows_[f].state = AssignmentState::kClosed;
    return --jobs_[exchange.job].open_exchanges > 0 ? Result<void>() : EndPhase(exchange.job);
  }

  // Ends a phase, which lasts as long as its slowest exchange, the one that has just ended.
  Result<void> EndPhase(std::uint32_t j) {
    const Job& spec = workload_.jobs()[j];
    JobRun& job = jobs_[j];
    job.is_communicating = false;
    job.epoch_ns += now_ - job.phase_start;
    job.outcome.phase_seconds[job.phase] +=
        static_cast<double>(now_ - job.phase_start) * kNanosecond / spec.epochs;
    outcome_.end_seconds = static_cast<double>(now_) * kNanosecond;
    if (++job.phase == spec.phases.size()) {
      job.phase = 0;
      ++job.epoch;
      job.outcome.epoch_seconds.push_back(static_cast<double>(std::exchange(job.epoch_ns, 0)) *
                                          kNanosecond);
    }
    job.is_open = job.epoch < spec.epochs;
    if (job.is_open) {
      const std::int64_t compute = spec.phases[job.phase].compute_ns;
      events_.push({.time = now_ + std::max(compute, kGapNs), .subject = j});
    }
    if (options_.live_flows == LiveFlows::kConnections) {
      return job.is_open ? Result<void>() : AssignPaths();
    }
    if (std::ranges::none_of(jobs_, &JobRun::is_communicating)) return {};
    return AssignPaths();
  }

  // Whether the flow communicates now.
  bool IsActive(const FlowRun& flow) const {
    if (flow.state == AssignmentState::kClosed) return false;
    return flow.state != AssignmentState::kSent || options_.live_flows != LiveFlows::kUnfinished;
  }

  bool IsLive(std::uint32_t f) const {
    if (options_.live_flows != LiveFlows::kConnections) return IsActive(flows_[f]);
    return jobs_[workload_.flows()[f].job].is_open;
  }

  Result<void> AssignPaths() {
    live_.clear();
    for (std::uint32_t f = 0; f < flows_.size(); ++f) {
      if (IsLive(f)) live_.push_back(f);
    }
    if (live_.empty()) return {};
    auto assigned = router_.Route(live_);
    ++outcome_.assignments;
    outcome_.assigned_flows += static_cast<std::int64_t>(live_.size());
    for (std::size_t i = 0; i < live_.size(); ++i) {
      if (assigned[i].empty()) return FailUnroutable(live_[i]);
      MoveFlow(live_[i], std::move(assigned[i]));
    }
    NoteLoads();
    return {};
  }

  tl::unexpected<Error> FailUnroutable(std::uint32_t f) const {
    const SimulatedFlow& flow = workload_.flows()[f];
    const fabric::Topology& topology = workload_.topology();
    return Fail(ErrorCode::kFailedPrecondition,
                fmt::format("job {}: no path leads from {} to {}", workload_.jobs()[flow.job].id,
                            topology.node(flow.source).id, topology.node(flow.destination).id));
  }

  void NoteLoads() {
    std::ranges::fill(loads_, 0.0);
    for (const FlowRun& flow : flows_) {
      if (!IsActive(flow)) continue;
      for (const PathShare& path : flow.paths) {
        for (const std::uint32_t link : path.links) {
          loads_[link] += path.share;
          outcome_.max_link_load = std::max(outcome_.max_link_load, loads_[link]);
        }
      }
    }
  }

  void MoveFlow(std::uint32_t f, std::vector<PathShare> paths) {
    FlowRun& flow = flows_[f];
    if (flow.paths == paths) return;
    if (!flow.paths.empty()) {
      const auto is_new = [&flow](const PathShare& path) {
        return std::ranges::find(flow.paths, path.links, &PathShare::links) == flow.paths.end();
      };
      jobs_[workload_.flows()[f].job].outcome.ports_changed += std::ranges::count_if(paths, is_new);
    }
    flow.paths = std::move(paths);
    if (flow.state != AssignmentState::kSending) return;
    options_.on_sending({f, now_, 0, flow.paths});
    double left = 0;
    for (const auto transfer : flow.transfers) left += network_.Remove(transfer, now_);
    flow.transfers.clear();
    // Rounding may have left nothing, but a flow in progress has something to send.
    Send(f, std::max(left, 1e-3));
  }

  SimulationOutcome Report() {
    for (JobRun& job : jobs_) {
      JobOutcome& outcome = job.outcome;
      for (const double seconds : outcome.epoch_seconds) outcome.allreduce_seconds += seconds;
      outcome.allreduce_seconds /= static_cast<double>(outcome.epoch_seconds.size());
      outcome.mean_completion_seconds = job.completion_seconds / static_cast<double>(outcome.flows);
      outcome.mean_throughput_gbps = job.throughput_gbps / static_cast<double>(outcome.flows);
      outcome_.jobs.push_back(std::move(outcome));
    }
    return std::move(outcome_);
  }

  const Workload& workload_;
  Router& router_;
  const SimulationOptions& options_;
  FluidNetwork network_;
  std::vector<FlowRun> flows_;
  std::vector<ExchangeRun> exchanges_;
  std::vector<JobRun> jobs_;
  std::vector<std::uint32_t> flow_of_;  // by transfer
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::int64_t now_ = 0;
  std::int64_t looks_ = 0;
  std::vector<double> loads_;        // of flows that communicate, by DirectedLink::Index
  std::vector<std::uint32_t> sent_;  // flows that have ended their round now
  std::vector<std::uint32_t> live_;
  std::vector<std::uint32_t> links_;
  SimulationOutcome outcome_;
};

}  // namespace

Result<SimulationOutcome> Simulate(const Workload& workload, Router& router,
                                   const SimulationOptions& options) {
  return Simulation(workload, router, options).Run();
}

}  // namespace espalier::offline
