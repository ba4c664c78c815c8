#include "deploy/simulation/run.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "deploy/simulation/action_performer.h"

namespace espalier::simulation {
namespace {

constexpr Duration kStep = std::chrono::milliseconds(5);
constexpr int kStepsBetweenPathLooks = 20;

ClusterOptions OptionsFor(const Scenario& scenario, std::uint64_t seed) {
  ClusterOptions options;
  options.fabric = FabricOf(scenario, seed);
  options.controller_knows_hashes = scenario.controller_knows_hashes;
  options.seed = seed;
  options.faults = scenario.messages;
  if (scenario.mode == Mode::kConnections)
    options.controller.activity = controller::Activity::kConnections;
  return options;
}

class Run {
 public:
  Run(const Scenario& scenario, const RunOptions& options)
      : scenario_(scenario),
        options_(options),
        cluster_(OptionsFor(scenario, options.seed)),
        begin_(cluster_.world().Now()),
        player_(cluster_, scenario.jobs, options.seed),
        observer_(cluster_, player_),
        log_(begin_),
        performer_(cluster_, scenario.actions, log_) {}

  Result<RunResult> Play() {
    if (scenario_.mode != Mode::kEcmp) cluster_.StartAll();
    player_.Begin();
    performer_.Begin();
    const TimePoint end = begin_ + scenario_.duration;
    for (int step = 1; cluster_.world().Now() < end; ++step) {
      cluster_.world().RunFor(std::min(kStep, end - cluster_.world().Now()));
      observer_.LookAtLinks();
      if (step % kStepsBetweenPathLooks == 0) Look();
      if (options_.on_time) options_.on_time(cluster_.world().Now() - begin_);
      if (options_.is_cancelled && options_.is_cancelled())
        return Fail(ErrorCode::kUnavailable, "interrupted");
    }
    Look();
    return Conclude();
  }

 private:
  void Look() {
    observer_.LookAtPaths();
    log_.Collect(cluster_);
  }

  RunResult Conclude() {
    RunResult result;
    for (std::size_t j = 0; j < player_.jobs().size(); ++j) result.jobs.push_back(JobOf(j));
    const LoadedLink& loaded = observer_.most_loaded();
    result.loaded_link = loaded.direction;
    result.loaded_link_connections = loaded.connections;
    if (loaded.connections > 0) result.loaded_link_at = loaded.at - begin_;
    result.path_changes = cluster_.path_changes();
    result.pushes = cluster_.ControllerCounter("espalier_controller_pushes_total");
    result.full_pushes = cluster_.ControllerCounter("espalier_controller_full_pushes_total");
    result.probes = cluster_.ControllerCounter("espalier_controller_probes_ordered_total");
    result.mismatches = cluster_.ControllerCounter("espalier_controller_path_map_mismatches_total");
    result.local_reroutes = cluster_.AgentCounter("espalier_agent_local_reroutes_total");
    result.messages = cluster_.network().statistics();
    for (std::size_t i = 0; i < kFaults; ++i) {
      const auto fault = static_cast<Fault>(i);
      result.faults[fault] = observer_.record(fault);
    }
    result.violations = observer_.Violations();
    result.events = log_.Take();
    result.callbacks = cluster_.world().callbacks_run();
    result.trace = cluster_.world().TraceHash();
    return result;
  }

  JobResult JobOf(std::size_t j) const {
    const JobPlayer::JobRun& run = player_.run(j);
    JobResult result{.id = player_.jobs()[j].id,
                     .ideal = IdealOf(j),
                     .communication = run.communication,
                     .ports_changed = run.ports_changed,
                     .unfinished = run.sending};
    if (run.is_sending) result.unfinished += cluster_.world().Now() - run.phase_start;
    return result;
  }

  Duration IdealOf(std::size_t j) const {
    const fabric::Topology& topology = cluster_.fabric().topology();
    return IdealCommunication(topology, ListNics(topology), player_.jobs()[j]);
  }

  const Scenario& scenario_;
  const RunOptions& options_;
  Cluster cluster_;
  const TimePoint begin_;
  JobPlayer player_;
  Observer observer_;
  EventLog log_;
  ActionPerformer performer_;
};

}  // namespace

Result<RunResult> RunScenario(const Scenario& scenario, const RunOptions& options) {
  return std::make_unique<Run>(scenario, options)->Play();
}

}  // namespace espalier::simulation
