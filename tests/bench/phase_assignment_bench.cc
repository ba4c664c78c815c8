// Measures how long AssignPhases takes, and what it reaches: the worst load of a link over all
// phases that can meet, the lower bound, and how many flows move. Each host of a job sends one flow
// per phase to another host of the job. Prints a table; times are the minimum of several runs.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <string>
#include <vector>

#include "common/base/check.h"
#include "common/fabric/builders.h"
#include "controller/routing/phases/phase_assignment.h"

namespace {

using namespace espalier;              // NOLINT(google-build-using-namespace)
using namespace espalier::controller;  // NOLINT(google-build-using-namespace)

struct Setting {
  std::string name;
  fabric::TopologySpec fabric;
  std::uint32_t hosts_per_leaf = 32;  // that take part
  std::uint32_t jobs = 4;
  std::uint32_t phases = 4;
  std::uint32_t flows_per_job = 512;
  bool overlap = false;  // a flow is in one or two phases
  int dead_spines = 0;
  bool from_result = false;  // starts from the result of an assignment, not from random paths
};

struct Input {
  std::vector<PhaseFlow> flows;
  std::vector<PhasedJob> jobs;
};

Input MakeInput(const Setting& setting, const FabricView& view) {
  std::mt19937 random(7);
  std::vector<std::uint32_t> hosts(std::size_t{view.leaf_count()} * setting.hosts_per_leaf);
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    hosts[i] = static_cast<std::uint32_t>(i) / setting.hosts_per_leaf;
  }
  std::shuffle(hosts.begin(), hosts.end(), random);
  Input input;
  const std::size_t per_job = hosts.size() / setting.jobs;
  for (std::uint32_t j = 0; j < setting.jobs; ++j) {
    const std::span leaves = std::span(hosts).subspan(j * per_job, per_job);
    PhasedJob job;
    job.phases.resize(setting.phases);
    for (std::uint32_t i = 0; i < setting.flows_per_job; ++i) {
      const std::uint32_t phase = i % setting.phases;
      const std::size_t from = i / setting.phases % per_job;
      const std::size_t shift = 1 + phase * 17 + i / setting.phases / per_job;
      const std::uint32_t source = leaves[from];
      const std::uint32_t destination = leaves[(from + shift) % per_job];
      if (source == destination) continue;
      const auto path = random() % view.Candidates(source, destination).size();
      const auto flow = static_cast<std::uint32_t>(input.flows.size());
      input.flows.push_back(
          {.source = source, .destination = destination, .path = static_cast<std::int32_t>(path)});
      job.phases[phase].push_back(flow);
      if (setting.overlap && i % 2 == 0) job.phases[(phase + 1) % setting.phases].push_back(flow);
    }
    input.jobs.push_back(std::move(job));
  }
  return input;
}

void Run(const Setting& setting) {
  auto topology = fabric::Topology::Build(setting.fabric);
  ESPALIER_CHECK(topology, "{}", setting.name);
  for (int spine = 0; spine < setting.dead_spines; ++spine) {
    for (std::size_t i = 0; i < topology->links().size(); ++i) {
      const fabric::LinkId link(static_cast<std::int32_t>(i));
      if (topology->links()[i].id.ends_with("--spine" + std::to_string(spine))) {
        topology->SetLinkState(link, fabric::LinkState::kDown);
      }
    }
  }
  const fabric::PathTable paths(*topology);
  FabricView view(*topology, paths);
  Input input = MakeInput(setting, view);
  if (setting.from_result) {
    const PhaseAssignment first = AssignPhases(view, {}, input.flows, input.jobs);
    for (std::size_t i = 0; i < input.flows.size(); ++i) input.flows[i].path = first.paths[i];
  }
  double best_ms = 1e9;
  PhaseAssignment result;
  for (int run = 0; run < 5; ++run) {
    const auto begin = std::chrono::steady_clock::now();
    result = AssignPhases(view, {}, input.flows, input.jobs);
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
    best_ms = std::min(best_ms, took.count());
  }
  fmt::print("{:48} {:6} flows {:8.2f} ms  load {:>6}  bound {:>6}  moved {:5}\n", setting.name,
             input.flows.size(), best_ms, result.max_load.ToString(), result.lower_bound.ToString(),
             result.moved);
}

fabric::TopologySpec LeafSpine(int leaves, int spines) {
  return *fabric::BuildLeafSpine({.spines = spines, .leaves = leaves, .hosts_per_leaf = 1});
}

}  // namespace

int main() {
  const auto clos = LeafSpine(64, 32);
  Run({.name = "64x32, 4 jobs, 4 phases", .fabric = clos});
  Run({.name = "64x32, 4 jobs, 4 phases, again", .fabric = clos, .from_result = true});
  Run({.name = "64x32, 4 jobs, 4 overlapping phases", .fabric = clos, .overlap = true});
  Run({.name = "64x32, 4 jobs, 4 phases, 1 spine dead", .fabric = clos, .dead_spines = 1});
  Run({.name = "64x32, 4 jobs, 4 phases, all hosts in each",
       .fabric = clos,
       .flows_per_job = 2'048});
  Run({.name = "the same, again", .fabric = clos, .flows_per_job = 2'048, .from_result = true});
  Run({.name = "the same, overlapping", .fabric = clos, .flows_per_job = 2'048, .overlap = true});
  Run({.name = "the same, 1 spine dead", .fabric = clos, .flows_per_job = 2'048, .dead_spines = 1});
  Run({.name = "64x32, 16 jobs, 6 phases, all hosts in each",
       .fabric = clos,
       .jobs = 16,
       .phases = 6,
       .flows_per_job = 768});
  Run({.name = "128x64, 8 jobs, 4 phases, all hosts in each",
       .fabric = LeafSpine(128, 64),
       .hosts_per_leaf = 32,
       .jobs = 8,
       .flows_per_job = 2'048});
  Run({.name = "fat tree k=8, 4 jobs, 4 phases",
       .fabric = *fabric::BuildFatTree({.k = 8}),
       .hosts_per_leaf = 4,
       .flows_per_job = 128});
  return 0;
}
