#include "deploy/demo/main_job.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <set>
#include <tuple>

#include "deploy/lab/ground_truth.h"
#include "deploy/lab/traffic/parallel_job.h"

namespace espalier::demo {
namespace {

using namespace std::chrono_literals;

constexpr std::int64_t kPermutationBytes = 8'000'000;
constexpr std::int64_t kRingBytes = 6'000'000;   // of gradients per GPU
constexpr std::int64_t kSegmentBytes = 250'000;  // a new port takes effect at the next segment
constexpr double kComputeSeconds = 0.2;
constexpr auto kTimeLimit = 120s;

double LinkSeconds(const lab::LabLayout& layout, std::int64_t bytes) {
  return static_cast<double>(bytes) * 8 / static_cast<double>(layout.options().link_rate->value);
}

std::vector<std::string> HostNames(const lab::LabLayout& layout) {
  std::vector<std::string> hosts;
  for (int i = 0; i < layout.HostCount(); ++i) hosts.push_back(fmt::format("h{}", i));
  return hosts;
}

// Source, destination and source port of the packets of one flow on one port.
using PortTriple = std::tuple<std::string, std::string, std::uint16_t>;

// Reads the spines to which the controller assigned each port, from what it pushed.
Result<std::map<PortTriple, std::set<std::string>>> ReadAssignedSpines(const LabDaemons& daemons) {
  Result<io::JsonValue> answer = daemons.Get("/api/v1/plans");
  if (!answer) return Propagate(answer);
  std::map<PortTriple, std::set<std::string>> assigned;
  for (const io::JsonValue& path : answer->Find("plans")->items) {
    const auto port = static_cast<std::uint16_t>(std::stoi(path.Find("source_port")->text));
    assigned[{path.Find("source")->text, path.Find("destination")->text, port}].insert(
        path.Find("via")->text);
  }
  return assigned;
}

// The spines that counted packets of each port.
std::map<PortTriple, std::set<std::string>> SpinesOf(const lab::Lab& lab,
                                                     std::span<const lab::FlowCount> counts) {
  const auto name = [&](const IpAddress& address) {
    const auto nic = lab.topology().FindNic(address);
    return nic ? lab.topology().node(*nic).id : address.ToString();
  };
  std::map<PortTriple, std::set<std::string>> spines;
  for (const lab::FlowCount& count : counts) {
    if (count.packets == 0) continue;
    spines[{name(count.source), name(count.destination), count.source_port}].insert(count.spine);
  }
  return spines;
}

// Counts the steered ports, and those whose packets took another spine than assigned.
Result<void> CompareSpines(const lab::Lab& lab, const lab::TrafficResult& result,
                           std::span<const lab::FlowCount> counts, const LabDaemons& daemons,
                           MeasuredRun& measured) {
  auto assigned = ReadAssignedSpines(daemons);
  if (!assigned) return Propagate(assigned);
  const auto seen = SpinesOf(lab, counts);
  for (const lab::FlowOutcome& flow : result.flows) {
    for (const traffic::PortUse& use : flow.sent.ports) {
      if (!use.steered || use.bytes == 0) continue;
      ++measured.steered_flows;
      const PortTriple triple{flow.plan.source, flow.plan.destination, use.port};
      const auto spines = seen.find(triple);
      const auto& expected = (*assigned)[triple];
      const bool as_assigned =
          spines != seen.end() && std::includes(expected.begin(), expected.end(),
                                                spines->second.begin(), spines->second.end());
      if (!as_assigned) ++measured.mismatches;
    }
  }
  return {};
}

}  // namespace

Result<Experiment> MakePermutation(const lab::LabLayout& layout) {
  auto workload = traffic::MakeShiftedPermutation(
      HostNames(layout), layout.options().hosts_per_leaf, kPermutationBytes);
  if (!workload) return Propagate(workload);
  workload->segment_bytes = kSegmentBytes;
  const double seconds = LinkSeconds(layout, kPermutationBytes);
  return Experiment{.name = "permutation",
                    .workload = std::move(*workload),
                    .flow_bytes = kPermutationBytes,
                    .ideal = {"permutation", seconds, {}}};
}

Result<Experiment> MakeRingJobs(const lab::LabLayout& layout, const RingJobs& shape) {
  const int leaves = layout.options().leaves;
  Experiment experiment{.name = shape.name};
  experiment.workload.segment_bytes = kSegmentBytes;
  for (int job = 0; job < shape.jobs; ++job) {
    std::vector<std::string> hosts;
    for (int leaf = 0; leaf < leaves; ++leaf) {
      for (int stage = 0; stage < shape.stages; ++stage) {
        const int of_leaf = job * shape.stages + stage;
        hosts.push_back(fmt::format("h{}", leaf * layout.options().hosts_per_leaf + of_leaf));
      }
    }
    auto placed = traffic::PlaceParallelJob({.id = std::string(1, static_cast<char>('A' + job)),
                                             .tensor = 1,
                                             .pipeline = shape.stages,
                                             .data = leaves,
                                             .bytes_per_gpu = kRingBytes,
                                             .epochs = shape.epochs,
                                             .compute_seconds = kComputeSeconds},
                                            hosts);
    if (!placed) return Propagate(placed);
    experiment.workload.jobs.push_back(std::move(*placed));
  }
  const traffic::Ring& ring = experiment.workload.jobs[0].rings[0];
  const std::int64_t ring_flow_bytes =
      traffic::RingRounds(ring.hosts.size()) * traffic::ChunkBytes(ring);
  experiment.flow_bytes = ring_flow_bytes * shape.epochs;
  const double allreduce = LinkSeconds(layout, ring_flow_bytes);
  // A flow begins with its first all-reduce, after the first pause.
  experiment.ideal = {
      shape.name, shape.epochs * allreduce + (shape.epochs - 1) * kComputeSeconds, {}};
  for (const traffic::Job& job : experiment.workload.jobs) {
    experiment.ideal.allreduce_seconds[job.id] = allreduce;
  }
  return experiment;
}

Result<Experiment> MakeTwoRings(const lab::LabLayout& layout, int epochs) {
  return MakeRingJobs(layout, {.name = "two-rings", .jobs = 2, .stages = 2, .epochs = epochs});
}

Result<MeasuredRun> RunMeasured(const lab::Lab& lab, const Experiment& experiment,
                                std::uint64_t seed, const LabDaemons* daemons) {
  auto before = lab::ReadFlowCounts(lab);
  if (!before) return Propagate(before);
  lab::TrafficOptions options;
  options.seed = seed;
  options.use_agents = daemons != nullptr;
  options.time_limit = kTimeLimit;
  auto result = lab::RunTraffic(lab, experiment.workload, options);
  if (!result) return Propagate(result);
  auto after = lab::ReadFlowCounts(lab);
  if (!after) return Propagate(after);
  const auto counts = lab::Difference(*before, *after);

  MeasuredRun measured;
  measured.completed = result->completed;
  RunFigures& figures = measured.figures;
  figures.name = experiment.name;
  figures.scheme = daemons != nullptr ? "espalier" : "ecmp";
  figures.slowest_flow_seconds = result->SlowestFlowSeconds();
  figures.median_flow_seconds = result->MedianFlowSeconds();
  figures.throughput_mbps = result->ThroughputBps() / 1e6;
  for (const lab::JobOutcome& job : result->jobs) {
    figures.allreduce_seconds[job.id] = job.allreduce_seconds;
  }
  // Counts a flow on the path of most of its bytes, not on the one before it got its port.
  const auto loads = lab::CountFlowsPerDirection(lab.topology(), counts, experiment.flow_bytes / 2);
  for (const auto& [direction, flows] : loads) {
    figures.max_link_flows = std::max(figures.max_link_flows, static_cast<double>(flows));
  }
  if (daemons != nullptr) {
    Result<void> compared = CompareSpines(lab, *result, counts, *daemons, measured);
    if (!compared) return Propagate(compared);
  }
  return measured;
}

}  // namespace espalier::demo
