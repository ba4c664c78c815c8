#include "controller/offline/simulation/model_jobs.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "common/base/random.h"
#include "common/fabric/paths.h"

namespace espalier::offline {
namespace {

using fabric::NodeId;
using Group = std::vector<NodeId>;

constexpr double kArrivalNs = 10e9;
constexpr std::int64_t kFloatBytes = 4;
constexpr int kMaxRanks = 1000;  // whose all-to-all has about a million flows

// Table 2 of the paper, the models' public dimensions, and the computation in the paper's files.
struct Model {
  std::string_view name;
  std::string_view title;
  std::int64_t parameters;
  int tensor;
  int stages;
  int layers;
  std::int64_t hidden;
  std::int64_t compute_ns;
  std::int64_t tokens;  // of one copy in one iteration

  int copy() const { return tensor * stages; }  // GPUs
};
constexpr Model kModels[] = {
    {"bloom", "BLOOM", 176'000'000'000, 4, 12, 70, 14336, 1'238'769'231, 8'784},
    {"gpt3", "GPT-3", 175'000'000'000, 8, 8, 96, 12288, 1'009'615'385, 9'600},
    {"llama", "LLaMA2-70B", 70'000'000'000, 8, 16, 80, 8192, 2'692'307'693, 128'000},
};

constexpr std::int64_t kComputeNs = 100'000'000;  // of workloads that are no models
constexpr std::int64_t kBytes = 1'000'000'000;

// Builds the phases of a job on NICs, of which `per_host` follow one another on each host.
class PhaseBuilder {
 public:
  PhaseBuilder(Group nics, int per_host) : nics_(std::move(nics)) {
    for (std::size_t i = 0; i < nics_.size(); ++i) {
      host_of_[nics_[i]] = i / static_cast<std::size_t>(per_host);
    }
  }

  // Appends a phase of one exchange for each group. Flows within a host take no time; so do phases
  // of which nothing is left, whose computation precedes the next one.
  void Add(std::string name, std::int64_t compute_ns, const std::vector<Group>& groups,
           Exchange (*make)(const Group&, std::int64_t), std::int64_t bytes) {
    Phase phase{.name = std::move(name), .compute_ns = compute_ns + std::exchange(pending_ns_, 0)};
    for (const Group& group : groups) {
      if (group.size() < 2) continue;
      Exchange exchange = make(group, bytes);
      std::erase_if(exchange.flows, [this](const Exchange::Flow& flow) {
        return host_of_[flow.source] == host_of_[flow.destination];
      });
      if (!exchange.flows.empty()) phase.exchanges.push_back(std::move(exchange));
    }
    if (phase.exchanges.empty()) {
      pending_ns_ = phase.compute_ns;
    } else {
      phases_.push_back(std::move(phase));
    }
  }

  // Groups of the NICs at `first`, `first` + `step`, ...
  std::vector<Group> Groups(const std::vector<int>& firsts, int step, int size) const {
    std::vector<Group> groups;
    for (const int first : firsts) {
      Group& group = groups.emplace_back();
      for (int i = 0; i < size; ++i) {
        group.push_back(nics_[static_cast<std::size_t>(first) +
                              static_cast<std::size_t>(i) * static_cast<std::size_t>(step)]);
      }
    }
    return groups;
  }

  std::vector<Phase> Take() {
    if (!phases_.empty()) phases_.front().compute_ns += pending_ns_;
    return std::move(phases_);
  }

 private:
  Group nics_;
  std::map<NodeId, std::size_t> host_of_;
  std::int64_t pending_ns_ = 0;
  std::vector<Phase> phases_;
};

std::vector<Group> Reversed(std::vector<Group> groups) {
  for (Group& group : groups) std::ranges::reverse(group);
  return groups;
}

// NIC (copy * stages + stage) * tensor + t.
std::vector<Phase> MakeModelPhases(const Model& model, int copies, const Group& nics,
                                   int per_host) {
  PhaseBuilder builder(nics, per_host);
  std::vector<int> tensors;    // first NIC of each tensor group
  std::vector<int> pipelines;  // of each pipeline
  std::vector<int> rings;      // of each ring of data parallelism
  for (int i = 0; i < copies * model.copy(); i += model.tensor) tensors.push_back(i);
  for (int copy = 0; copy < copies; ++copy) {
    for (int t = 0; t < model.tensor; ++t) pipelines.push_back(copy * model.copy() + t);
  }
  for (int i = 0; i < model.copy(); ++i) rings.push_back(i);

  const std::int64_t activations = model.tokens * model.hidden * kFloatBytes;
  // Two all-reduces in each layer, forwards and again backwards.
  const std::int64_t tensor_bytes = 2 * activations * model.layers / model.stages;
  const auto tensor_groups = builder.Groups(tensors, 1, model.tensor);
  const auto chains = builder.Groups(pipelines, model.tensor, model.stages);
  const std::int64_t forward_ns = model.compute_ns / 3;
  builder.Add("tensor forward", forward_ns, tensor_groups, MakeRing, tensor_bytes);
  builder.Add("pipeline forward", 0, chains, MakeChain, activations / model.tensor);
  builder.Add("tensor backward", model.compute_ns - forward_ns, tensor_groups, MakeRing,
              tensor_bytes);
  builder.Add("pipeline backward", 0, Reversed(chains), MakeChain, activations / model.tensor);
  builder.Add("all-reduce", 0, builder.Groups(rings, model.copy(), copies), MakeRing,
              model.parameters * kFloatBytes / model.copy());
  return builder.Take();
}

// Every NIC of a host has the NICs at its place in all other hosts for its group.
std::vector<Phase> MakePlainPhases(const std::string& name, const Group& nics, int per_host) {
  PhaseBuilder builder(nics, per_host);
  const auto size = static_cast<int>(nics.size());
  if (name == "all-to-all") {
    builder.Add(name, kComputeNs, {nics}, MakeAllToAll, kBytes);
    return builder.Take();
  }
  std::vector<int> firsts;
  for (int i = 0; i < std::min(per_host, size); ++i) firsts.push_back(i);
  const std::vector<Group> groups = builder.Groups(firsts, per_host, size / per_host);
  if (name == "pipeline") {
    builder.Add("forward", kComputeNs / 3, groups, MakeChain, kBytes);
    builder.Add("backward", kComputeNs - kComputeNs / 3, Reversed(groups), MakeChain, kBytes);
  } else {
    builder.Add("reduce", kComputeNs, groups, MakeReduceTree, kBytes);
    builder.Add("broadcast", 0, groups, MakeBroadcastTree, kBytes);
  }
  return builder.Take();
}

// Hosts of `size` NICs of one leaf each, in the order of the topology.
std::vector<Group> ListHosts(const fabric::Topology& topology, std::size_t size) {
  const fabric::PathTable paths(topology);
  std::map<NodeId, Group> waiting;  // by leaf
  std::vector<Group> hosts;
  for (std::size_t i = 0; i < topology.nodes().size(); ++i) {
    const NodeId node(static_cast<std::int32_t>(i));
    const auto attachment = paths.FindAttachment(node);
    if (!attachment || topology.node(node).kind == fabric::NodeKind::kSwitch) continue;
    Group& host = waiting[attachment->leaf];
    host.push_back(node);
    if (host.size() == size) hosts.push_back(std::exchange(host, {}));
  }
  return hosts;
}

Result<void> Check(const ModelJobOptions& options) {
  const auto check = [](std::string_view name, int value, int least, int most) -> Result<void> {
    if (value >= least && value <= most) return {};
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("--{} {}: must be {} to {}", name, value, least, most));
  };
  if (auto done = check("data-parallel", options.data_parallel, 1, kMaxRanks); !done) return done;
  if (auto done = check("ranks", options.ranks, 2, kMaxRanks); !done) return done;
  if (auto done = check("nics-per-host", options.nics_per_host, 1, kMaxRanks); !done) return done;
  if (auto done = check("epochs", options.epochs, 1, 1'000'000); !done) return done;
  if (options.ranks % options.nics_per_host == 0) return {};
  return Fail(ErrorCode::kInvalidArgument,
              fmt::format("--ranks {} is no multiple of --nics-per-host {}", options.ranks,
                          options.nics_per_host));
}

}  // namespace

Result<std::vector<Job>> MakeModelJobs(const fabric::Topology& topology,
                                       std::span<const std::string> names,
                                       const ModelJobOptions& options) {
  if (auto checked = Check(options); !checked) return Propagate(checked);
  const auto per_host = static_cast<std::size_t>(options.nics_per_host);
  std::vector<Group> hosts = ListHosts(topology, per_host);
  Random random(options.seed);
  for (std::size_t i = hosts.size(); i-- > 1;) std::swap(hosts[i], hosts[random.Below(i + 1)]);
  std::vector<Job> jobs;
  auto next = hosts.begin();
  for (const std::string& name : names) {
    const Model* model = std::ranges::find(kModels, name, &Model::name);
    const bool is_model = model != std::end(kModels);
    if (!is_model && name != "all-to-all" && name != "pipeline" && name != "tree") {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("--workload: unknown workload \"{}\" (give {}, several with commas)",
                              name, kModelJobNames));
    }
    const auto ranks =
        static_cast<std::size_t>(is_model ? options.data_parallel * model->copy() : options.ranks);
    Group nics;
    for (; nics.size() < ranks && next != hosts.end(); ++next) {
      nics.insert(nics.end(), next->begin(), next->end());
    }
    if (nics.size() < ranks) {
      return Fail(ErrorCode::kFailedPrecondition,
                  fmt::format("{} needs {} NICs on hosts of {}, but only {} are left (use a larger "
                              "fabric, fewer --ranks or less --data-parallel)",
                              name, ranks, per_host, nics.size()));
    }
    Job job{.id = fmt::format("job{}", jobs.size()),
            .model = is_model ? std::string(model->title) : name,
            .start_ns = static_cast<std::int64_t>(random.Fraction() * kArrivalNs),
            .epochs = options.epochs,
            .phases = is_model ? MakeModelPhases(*model, options.data_parallel, nics,
                                                 options.nics_per_host)
                               : MakePlainPhases(name, nics, options.nics_per_host)};
    if (job.phases.empty()) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("{}: all its traffic stays within hosts (give more --data-parallel "
                              "or --ranks, or fewer --nics-per-host)",
                              name));
    }
    jobs.push_back(std::move(job));
  }
  return jobs;
}

}  // namespace espalier::offline
