// Measures the computation of verified tree schedules on one and on two threads: time in total and
// by stage, memory, and the height of the trees.
//
// forest_bench [--general] [--sweep] [--repeat N] [--threads N ...] [--steps N] [CASE ...]
//
// Prints a row for each case and number of threads (default: 1 and 2). A row shows the schedule
// with the least processor time, verification included, of N repetitions (default: 3); the part of
// that time on the calling thread; the least wall-clock time; its stages; and the peak memory of
// its own process. Cases are names of tests/collective/forest/reference_cases.h (default: those of
// docs/benchmarks.md). --sweep: A100 and MI250 from 64 to 4,096 GPUs instead, each with the factor
// over the previous size.
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "collective/forest/planner/planner.h"
#include "tests/collective/forest/reference_cases.h"

namespace espalier::forest {
namespace {

double Read(clockid_t clock) {
  timespec time{};
  ::clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// Processor time of all threads, which is independent of other load on the machine; that of the
// calling thread, which does the longest part of divided work, and so approximates the duration on
// idle cores; and the wall-clock time.
struct Seconds {
  double processor = 0;
  double own = 0;
  double wall = 0;

  static Seconds Now() {
    return {Read(CLOCK_PROCESS_CPUTIME_ID), Read(CLOCK_THREAD_CPUTIME_ID), Read(CLOCK_MONOTONIC)};
  }
  Seconds operator-(const Seconds& since) const {
    return {processor - since.processor, own - since.own, wall - since.wall};
  }
};

struct Settings {
  ScheduleOptions plan;
  int repeat = 3;
  std::vector<int> threads;
  bool sweep = false;
  std::vector<std::string> cases;
};

// Processor time by stage.
class Stages {
 public:
  void Enter(std::string_view stage) {
    if (stage == stage_) return;
    Close();
    stage_ = stage;
    begin_ = Read(CLOCK_PROCESS_CPUTIME_ID);
  }
  void Close() {
    for (std::size_t i = 0; i < kNames.size(); ++i) {
      if (kNames[i] == stage_) seconds_[i] += Read(CLOCK_PROCESS_CPUTIME_ID) - begin_;
    }
    stage_.clear();
  }
  std::string Format() const {
    std::string text;
    for (const double seconds : seconds_) text += fmt::format(" {:>8.4f}", seconds);
    return text;
  }
  static std::string Heads() {
    std::string text;
    for (const std::string_view name : kNames) text += fmt::format(" {:>8}", name.substr(0, 8));
    return text;
  }

 private:
  static constexpr std::array<std::string_view, 7> kNames = {
      "bound", "trees per root", "switch removal", "packing", "lift", "height", "verify"};
  std::array<double, 7> seconds_{};
  std::string stage_;
  double begin_ = 0;
};

// The cost of one schedule, and its row.
struct Run {
  Seconds seconds;
  std::string subflow;
  std::string result;
};

std::string FormatResult(const VerifiedSchedule& made) {
  const Forest& forest = made.schedule.forests[0];
  const FallbackCounters& fallbacks = forest.fallbacks;
  return fmt::format("{:>4} {:>7.2f} {:>4} {:>7} {}/{}/{}/{}", made.findings.heights.max,
                     made.findings.heights.mean, forest.unroutable_edges, forest.classes.size(),
                     fallbacks.batches_halved, fallbacks.guesses_refused, fallbacks.bisections,
                     fallbacks.exact_gammas);
}

std::optional<Run> MakeOnce(const fabric::Topology& topology, const Settings& settings,
                            int threads) {
  Stages stages;
  Control control;
  control.threads = threads;
  control.progress = [&](std::string_view stage, double) { stages.Enter(stage); };
  const Seconds begin = Seconds::Now();
  const auto made = MakeTreeSchedule(topology, settings.plan, control);
  const Seconds took = Seconds::Now() - begin;
  stages.Close();
  if (!made) {
    fmt::print("{}\n", made.error().message);
    return std::nullopt;
  }
  const Forest& forest = made->schedule.forests[0];
  return Run{
      took,
      fmt::format("{:>5} {:<12} {:>2}", forest.rank_count, MethodName(forest.method), threads),
      stages.Format() + " " + FormatResult(*made)};
}

// Prints the row without its memory; returns the processor time.
std::optional<double> PrintRow(const std::string& name, const Settings& settings, int threads) {
  const fabric::Topology topology = BuildTopology(MakeReferenceTopology(name));
  std::optional<Run> best;
  double wall = 1e30;
  for (int i = 0; i < settings.repeat; ++i) {
    std::optional<Run> run = MakeOnce(topology, settings, threads);
    if (!run) return std::nullopt;
    wall = std::min(wall, run->seconds.wall);
    if (!best || run->seconds.processor < best->seconds.processor) best = std::move(run);
  }
  fmt::print("{:<22} {} {:>8.4f} {:>8.4f} {:>8.4f}{}", name, best->subflow, best->seconds.processor,
             best->seconds.own, wall, best->result);
  return best->seconds.processor;
}

// Runs a row in a child process, so that each row has its own peak memory. Returns the processor
// time.
std::optional<double> RunRow(const std::string& name, const Settings& settings, int threads) {
  std::array<int, 2> pipe{};
  if (::pipe(pipe.data()) != 0) return std::nullopt;
  std::fflush(stdout);
  const pid_t child = ::fork();
  if (child == 0) {
    const double seconds = PrintRow(name, settings, threads).value_or(-1);
    std::fflush(stdout);
    _exit(::write(pipe[1], &seconds, sizeof seconds) == sizeof seconds ? 0 : 1);
  }
  ::close(pipe[1]);
  double seconds = -1;
  const bool told = ::read(pipe[0], &seconds, sizeof seconds) == sizeof seconds;
  ::close(pipe[0]);
  int status = 0;
  rusage usage{};
  if (child < 0 || ::wait4(child, &status, 0, &usage) != child) return std::nullopt;
  fmt::print(" {:>5} MiB", usage.ru_maxrss / 1024);
  if (!told || seconds < 0) return std::nullopt;
  return seconds;
}

std::vector<std::string> TableCases() {
  std::vector<std::string> cases;
  for (const ReferenceRow& row : ReferenceRows()) cases.emplace_back(row.name);
  for (const std::string_view name :
       {"a100_128", "h100_128", "clos32x32s32", "mi250_64", "a100_512", "mi250_256", "torus32x32",
        "torus8x8x16", "hcube10", "a100_128+deadnic", "a100_128+deadnics", "a100_128+slownic",
        "a100_128+deadgpu", "h100_128+deadnic", "mi250_64+deadnic", "clos32x32s32+deadspine",
        "clos32x32s32+deadlink"}) {
    cases.emplace_back(name);
  }
  return cases;
}

std::vector<std::string> SweepCases() {
  std::vector<std::string> cases;
  for (const auto& [machine, gpus] : {std::pair("a100", 8), std::pair("mi250", 16)}) {
    for (int ranks = 64; ranks <= 4'096; ranks *= 2) {
      cases.push_back(fmt::format("{}_{}", machine, ranks / gpus));
    }
  }
  return cases;
}

Settings ParseArguments(int argc, char** argv) {
  Settings settings;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument == "--general") {
      settings.plan.use_structure = false;
    } else if (argument == "--sweep") {
      settings.sweep = true;
    } else if (argument == "--repeat" && i + 1 < argc) {
      settings.repeat = std::max(std::atoi(argv[++i]), 1);
    } else if (argument == "--threads" && i + 1 < argc) {
      settings.threads.push_back(std::max(std::atoi(argv[++i]), 1));
    } else if (argument == "--steps" && i + 1 < argc) {
      settings.plan.height_steps = std::atoll(argv[++i]);
    } else {
      settings.cases.emplace_back(argument);
    }
  }
  if (settings.threads.empty()) settings.threads = {1, 2};
  if (settings.cases.empty()) settings.cases = settings.sweep ? SweepCases() : TableCases();
  return settings;
}

int RunAll(const Settings& settings) {
  fmt::print("{:<22} {:>5} {:<12} {:>2} {:>8} {:>8} {:>8}{} {:>4} {:>7} {:>4} {:>7} {}\n", "case",
             "ranks", "way", "th", "seconds", "own", "wall", Stages::Heads(), "max", "mean", "unr.",
             "classes", "halved/refused/bisected/gammas, peak memory");
  int failed = 0;
  for (const int threads : settings.threads) {
    double before = 0;
    std::string machine;
    for (const std::string& name : settings.cases) {
      const std::optional<double> seconds = RunRow(name, settings, threads);
      failed += seconds ? 0 : 1;
      const bool follows =
          settings.sweep && seconds && before > 0 && machine == name.substr(0, name.find('_'));
      if (follows) fmt::print("  x{:.2f}", *seconds / before);
      fmt::print("\n");
      before = seconds.value_or(0);
      machine = name.substr(0, name.find('_'));
    }
  }
  return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

}  // namespace
}  // namespace espalier::forest

int main(int argc, char** argv) {
  return espalier::forest::RunAll(espalier::forest::ParseArguments(argc, argv));
}
