// espalier-trees: compares an all-reduce over the 16 hosts of a lab as a ring on plain ECMP and on
// the controller's forest, inline and offloaded, before and after a spine fails, and once it is
// back.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <string>

#include "common/os/scratch_folder.h"
#include "deploy/demo/tree_job.h"
#include "deploy/lab/ground_truth.h"
#include "deploy/lab/link_faults.h"

namespace espalier::demo {
namespace {

constexpr std::int64_t kLinkBitsPerSecond = 50'000'000;
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

Result<void> RunAll(const Arguments& arguments, const std::string& programs,
                    const std::string& folder) {
  auto lab = lab::Lab::Start({.name = kLabName,
                              .link_rate = BitsPerSecond{kLinkBitsPerSecond},
                              .seed = arguments.seed,
                              .die_with_caller = true});
  if (!lab) return Propagate(lab);
  fmt::print("{:<34} {:>7} {:>7} {:>6} {:>6} {:>6} {:>6} {:>13}\n", "all-reduce, 4x4x4, 50 Mbit/s",
             "seconds", "speedup", "wrong", "edges", "silent", "stray", "payload/plan");
  auto ring = RunRanks(
      *lab, programs,
      {.bytes = arguments.bytes, .calls = arguments.calls, .job = "", .on_running = nullptr});
  if (!ring) return Propagate(ring);
  PrintRow("ring on ECMP", *ring, ring->Median(), nullptr);
  auto daemons = LabDaemons::Start(*lab, programs, folder);
  if (!daemons) return Propagate(daemons);
  for (const std::string when : {"", ", a spine down", ", the spine back"}) {
    if (!when.empty()) {
      const bool is_up = when == ", the spine back";
      if (auto set = SetSpine(*lab, *daemons, is_up); !set) return set;
      ring = RunRanks(
          *lab, programs,
          {.bytes = arguments.bytes, .calls = arguments.calls, .job = "", .on_running = nullptr});
      if (!ring) return Propagate(ring);
      PrintRow("ring on ECMP" + when, *ring, ring->Median(), nullptr);
    }
    for (const bool offload : {false, true}) {
      auto ran = RunTrees(*lab, *daemons, programs, arguments, offload, ring->Median(), when);
      if (!ran) return ran;
    }
  }
  return lab::Lab::Stop(kLabName);
}

int Run(const Arguments& arguments) {
  const auto folder = ScratchFolder::Make("trees");
  if (!folder) {
    fmt::print(stderr, "espalier-trees: {}\n", folder.error().message);
    return 1;
  }
  const std::string programs = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  const Result<void> ran = RunAll(arguments, programs, folder->path());
  if (ran) return 0;
  fmt::print(stderr, "espalier-trees: {}\n", ran.error().message);
  return 1;
}

}  // namespace
}  // namespace espalier::demo

int main(int argc, char** argv) {
  CLI::App app(
      "Compare an all-reduce over 16 hosts in a lab: a ring on ECMP and the controller's forest.");
  espalier::demo::Arguments arguments;
  app.add_option("--bytes", arguments.bytes, "Bytes per call")->capture_default_str();
  app.add_option("--calls", arguments.calls, "Number of calls; their median is shown")
      ->capture_default_str();
  app.add_option("--seed", arguments.seed, "Seed of the fabric's hashes")->capture_default_str();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  return espalier::demo::Run(arguments);
}
