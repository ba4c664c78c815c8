// How long does it take to make a verified forest, how low are its trees, how much memory is
// needed?
//
// forest_bench [--general] [--stages] [--repeat N] [--steps N] [CASE ...]
//
// Prints a row a case: the least processor time of N plans made in a row (3 by default),
// verification included, on one thread. Cases are names of
// tests/collective/forest/reference_cases.h; without any, those of docs/benchmarks.md. Each case
// runs in a process of its own, whose peak memory is given.
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "collective/forest/planner.h"
#include "tests/collective/forest/reference_cases.h"

namespace espalier::forest {
namespace {

// Processor time: all work is on one thread, and others use the machine too.
double Seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

struct Settings {
  PlanOptions plan;
  int repeat = 3;
  bool stages = false;
  std::vector<std::string> cases;
};

// Time by stage, in the order in which they were entered.
class Stages {
 public:
  void Enter(std::string_view stage) {
    Close();
    stage_ = stage;
    begin_ = Seconds();
  }
  void Close() {
    if (stage_.empty()) return;
    seconds_[stage_] += Seconds() - begin_;
    stage_.clear();
  }
  bool IsIn(std::string_view stage) const { return stage_ == stage; }
  std::string Format() const {
    std::string text;
    for (const auto& [stage, seconds] : seconds_) {
      text += fmt::format("  {} {:.4f}", stage, seconds);
    }
    return text;
  }

 private:
  std::map<std::string, double> seconds_;
  std::string stage_;
  double begin_ = 0;
};

void PrintCase(const std::string& name, const Settings& settings) {
  const fabric::Topology topology = BuildTopology(MakeReferenceTopology(name));
  double best = 1e30;
  std::string stages_of_best;
  for (int i = 0; i < settings.repeat; ++i) {
    Stages stages;
    Control control;
    control.progress = [&](std::string_view stage, double) {
      if (!stages.IsIn(stage)) stages.Enter(stage);
    };
    const double begin = Seconds();
    const auto made = MakePlan(topology, settings.plan, control);
    const double seconds = Seconds() - begin;
    stages.Close();
    if (!made) {
      fmt::print("{:<24} {}\n", name, made.error().message);
      return;
    }
    const bool lower = seconds < best;
    if (lower) best = seconds;
    if (lower) stages_of_best = stages.Format();
    if (i + 1 < settings.repeat) continue;
    const Forest& forest = made->plan.forests[0];
    const FallbackCounters& fallbacks = forest.fallbacks;
    fmt::print("{:<24} {:>5} {:<12} {:>9.4f} {:>5} {:>8.2f} {:>6} {:>8} {:>4}/{}/{}/{}", name,
               forest.rank_count, MethodName(forest.method), best, made->findings.heights.max,
               made->findings.heights.mean, forest.unroutable_edges, forest.classes.size(),
               fallbacks.batches_halved, fallbacks.guesses_refused, fallbacks.bisections,
               fallbacks.exact_gammas);
    if (settings.stages) fmt::print("{}", stages_of_best);
  }
}

// In a child process, so that each case has its own peak.
int RunCase(const std::string& name, const Settings& settings) {
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    PrintCase(name, settings);
    std::fflush(stdout);
    _exit(0);
  }
  int status = 0;
  rusage usage{};
  if (child < 0 || wait4(child, &status, 0, &usage) != child) return 1;
  fmt::print("  {} MiB\n", usage.ru_maxrss / 1024);
  return status == 0 ? 0 : 1;
}

std::vector<std::string> TableCases(bool general) {
  std::vector<std::string> cases = {
      "a100_128",    "h100_128", "clos32x32s32", "mi250_64", "a100_512", "mi250_256", "torus32x32",
      "torus8x8x16", "hcube10",  "a100_8",       "a100_16",  "a100_32",  "a100_64",   "a100_256",
      "mi250_4",     "mi250_8",  "mi250_16",     "mi250_32", "mi250_128"};
  const std::vector<std::string> damaged = {
      "a100_128+deadnic", "a100_128+deadnics",      "a100_128+slownic",     "h100_128+deadnic",
      "mi250_64+deadnic", "clos32x32s32+deadspine", "clos32x32s32+deadlink"};
  if (!general) cases.insert(cases.end(), damaged.begin(), damaged.end());
  return cases;
}

}  // namespace
}  // namespace espalier::forest

int main(int argc, char** argv) {
  using espalier::forest::Settings;
  Settings settings;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument == "--general") {
      settings.plan.use_structure = false;
    } else if (argument == "--stages") {
      settings.stages = true;
    } else if (argument == "--repeat" && i + 1 < argc) {
      settings.repeat = std::max(std::atoi(argv[++i]), 1);
    } else if (argument == "--steps" && i + 1 < argc) {
      settings.plan.height_steps = std::atoll(argv[++i]);
    } else {
      settings.cases.emplace_back(argument);
    }
  }
  if (settings.cases.empty()) {
    settings.cases = espalier::forest::TableCases(!settings.plan.use_structure);
  }
  fmt::print("{:<24} {:>5} {:<12} {:>9} {:>5} {:>8} {:>6} {:>8} {:>4}\n", "case", "ranks", "way",
             "seconds", "max", "mean", "unr.", "classes", "halved/refused/bisected/gammas, memory");
  int failed = 0;
  for (const std::string& name : settings.cases) {
    failed += espalier::forest::RunCase(name, settings);
  }
  return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
