#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/check.h"
#include "common/fabric/builders.h"
#include "controller/offline/files/assignment_file.h"
#include "controller/offline/files/floodns_job.h"
#include "controller/offline/files/floodns_topology.h"
#include "controller/offline/files/flow_file.h"
#include "controller/offline/files/job_file.h"
#include "controller/offline/simulation/simulator.h"

namespace {

using espalier::Result;
using espalier::fabric::Topology;
using espalier::offline::Job;

constexpr std::string_view kName = "job_0-M.txt";

const Topology& Fabric() {
  static const Topology topology = *Topology::Build(
      *espalier::fabric::BuildLeafSpine({.spines = 2, .leaves = 3, .hosts_per_leaf = 2}));
  return topology;
}

// Checks that an error names its place.
template <typename T>
bool IsRead(const Result<T>& result) {
  if (result.has_value()) return true;
  ESPALIER_CHECK(result.error().message.starts_with(fmt::format("{}:", kName)), "{}",
                 result.error().message);
  return false;
}

// Checks that jobs that were read are a valid workload.
void CheckJobs(std::vector<Job> jobs) {
  if (jobs.empty()) return;
  const auto workload = espalier::offline::Workload::Build(Fabric(), std::move(jobs));
  ESPALIER_CHECK(workload.has_value(), "{}", workload.error().message);
}

std::string Quoted(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

// Checks that flows that are written with all fields quoted read back equal.
void CheckFlows(const espalier::offline::FlowSet& set, const espalier::fabric::PathTable& paths) {
  std::string text = "flow,job,src,dst,bytes\n";
  for (const auto& flow : set.flows) {
    text += fmt::format("{},{},{},{},{}\n", Quoted(flow.id), Quoted(set.jobs[flow.job]),
                        Quoted(Fabric().node(flow.source).id),
                        Quoted(Fabric().node(flow.destination).id),
                        flow.bytes ? fmt::format("{}", *flow.bytes) : "");
  }
  const auto again = espalier::offline::ParseFlows(text, kName, Fabric(), paths);
  ESPALIER_CHECK(again.has_value(), "{}", again.error().message);
  ESPALIER_CHECK(again->jobs == set.jobs && again->flows.size() == set.flows.size());
  for (std::size_t i = 0; i < set.flows.size(); ++i) {
    ESPALIER_CHECK(again->flows[i].id == set.flows[i].id &&
                   again->flows[i].job == set.flows[i].job &&
                   again->flows[i].source == set.flows[i].source &&
                   again->flows[i].destination == set.flows[i].destination &&
                   again->flows[i].bytes == set.flows[i].bytes);
  }
}

}  // namespace

// Arbitrary bytes as each file format of jobs, flows, assignments and fabrics.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  namespace offline = espalier::offline;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (auto job = offline::ParseFloodnsJob(text, kName, Fabric()); IsRead(job)) CheckJobs({*job});
  if (auto jobs = offline::ParseJobs(text, kName, Fabric()); IsRead(jobs)) CheckJobs(*jobs);
  const espalier::fabric::PathTable paths(Fabric());
  const auto flows = offline::ParseFlows(text, kName, Fabric(), paths);
  if (IsRead(flows)) CheckFlows(*flows, paths);
  if (const auto plan = offline::ParsePreviousAssignment(text, kName); IsRead(plan)) {
    for (const auto& [flow, planned] : *plan) {
      for (const auto& path : planned) {
        ESPALIER_CHECK(path.share.numerator >= 1 && path.share.numerator <= path.share.denominator);
      }
    }
  }
  const auto spec = offline::ParseFloodnsTopology(text, kName);
  constexpr std::size_t kBig = 20'000;  // larger inputs take too long for a fuzzer
  if (IsRead(spec) && spec->nodes.size() < kBig && spec->links.size() < kBig) {
    const auto topology = Topology::Build(*spec);
    ESPALIER_CHECK(topology.has_value(), "{}", topology.error().error.message);
  }
  return 0;
}
