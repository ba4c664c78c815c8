#include "controller/api/views/forest_view.h"

#include <fmt/format.h>

#include "common/files/json_writer.h"

namespace espalier::controller {
namespace {

using io::JsonWriter;

void WriteForest(JsonWriter& json, const TreeJob& job) {
  const JobPlan* plan = job.active ? &*job.active : nullptr;
  const double algbw = plan != nullptr ? plan->forest->algbw_gbps : 0;
  json.Key("plan").String(std::to_string(plan != nullptr ? plan->version : 0));
  json.Key("origin").String(
      DecisionOriginName(plan != nullptr ? plan->origin : DecisionOrigin::kReactive));
  json.Key("trees_per_rank").Integer(plan != nullptr ? plan->forest->trees : 0);
  json.Key("edges").Integer(plan != nullptr ? static_cast<std::int64_t>(plan->forest->edges.size())
                                            : 0);
  json.Key("edges_over_fabric")
      .Integer(plan != nullptr ? static_cast<std::int64_t>(plan->reserved.size()) : 0);
  json.Key("algbw_gbps").Double(algbw);
  json.Key("bound_gbps").Double(plan != nullptr ? plan->forest->bound_gbps : 0);
  json.Key("expected_seconds")
      .Double(algbw > 0 ? static_cast<double>(job.spec.bytes) * 8 / (algbw * 1e9) : 0);
}

// Writes how many failure domains the job uses, and for how many a backup forest is ready.
void WriteReady(JsonWriter& json, const TreeJobs& jobs, const TreeJob& job) {
  const BackupForests::Coverage coverage = jobs.ReadyFor(job);
  json.Key("failure_plans").Integer(static_cast<std::int64_t>(coverage.ready));
  json.Key("failures_to_plan").Integer(static_cast<std::int64_t>(coverage.elements));
}

void WriteReports(JsonWriter& json, const TreeJob& job) {
  json.Key("collectives_done").Integer(static_cast<std::int64_t>(job.collectives));
  json.Key("last_bytes").Integer(static_cast<std::int64_t>(job.last_bytes));
  json.Key("last_seconds").Double(static_cast<double>(job.last_duration_us) / 1e6);
  json.Key("failures").Integer(static_cast<std::int64_t>(job.failures));
  json.Key("last_failure").String(job.last_failure);
}

void WriteJob(JsonWriter& json, const Controller& controller, const TreeJob& job) {
  const TreeJobs& jobs = controller.jobs();
  json.BeginObject();
  json.Key("job").String(job.spec.name);
  json.Key("status").String(JobStatusName(jobs.StatusOf(job)));
  json.Key("problem").String(job.problem);
  json.Key("collective").String(forest::CollectiveName(job.spec.collective));
  json.Key("bytes").Integer(static_cast<std::int64_t>(job.spec.bytes));
  json.Key("offload").Bool(job.spec.offload);
  json.Key("transport").String(job.spec.verbs ? "verbs" : "tcp");
  json.Key("user").String(job.spec.user);
  json.Key("rank_count").Integer(static_cast<std::int64_t>(job.spec.ranks.size()));
  json.Key("ranks").BeginArray();
  for (const std::string& rank : job.spec.ranks) json.String(rank);
  json.EndArray();
  WriteForest(json, job);
  WriteReady(json, jobs, job);
  json.Key("unacknowledged_ranks").BeginArray();
  for (const std::uint32_t rank : UnacknowledgedRanks(controller.state(), job)) json.Integer(rank);
  json.EndArray();
  WriteReports(json, job);
  json.EndObject();
}

void WriteEdge(JsonWriter& json, const State& state, const JobPlan& plan, std::size_t index) {
  const TreeEdge& edge = plan.edge(index);
  const auto address = [&](fabric::NodeId nic) {
    return state.topology.node(nic).addresses.front().ToString();
  };
  json.BeginObject();
  json.Key("from").Integer(edge.from);
  json.Key("to").Integer(edge.to);
  json.Key("channel").Integer(edge.channel);
  json.Key("chunks").Integer(edge.chunks);
  json.Key("source_address").String(address(edge.source_nic));
  json.Key("destination_address").String(address(edge.destination_nic));
  json.Key("source_port").Integer(plan.ports[index]);
  json.Key("destination_port").Integer(plan.DestinationPort(edge));
  std::string via;
  std::vector<std::string> links;
  if (edge.crossing) {
    const auto between =
        state.paths.Between(edge.crossing->source_leaf, edge.crossing->destination_leaf);
    const fabric::Path& path = between[edge.crossing->path.Index()];
    via = fabric::ViaNames(state.topology, path);
    for (const auto hop : path.hops) links.push_back(state.topology.DirectionName(hop));
  }
  json.Key("via").String(via);
  json.Key("links").BeginArray();
  for (const std::string& link : links) json.String(link);
  json.EndArray();
  json.EndObject();
}

// Writes a class of identical trees with the same root.
void WriteTree(JsonWriter& json, const JobForest& forest, std::size_t index) {
  const algorithms::TreeConnections& tree = forest.tree_classes[index];
  json.BeginObject();
  json.Key("id").Integer(static_cast<std::int64_t>(index));
  json.Key("root").Integer(tree.root);
  json.Key("towards_root").Bool(tree.to_root);
  json.Key("count").Integer(tree.count);
  json.Key("height").Integer(tree.height);
  json.Key("edges").BeginArray();
  for (const std::int32_t edge : tree.connections) json.Integer(edge);
  json.EndArray();
  json.EndObject();
}

}  // namespace

std::string ForestsView(const Controller& controller) {
  JsonWriter json;
  json.BeginObject().Key("forests").BeginArray();
  for (const auto& [name, job] : controller.jobs().all()) {
    WriteJob(json, controller, job);
  }
  json.EndArray().EndObject();
  return json.Text();
}

Result<std::string> ForestPlanView(const Controller& controller, const std::string& name) {
  const auto found = controller.jobs().all().find(name);
  if (found == controller.jobs().all().end()) {
    return Fail(ErrorCode::kNotFound,
                fmt::format("there is no job \"{}\" (`espalier job list` lists them)", name));
  }
  const TreeJob& job = found->second;
  JsonWriter json;
  json.BeginObject();
  json.Key("job").String(name);
  json.Key("plan").String(std::to_string(job.active ? job.active->version : 0));
  json.Key("chunks").Integer(job.active ? job.active->forest->chunks : 0);
  json.Key("edges").BeginArray();
  for (std::size_t i = 0; job.active && i < job.active->ports.size(); ++i) {
    WriteEdge(json, controller.state(), *job.active, i);
  }
  json.EndArray().Key("trees").BeginArray();
  for (std::size_t i = 0; job.active && i < job.active->forest->tree_classes.size(); ++i) {
    WriteTree(json, *job.active->forest, i);
  }
  json.EndArray().EndObject();
  return json.Text();
}

}  // namespace espalier::controller
