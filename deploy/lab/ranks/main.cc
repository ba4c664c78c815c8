// espalier-lab-rank: runs one rank of an all-reduce in a lab, with the rank plan of its job or as a
// ring on plain ECMP, like a program that uses libespalier-collective. It checks every sum and
// prints the time of each call.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include "collective/algorithms/algorithm.h"
#include "collective/client/collective.h"
#include "collective/program/program_bytes.h"

namespace espalier::lab {
namespace {

using std::chrono::steady_clock;

struct Arguments {
  std::string job;    // empty: a ring
  std::string store;  // rendezvous of a ring, and of a job without plans
  std::string address;
  std::string medium = "tcp";
  int rank = 0;
  int ranks = 0;
  std::size_t bytes = 4'000'000;
  int calls = 1;
  std::uint32_t timeout_ms = 30'000;
};

Collective Join(const Arguments& arguments) {
  return Collective(arguments.store, arguments.job.empty() ? "ring" : arguments.job, arguments.rank,
                    arguments.ranks,
                    {.medium = static_cast<std::uint32_t>(
                         arguments.medium == "hosts" ? ESPALIER_HOSTS : ESPALIER_TCP),
                     .timeout_ms = arguments.timeout_ms,
                     .address = arguments.address.c_str(),
                     .connections = 1,
                     .agent = arguments.job.empty() ? nullptr : ""});
}

void UseRing(Collective& group, int ranks) {
  algorithms::AlgorithmOptions options;
  options.ranks = ranks;
  const auto ring = algorithms::MakeAlgorithm("allreduce-ring-chunked", options);
  if (!ring) throw CollectiveError(-EINVAL, ring.error().message);
  const std::string program = program::EncodeProgram(*ring);
  group.Use({.program = program.data(), .program_bytes = program.size(), .generation = 1});
}

// Inputs are whole numbers with sums below 2^24, so that sums are exact in any order.
float Input(int rank, std::size_t index, int call) {
  return static_cast<float>(rank + static_cast<int>(index % 97) + call);
}

std::size_t CountErrors(const std::vector<float>& output, int ranks, int call) {
  std::size_t errors = 0;
  const int sum_of_ranks = ranks * (ranks - 1) / 2;
  for (std::size_t i = 0; i < output.size(); ++i) {
    const float expected =
        static_cast<float>(sum_of_ranks) + static_cast<float>(ranks) * Input(0, i, call);
    if (output[i] != expected) ++errors;
  }
  return errors;
}

// Runs one call. All ranks begin together, so that the slowest rank's time is the call's time.
// Returns true if it succeeded.
bool Call(Collective& group, const Arguments& arguments, int call) {
  std::vector<float> input(arguments.bytes / sizeof(float));
  std::vector<float> output(input.size());
  for (std::size_t i = 0; i < input.size(); ++i) input[i] = Input(arguments.rank, i, call);
  auto start = steady_clock::now();
  std::string failure;
  try {
    group.Barrier();
    start = steady_clock::now();
    group.AllReduce(input.data(), output.data(), input.size());
  } catch (const CollectiveError& error) {
    failure = error.what();
  }
  const double seconds = std::chrono::duration<double>(steady_clock::now() - start).count();
  const bool is_done = failure.empty();
  fmt::print("{{\"call\": {}, \"seconds\": {:.6f}, \"done\": {}, \"wrong_sums\": {}}}\n", call,
             seconds, is_done, is_done ? CountErrors(output, arguments.ranks, call) : 0);
  std::fflush(stdout);
  if (is_done) return true;
  fmt::print(stderr, "espalier-lab-rank: rank {} call {}: {}\n", arguments.rank, call, failure);
  return false;
}

int Run(const Arguments& arguments) {
  try {
    Collective group = Join(arguments);
    if (arguments.job.empty() && arguments.medium == "tcp") UseRing(group, arguments.ranks);
    int failed = 0;
    for (int call = 0; call < arguments.calls; ++call) {
      if (!Call(group, arguments, call)) ++failed;
    }
    return failed == 0 ? 0 : 1;
  } catch (const CollectiveError& error) {
    fmt::print(stderr, "espalier-lab-rank: rank {}: {}\n", arguments.rank, error.what());
    return 1;
  }
}

}  // namespace
}  // namespace espalier::lab

int main(int argc, char** argv) {
  CLI::App app("Run one rank of an all-reduce in a lab.");
  espalier::lab::Arguments arguments;
  app.add_option("--job", arguments.job,
                 "Job whose rank plans are used (default: a ring on plain ECMP)");
  app.add_option("--store", arguments.store,
                 "Rendezvous store of the ranks, if they do not meet through their agents");
  app.add_option("--address", arguments.address, "Address of this rank, if it has no plan");
  app.add_option("--medium", arguments.medium,
                 "Medium without a job: tcp as a ring, tcp-chosen by costs, or hosts, which is "
                 "shared memory within hosts and TCP between them")
      ->check(CLI::IsMember({"tcp", "tcp-chosen", "hosts"}))
      ->capture_default_str();
  app.add_option("--rank", arguments.rank, "Number of this rank, from 0")->required();
  app.add_option("--ranks", arguments.ranks, "Number of ranks in the group")->required();
  app.add_option("--bytes", arguments.bytes, "Bytes per call")->capture_default_str();
  app.add_option("--calls", arguments.calls, "Number of calls")->capture_default_str();
  app.add_option("--timeout-ms", arguments.timeout_ms,
                 "Time limit for joining and for each call, in milliseconds")
      ->capture_default_str();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  return espalier::lab::Run(arguments);
}
