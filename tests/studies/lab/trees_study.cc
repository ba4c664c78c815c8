#include "tests/studies/lab/trees_study.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>

#include "deploy/lab/ground_truth.h"
#include "deploy/lab/link_faults.h"
#include "tests/studies/lab/tree_job.h"

namespace espalier::demo {
namespace {

constexpr const char* kLabName = "trees";
constexpr const char* kDeadSpine = "spine1";

struct Arguments {
  std::int64_t bytes = 8'000'000;
  int calls = 5;
  std::uint64_t seed = 1;
};

void PrintRow(const std::string& name, const RanksRun& run, double ring_seconds,
              const CounterComparison* comparison) {
  fmt::print("{:<34} {:>7.2f} {:>7.2f} {:>6}", name, run.Median(),
             run.Median() > 0 ? ring_seconds / run.Median() : 0, run.wrong_sums);
  if (comparison != nullptr) {
    fmt::print(" {:>6} {:>6} {:>6} {:>7.3f}-{:.3f}", comparison->edges, comparison->silent_edges,
               comparison->stray_connections.size(), comparison->least_payload,
               comparison->most_payload);
  }
  fmt::print("\n");
  std::fflush(stdout);
}

// Fails or restores all links of a spine and reports that to the controller.
Result<void> SetSpine(const lab::Lab& lab, const LabDaemons& daemons, bool is_up) {
  for (int leaf = 0; leaf < lab.layout().options().LeafCount(); ++leaf) {
    const std::string link = fmt::format("leaf{}--{}", leaf, kDeadSpine);
    auto set = is_up ? lab::RestoreLink(lab, link) : lab::FailLink(lab, link);
    if (!set) return Propagate(set);
  }
  auto told =
      daemons.Post(fmt::format("/api/v1/nodes/{}?id={}", is_up ? "restore" : "fail", kDeadSpine));
  if (!told) return Propagate(told);
  return {};
}

Result<void> RunTrees(const lab::Lab& lab, const LabDaemons& daemons, const std::string& programs,
                      const Arguments& arguments, bool offload, double ring_seconds,
                      const std::string& when) {
  const std::string name = offload ? "offloaded" : "inline";
  auto started = StartTreeJob(daemons, lab, name, arguments.bytes, offload);
  if (!started) return started;
  auto plan = ReadPlan(daemons, name);
  if (!plan) return Propagate(plan);
  auto before = lab::ReadFlowCounts(lab);
  if (!before) return Propagate(before);
  auto run = RunRanks(
      lab, programs,
      {.bytes = arguments.bytes, .calls = arguments.calls, .job = name, .on_running = nullptr});
  if (!run) return Propagate(run);
  auto after = lab::ReadFlowCounts(lab);
  if (!after) return Propagate(after);
  const auto counts = lab::Difference(*before, *after);
  const CounterComparison comparison =
      CompareWithCounters(*plan, arguments.bytes, arguments.calls, counts);
  PrintRow(fmt::format("forest, {}{}", name, when), *run, ring_seconds, &comparison);
  if (!run->completed) return Fail(ErrorCode::kInternal, "not all ranks ended without an error");
  return StopTreeJob(daemons, name);
}

Result<void> RunAll(const lab::Lab& lab, const Arguments& arguments, const std::string& programs,
                    const std::string& folder) {
  fmt::print("{:<34} {:>7} {:>7} {:>6} {:>6} {:>6} {:>6} {:>13}\n", "all-reduce, 4x4x4, 50 Mbit/s",
             "seconds", "speedup", "wrong", "edges", "silent", "stray", "payload/plan");
  auto ring = RunRanks(
      lab, programs,
      {.bytes = arguments.bytes, .calls = arguments.calls, .job = "", .on_running = nullptr});
  if (!ring) return Propagate(ring);
  PrintRow("ring on ECMP", *ring, ring->Median(), nullptr);
  auto daemons = LabDaemons::Start(lab, programs, folder);
  if (!daemons) return Propagate(daemons);
  for (const std::string when : {"", ", a spine down", ", the spine back"}) {
    if (!when.empty()) {
      const bool is_up = when == ", the spine back";
      if (auto set = SetSpine(lab, *daemons, is_up); !set) return set;
      ring = RunRanks(
          lab, programs,
          {.bytes = arguments.bytes, .calls = arguments.calls, .job = "", .on_running = nullptr});
      if (!ring) return Propagate(ring);
      PrintRow("ring on ECMP" + when, *ring, ring->Median(), nullptr);
    }
    for (const bool offload : {false, true}) {
      auto ran = RunTrees(lab, *daemons, programs, arguments, offload, ring->Median(), when);
      if (!ran) return ran;
    }
  }
  return {};
}

}  // namespace

RunStudy AddTreesStudy(CLI::App& command) {
  const auto arguments = std::make_shared<Arguments>();
  command.add_option("--bytes", arguments->bytes, "Bytes per call")->capture_default_str();
  command.add_option("--calls", arguments->calls, "Number of calls; their median is shown")
      ->capture_default_str();
  command.add_option("--seed", arguments->seed, "Seed of the fabric's hashes")
      ->capture_default_str();
  return [arguments](const std::string& programs) {
    return RunOnFabric({.name = kLabName}, arguments->seed,
                       [&](const lab::Lab& lab, const std::string& folder) {
                         return RunAll(lab, *arguments, programs, folder);
                       });
  };
}

}  // namespace espalier::demo
