#include "deploy/simulation/scenario_file.h"

#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "common/fabric/builders.h"
#include "common/fabric/ecmp/ecmp_hash.h"
#include "common/files/file.h"
#include "common/files/json.h"
#include "common/files/json_fields.h"
#include "common/files/topology_file.h"
#include "controller/offline/files/phase_reader.h"
#include "deploy/simulation/action_reader.h"
#include "proto/limits.h"
#include "proto/text.h"

namespace espalier::simulation {
namespace {

constexpr std::int64_t kMaxGbps = 10'000;
constexpr int kMaxEpochs = 1'000'000;  // also without "epochs": until the run ends
constexpr std::int64_t kMaxQueuePairs = 16;

class Reader {
 public:
  Reader(std::string_view file_name, const TopologyReader& read_topology)
      : file_(file_name), read_topology_(read_topology) {}

  Result<Scenario> Read(const io::JsonValue& document) {
    io::JsonFields fields(document, file_);
    scenario_.name = fields.String("name");
    ReadMode(fields);
    scenario_.duration = Duration(offline::ReadSeconds(fields, "duration_seconds"));
    if (scenario_.duration <= Duration::zero() ||
        scenario_.duration > std::chrono::seconds(kMaxDurationSeconds)) {
      fields.AddError("duration_seconds", fmt::format("the run must last more than 0 and up to {} "
                                                      "seconds",
                                                      kMaxDurationSeconds));
    }
    scenario_.hash = fields.String("hash", scenario_.hash);
    if (const auto hash = fabric::MakeEcmpHash({scenario_.hash, 1}); !hash)
      fields.AddError("hash", hash.error().message);
    scenario_.controller_knows_hashes = fields.Bool("controller_knows_hashes", true);
    const io::JsonValue* const messages = fields.Object("messages");
    const io::JsonValue* const leaf_spine = fields.Object("leaf_spine");
    const std::string topology_file = fields.String("topology_file");
    if ((leaf_spine == nullptr) == topology_file.empty()) {
      fields.AddError(leaf_spine == nullptr ? "topology_file" : "leaf_spine",
                      "give the fabric as either \"leaf_spine\" or \"topology_file\"");
    }
    const auto& jobs = fields.RequiredArray("jobs");
    const auto& actions = fields.Array("actions");
    if (jobs.size() > kMaxJobs)
      fields.AddError("jobs", fmt::format("the file has more than {} jobs", kMaxJobs));
    if (actions.size() > kMaxActions)
      fields.AddError("actions", fmt::format("the file has more than {} actions", kMaxActions));
    const std::string fabric_at = fields.At(leaf_spine == nullptr ? "topology_file" : "leaf_spine");
    if (auto done = fields.Finish(); !done) return Propagate(done);
    if (messages != nullptr) {
      io::JsonFields faults(*messages, file_);
      scenario_.messages = ReadFaults(faults);
      if (auto done = faults.Finish(); !done) return Propagate(done);
    }
    auto topology = leaf_spine != nullptr ? BuildLeafSpine(*leaf_spine)
                                          : ReadTopology(topology_file, fabric_at);
    if (!topology) return Propagate(topology);
    if (auto read = ReadJobs(jobs, *topology); !read) return Propagate(read);
    if (auto read = ReadActions(actions, *topology); !read) return Propagate(read);
    return std::move(scenario_);
  }

 private:
  void ReadMode(io::JsonFields& fields) {
    const std::string name = fields.String("mode", std::string(ModeName(Mode::kEspalier)));
    for (const Mode mode : {Mode::kEspalier, Mode::kConnections, Mode::kEcmp}) {
      scenario_.mode = mode;
      if (ModeName(mode) == name) return;
    }
    fields.AddError("mode", "must be espalier, connections or ecmp");
  }

  Result<fabric::Topology> BuildLeafSpine(const io::JsonValue& item) {
    io::JsonFields fields(item, file_);
    const auto count = [&](std::string_view key, int fallback) {
      return static_cast<int>(fields.Integer(key, fallback, 1, kMaxSwitchesOfTier));
    };
    const auto rate = [&](std::string_view key, std::int64_t fallback) {
      return BitsPerSecond{fields.Integer(key, fallback, 1, kMaxGbps) * 1'000'000'000};
    };
    fabric::LeafSpineOptions shape;
    shape.spines = count("spines", shape.spines);
    shape.leaves = count("leaves", shape.leaves);
    shape.hosts_per_leaf = count("hosts_per_leaf", shape.hosts_per_leaf);
    shape.host_rate = rate("host_gbps", 100);
    shape.fabric_rate = rate("fabric_gbps", 100);
    if (shape.leaves * shape.hosts_per_leaf > kMaxHosts)
      fields.AddError("hosts_per_leaf",
                      fmt::format("the fabric has more than {} hosts", kMaxHosts));
    const std::string at = fields.At("leaves");
    if (auto done = fields.Finish(); !done) return Propagate(done);
    auto spec = fabric::BuildLeafSpine(shape);
    if (!spec) return FailAt(at, spec.error().message);
    return CheckTopology(std::move(*spec), at);
  }

  Result<fabric::Topology> ReadTopology(const std::string& name, const std::string& at) {
    auto topology = read_topology_(name);
    if (!topology) return Propagate(topology);
    if (ListNics(*topology).size() > static_cast<std::size_t>(kMaxHosts))
      return FailAt(at, fmt::format("{} has more than {} hosts", name, kMaxHosts));
    return CheckTopology(topology->Spec(), at);
  }

  Result<fabric::Topology> CheckTopology(fabric::TopologySpec spec, const std::string& at) {
    scenario_.fabric = std::move(spec);
    const fabric::TopologySpec with_hashes = FabricOf(scenario_, 1);
    if (auto checked = CheckFabric(with_hashes); !checked) {
      return FailAt(at, checked.error().message);
    }
    return fabric::Topology::Build(scenario_.fabric).value();
  }

  Result<void> ReadJobs(const std::vector<io::JsonValue>& items, const fabric::Topology& topology) {
    offline::PhaseReader phases(file_, topology);
    const std::vector<fabric::NodeId> nics = ListNics(topology);
    for (std::size_t i = 0; i < nics.size(); ++i) host_of_[nics[i]] = static_cast<int>(i);
    for (const io::JsonValue& item : items) {
      auto job = ReadJob(item, phases);
      if (!job) return Propagate(job);
      scenario_.jobs.push_back(std::move(*job));
    }
    return {};
  }

  Result<PlayedJob> ReadJob(const io::JsonValue& item, offline::PhaseReader& phases) {
    io::JsonFields fields(item, file_);
    PlayedJob job;
    job.id = fields.RequiredString("id");
    if (job.id != wire::MakePrintable(job.id, wire::kMaxNameBytes)) {
      fields.AddError("id", fmt::format("the id must be at most {} bytes of printable text",
                                        wire::kMaxNameBytes));
    }
    if (!ids_.insert(job.id).second) fields.AddError("id", "the id is used twice (rename one)");
    fields.String("model");  // for people, as in job files
    job.start = Duration(offline::ReadSeconds(fields, "start_seconds"));
    job.period = Duration(offline::ReadSeconds(fields, "period_seconds"));
    job.iterations = static_cast<int>(fields.Integer("epochs", kMaxEpochs, 1, kMaxEpochs));
    job.jitter_percent = static_cast<int>(fields.Integer("jitter_percent", 0, 0, 100));
    job.queue_pairs = static_cast<int>(fields.Integer("queue_pairs", 1, 1, kMaxQueuePairs));
    const std::string at = fields.At("id");
    const auto read = phases.ReadPhases(fields);
    if (!read) return tl::unexpected<Error>(read.error());
    for (const offline::Phase& phase : *read) {
      auto played = PlayPhase(phase, at);
      if (!played) return Propagate(played);
      job.phases.push_back(std::move(*played));
    }
    if (auto counted = CountConnections(job, at); !counted) return Propagate(counted);
    return job;
  }

  // All rounds of an exchange are one burst.
  Result<PlayedPhase> PlayPhase(const offline::Phase& phase, const std::string& at) {
    PlayedPhase played{.compute = Duration(phase.compute_ns), .bursts = {}};
    std::map<std::pair<int, int>, std::uint64_t> bytes;
    for (const offline::Exchange& exchange : phase.exchanges) {
      const double burst = static_cast<double>(exchange.round_bytes) * exchange.rounds;
      for (const offline::Exchange::Flow& flow : exchange.flows) {
        std::uint64_t& sum = bytes[{host_of_.at(flow.source), host_of_.at(flow.destination)}];
        if (static_cast<double>(sum) + burst > static_cast<double>(kMaxBurstBytes)) {
          return FailAt(at, fmt::format("a host sends more than {} bytes to another in one phase "
                                        "(divide the job's bytes)",
                                        kMaxBurstBytes));
        }
        sum += static_cast<std::uint64_t>(exchange.round_bytes) *
               static_cast<std::uint64_t>(exchange.rounds);
      }
    }
    for (const auto& [pair, sum] : bytes) played.bursts.push_back({pair.first, pair.second, sum});
    return played;
  }

  Result<void> CountConnections(const PlayedJob& job, const std::string& at) {
    std::set<std::pair<int, int>> pairs;
    for (const PlayedPhase& phase : job.phases) {
      for (const Burst& burst : phase.bursts) pairs.insert({burst.source, burst.destination});
    }
    connections_ += pairs.size() * static_cast<std::size_t>(job.queue_pairs);
    if (connections_ > kMaxConnections)
      return FailAt(at, fmt::format("the jobs have more than {} connections", kMaxConnections));
    for (const auto& [source, destination] : pairs) {
      if ((connections_of_[source] += job.queue_pairs) > kMaxConnectionsOfHost) {
        return FailAt(
            at, fmt::format("a host sends over more than {} connections", kMaxConnectionsOfHost));
      }
    }
    return {};
  }

  Result<void> ReadActions(const std::vector<io::JsonValue>& items,
                           const fabric::Topology& topology) {
    ActionReader actions(file_, topology, scenario_);
    for (const io::JsonValue& item : items) {
      auto action = actions.Read(item);
      if (!action) return Propagate(action);
      scenario_.actions.push_back(std::move(*action));
    }
    return {};
  }

  static tl::unexpected<Error> FailAt(const std::string& at, std::string_view what) {
    return Fail(ErrorCode::kInvalidArgument, fmt::format("{}: {}", at, what));
  }

  const std::string file_;
  const TopologyReader& read_topology_;
  Scenario scenario_;
  std::map<fabric::NodeId, int> host_of_;
  std::set<std::string> ids_;
  std::size_t connections_ = 0;
  std::map<int, int> connections_of_;  // by sending host
};

}  // namespace

Result<Scenario> ParseScenario(std::string_view text, std::string_view file_name,
                               const TopologyReader& read_topology) {
  const auto document = io::ParseJson(text, file_name);
  if (!document) return tl::unexpected<Error>(document.error());
  return Reader(file_name, read_topology).Read(*document);
}

Result<Scenario> ReadScenario(const std::string& path) {
  const auto text = io::ReadFile(path);
  if (!text) return tl::unexpected<Error>(text.error());
  return ParseScenario(*text, path, [&](const std::string& name) {
    return io::ReadTopologyFile((std::filesystem::path(path).parent_path() / name).string());
  });
}

}  // namespace espalier::simulation
