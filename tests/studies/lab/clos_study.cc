#include "tests/studies/lab/clos_study.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <utility>

#include "common/files/json_writer.h"
#include "deploy/demo/failover.h"
#include "deploy/demo/main_job.h"
#include "deploy/demo/measured_run.h"
#include "deploy/lab/link_faults.h"

namespace espalier::demo {
namespace {

constexpr const char* kLabName = "clos";
constexpr int kEpochs = 2;
constexpr int kEpochsWithFailure = 6;

struct Arguments {
  int seeds = 5;
  bool equal_seeds = false;
  bool rails = false;
  bool frr = false;
  bool failures = true;
  bool json = false;
};

// One run of one seed.
struct Row {
  int seed = 0;
  MeasuredRun run;
  double ideal_seconds = 0;
};

struct FailureRow {
  const char* kind;
  FailureFigures figures;
};

// A fat-tree of 16 hosts, or eight hosts with four NICs each.
lab::LabOptions Shape(const Arguments& arguments) {
  lab::LabOptions shape{
      .name = kLabName,
      .spines = 2,
      .leaves = 2,
      .hosts_per_leaf = 2,
      .pods = 4,
      .cores = 4,
      .hash_seeds = arguments.equal_seeds ? lab::HashSeeds::kEqual : lab::HashSeeds::kDistinct,
      .routing = arguments.frr ? lab::Routing::kFrr : lab::Routing::kStatic};
  if (arguments.rails) {
    shape.spines = shape.hosts_per_leaf = shape.rails = 4;
    shape.leaves = 8;
    shape.pods = shape.cores = 0;
  }
  return shape;
}

Result<std::vector<Experiment>> MakeExperiments(const lab::LabLayout& plan) {
  auto permutation = MakePermutation(plan);
  if (!permutation) return Propagate(permutation);
  auto rings =
      plan.options().rails > 1
          ? MakeRailRings(plan, kEpochs)
          : MakeRingJobs(plan, {.name = "two-rings", .jobs = 2, .stages = 1, .epochs = kEpochs});
  if (!rings) return Propagate(rings);
  return std::vector{std::move(*permutation), std::move(*rings)};
}

Result<void> RunExperiment(const lab::Lab& lab, int seed, const LabDaemons* daemons,
                           const Experiment& experiment, std::vector<Row>& rows) {
  auto run = RunMeasured(lab, experiment, static_cast<std::uint64_t>(seed), daemons);
  if (!run) return Propagate(run);
  if (!run->completed) {
    return Fail(ErrorCode::kInternal, "the traffic did not end within its time limit");
  }
  Row row{.seed = seed, .run = *run, .ideal_seconds = experiment.ideal.slowest_flow_seconds};
  fmt::print(stderr,
             "seed {}: {:<12} {:<9} slowest flow {:5.2f} s (ideal {:.2f} s), worst leaf link {} "
             "flows, worst core link {}, steered {}, mismatches {} ({} at cores)\n",
             seed, run->figures.name, run->figures.scheme, run->figures.slowest_flow_seconds,
             row.ideal_seconds, run->max_leaf_link_flows, run->max_core_link_flows,
             run->steered_flows, run->mismatches, run->core_mismatches);
  rows.push_back(std::move(row));
  return {};
}

Result<void> RunExperiments(const lab::Lab& lab, int seed, const LabDaemons* daemons,
                            std::vector<Row>& rows) {
  auto experiments = MakeExperiments(lab.layout());
  if (!experiments) return Propagate(experiments);
  for (const Experiment& experiment : *experiments) {
    if (Result<void> ran = RunExperiment(lab, seed, daemons, experiment, rows); !ran) return ran;
  }
  return {};
}

// A NIC dies: the others go on. It comes back: all do.
Result<void> RunWithoutNic(const lab::Lab& lab, int seed, const LabDaemons& daemons,
                           std::vector<Row>& rows) {
  const std::string nic = "h0/nic1";
  const std::string link = "h0/nic1--leaf1";
  auto all = MakePermutation(lab.layout());
  if (!all) return Propagate(all);
  Experiment others = *all;
  others.name = "without-nic";
  std::erase_if(others.workload.flows, [&](const traffic::SingleFlow& flow) {
    return flow.source == nic || flow.destination == nic;
  });
  all->name = "nic-is-back";
  const auto failed = lab::FailLink(lab, link);
  if (!failed) return tl::unexpected<Error>(failed.error());
  Result<void> done = daemons.AwaitEvent("nic_down", link);
  if (done) done = RunExperiment(lab, seed, &daemons, others, rows);
  if (!done) return done;
  const auto restored = lab::RestoreLink(lab, link);
  if (!restored) return tl::unexpected<Error>(restored.error());
  done = daemons.AwaitEvent("nic_up", link);
  if (done) done = RunExperiment(lab, seed, &daemons, *all, rows);
  return done;
}

Result<void> RunFailures(const lab::Lab& lab, int seed, const LabDaemons& daemons,
                         std::vector<FailureRow>& rows) {
  auto rings = MakeRingJobs(
      lab.layout(), {.name = "one-ring", .jobs = 1, .stages = 1, .epochs = kEpochsWithFailure});
  if (!rings) return Propagate(rings);
  for (const auto& [kind, name] :
       {std::pair(FarLink::kToLeaf, "far-link"), std::pair(FarLink::kFromCore, "core-link")}) {
    auto figures = RunWithFailure(lab, *rings, static_cast<std::uint64_t>(seed), daemons,
                                  Detection::kOperator, kind);
    if (!figures) return Propagate(figures);
    fmt::print(
        stderr,
        "seed {}: {} {} fails: {} of {} flows moved after {:.3f} s, {} dead, shared in {} of "
        "{} polls, {:.2f} s in all\n",
        seed, name, figures->link, figures->flows_moved, figures->flows_on_link,
        figures->seconds_to_move, figures->dead_flows, figures->polls_with_shared_link,
        figures->polls, figures->seconds);
    rows.push_back({name, std::move(*figures)});
  }
  return {};
}

std::string FormatRows(const std::vector<Row>& rows, const std::vector<FailureRow>& failures) {
  io::JsonWriter json;
  json.BeginObject().Key("runs").BeginArray();
  for (const Row& row : rows) {
    json.BeginObject();
    json.Key("seed").Integer(row.seed);
    json.Key("workload").String(row.run.figures.name);
    json.Key("scheme").String(row.run.figures.scheme);
    json.Key("slowest_flow_seconds").Double(row.run.figures.slowest_flow_seconds);
    json.Key("ideal_seconds").Double(row.ideal_seconds);
    json.Key("max_leaf_link_flows").Integer(row.run.max_leaf_link_flows);
    json.Key("max_core_link_flows").Integer(row.run.max_core_link_flows);
    json.Key("steered_flows").Integer(row.run.steered_flows);
    json.Key("mismatches").Integer(row.run.mismatches);
    json.Key("core_mismatches").Integer(row.run.core_mismatches);
    json.EndObject();
  }
  json.EndArray().Key("failures").BeginArray();
  for (const FailureRow& row : failures) {
    json.BeginObject();
    json.Key("kind").String(row.kind);
    json.Key("link").String(row.figures.link);
    json.Key("flows_on_link").Integer(row.figures.flows_on_link);
    json.Key("flows_moved").Integer(row.figures.flows_moved);
    json.Key("dead_flows").Integer(row.figures.dead_flows);
    json.Key("seconds_to_move").Double(row.figures.seconds_to_move);
    json.Key("polls").Integer(row.figures.polls);
    json.Key("polls_with_shared_link").Integer(row.figures.polls_with_shared_link);
    json.Key("completed").Bool(row.figures.job_completed);
    json.EndObject();
  }
  json.EndArray().EndObject();
  return json.Text();
}

Result<void> RunSeed(const lab::Lab& lab, int seed, const Arguments& arguments,
                     const std::string& programs, const std::string& folder, std::vector<Row>& rows,
                     std::vector<FailureRow>& failures) {
  if (Result<void> ran = RunExperiments(lab, seed, nullptr, rows); !ran) return ran;
  auto daemons = LabDaemons::Start(lab, programs, folder);
  if (!daemons) return Propagate(daemons);
  if (Result<void> ran = RunExperiments(lab, seed, &*daemons, rows); !ran) return ran;
  if (!arguments.failures) return {};
  return arguments.rails ? RunWithoutNic(lab, seed, *daemons, rows)
                         : RunFailures(lab, seed, *daemons, failures);
}

Result<void> RunAll(const Arguments& arguments, const std::string& programs) {
  std::vector<Row> rows;
  std::vector<FailureRow> failures;
  for (int seed = 1; seed <= arguments.seeds; ++seed) {
    Result<void> ran =
        RunOnFabric(Shape(arguments), static_cast<std::uint64_t>(seed),
                    [&](const lab::Lab& lab, const std::string& folder) {
                      return RunSeed(lab, seed, arguments, programs, folder, rows, failures);
                    });
    if (!ran) return ran;
  }
  if (arguments.json) fmt::print("{}\n", FormatRows(rows, failures));
  return {};
}

}  // namespace

RunStudy AddClosStudy(CLI::App& command) {
  const auto arguments = std::make_shared<Arguments>();
  command.add_option("--seeds", arguments->seeds, "Number of fabrics, each with seeds of its own")
      ->capture_default_str()
      ->check(CLI::Range(1, 100));
  command.add_flag("--equal-seeds", arguments->equal_seeds,
                   "Let all switches hash alike, so that some paths have no port");
  command.add_flag("--rails", arguments->rails,
                   "Two tiers and eight hosts with four NICs each, of which one dies");
  command.add_flag("--frr", arguments->frr,
                   "Let the switches agree on their routes by BGP, with FRR");
  command.add_flag("!--no-failures", arguments->failures, "Take no links down");
  command.add_flag("--json", arguments->json, "Print one JSON object");
  return [arguments](const std::string& programs) { return RunAll(*arguments, programs); };
}

}  // namespace espalier::demo
