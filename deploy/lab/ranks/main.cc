// espalier-lab-rank: one rank of an all-reduce in a lab, by the plans of its job or as a ring on
// plain ECMP; checks every sum and says how long each call took.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "collective/algorithms/algorithm.h"
#include "collective/client/job_group.h"
#include "collective/runtime/communicator.h"
#include "collective/transport/tcp_store.h"

namespace espalier::lab {
namespace {

using program::CollectiveKind;
using std::chrono::steady_clock;

struct Arguments {
  std::string job;    // else a ring
  std::string store;  // of the ring
  std::string address;
  int rank = 0;
  int ranks = 0;
  std::size_t bytes = 4'000'000;
  int calls = 1;
  int timeout_ms = 30'000;
};

// What a rank is in, and what that needs.
struct Membership {
  std::unique_ptr<transport::Store> store;
  std::unique_ptr<runtime::Group> group;
};

Result<Membership> JoinRing(const Arguments& arguments) {
  const std::chrono::milliseconds timeout(arguments.timeout_ms);
  Membership membership;
  auto store = transport::OpenStore(arguments.store, arguments.rank, timeout);
  if (!store) return Propagate(store);
  membership.store = std::move(*store);
  auto group =
      runtime::Communicator::Join(*membership.store, "ring", arguments.rank, arguments.ranks,
                                  {.medium = runtime::Medium::kTcp,
                                   .timeout = timeout,
                                   .address = arguments.address,
                                   .connections = 1,
                                   .plan_port = 0});
  if (!group) return Propagate(group);
  algorithms::AlgorithmOptions options;
  options.ranks = arguments.ranks;
  auto ring = algorithms::MakeAlgorithm("allreduce-ring-chunked", options);
  if (!ring) return Propagate(ring);
  runtime::Plan plan;
  plan.program = std::make_shared<const program::Program>(std::move(*ring));
  plan.generation = 1;
  if (auto used = (*group)->Use(std::move(plan)); !used) return Propagate(used);
  membership.group = std::move(*group);
  return membership;
}

Result<Membership> Join(const Arguments& arguments) {
  if (arguments.job.empty()) return JoinRing(arguments);
  Membership membership;
  auto group = client::JobGroup::Join({.agent = "",
                                       .job = arguments.job,
                                       .rank = arguments.rank,
                                       .timeout = std::chrono::milliseconds(arguments.timeout_ms)});
  if (!group) return Propagate(group);
  membership.group = std::move(*group);
  return membership;
}

// Whole numbers below 2^24, so that sums are exact in any order.
float Input(int rank, std::size_t index, int call) {
  return static_cast<float>(rank + static_cast<int>(index % 97) + call);
}

std::size_t CountErrors(const std::vector<float>& output, int ranks, int call) {
  std::size_t errors = 0;
  for (std::size_t i = 0; i < output.size(); ++i) {
    const float expected =
        static_cast<float>(ranks * (ranks - 1) / 2) + static_cast<float>(ranks) * Input(0, i, call);
    if (output[i] != expected) ++errors;
  }
  return errors;
}

int Run(const Arguments& arguments) {
  auto membership = Join(arguments);
  if (!membership) {
    fmt::print(stderr, "espalier-lab-rank: rank {}: {}\n", arguments.rank,
               membership.error().message);
    return 1;
  }
  runtime::Group& group = *membership->group;
  std::vector<float> input(arguments.bytes / sizeof(float));
  std::vector<float> output(input.size());
  int failed = 0;
  for (int call = 0; call < arguments.calls; ++call) {
    for (std::size_t i = 0; i < input.size(); ++i) input[i] = Input(group.rank(), i, call);
    // All begin together, so that the slowest rank's time is the call's.
    auto met = group.Run(CollectiveKind::kBarrier, nullptr, nullptr, 0, reduce::DataType::kU8,
                         reduce::ReduceOp::kSum, program::kNoRoot);
    const auto start = steady_clock::now();
    auto done =
        met ? group.Run(CollectiveKind::kAllReduce, input.data(), output.data(), input.size(),
                        reduce::DataType::kF32, reduce::ReduceOp::kSum, program::kNoRoot)
            : std::move(met);
    const double seconds = std::chrono::duration<double>(steady_clock::now() - start).count();
    const std::size_t errors = done ? CountErrors(output, group.size(), call) : input.size();
    fmt::print("{{\"call\": {}, \"seconds\": {:.6f}, \"wrong_sums\": {}}}\n", call, seconds,
               errors);
    std::fflush(stdout);
    if (!done) {
      fmt::print(stderr, "espalier-lab-rank: rank {} call {}: {}\n", arguments.rank, call,
                 done.error().message);
      ++failed;
    }
  }
  return failed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace espalier::lab

int main(int argc, char** argv) {
  CLI::App app("One rank of an all-reduce in a lab.");
  espalier::lab::Arguments arguments;
  app.add_option("--job", arguments.job, "The job whose plans it follows; else a ring");
  app.add_option("--store", arguments.store, "Where the ranks of a ring meet");
  app.add_option("--address", arguments.address, "This rank's, in a ring");
  app.add_option("--rank", arguments.rank)->required();
  app.add_option("--ranks", arguments.ranks, "How many, in a ring");
  app.add_option("--bytes", arguments.bytes, "Of a call");
  app.add_option("--calls", arguments.calls);
  app.add_option("--timeout-ms", arguments.timeout_ms);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  return espalier::lab::Run(arguments);
}
