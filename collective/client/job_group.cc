#include "collective/client/job_group.h"

#include <fmt/format.h>

#include <numeric>
#include <utility>

#include "agent/local/rank_plan_protocol.h"
#include "collective/client/group_join_info.h"
#include "collective/client/group_key.h"
#include "collective/program/program_bytes.h"
#include "collective/runtime/group/communicator.h"
#include "collective/runtime/offload/offloaded_group.h"
#include "collective/transport/stores/tcp_store.h"

namespace espalier::client {
namespace {

using program::CollectiveKind;
using std::chrono::steady_clock;

constexpr std::chrono::milliseconds kLook{200};  // the listener notices the end this soon
constexpr std::chrono::milliseconds kPause{10};  // between attempts to agree on a plan

Result<runtime::CollectivePlan> ToPlan(const agent::LocalRankPlan& local) {
  auto program = program::DecodeProgram(local.program);
  if (!program) return Fail(ErrorCode::kFailedPrecondition, program.error().message);
  runtime::CollectivePlan plan;
  plan.program = std::make_shared<const program::Program>(std::move(*program));
  plan.generation = local.version;
  for (const agent::LocalRankPlan::Port& port : local.ports) {
    plan.source_ports[{port.peer, port.channel}] = port.port;
  }
  plan.addresses = AddressesOf(local);
  return plan;
}

}  // namespace

Result<std::unique_ptr<JobGroup>> JobGroup::AskAgent(const JobOptions& options,
                                                     std::chrono::milliseconds patience) {
  auto client = agent::RankPlanClient::Connect(options.agent, options.job, options.rank);
  if (!client) return Propagate(client);
  auto plan = (*client)->Wait(patience);
  if (!plan) return Propagate(plan);
  if (!*plan) {
    return Fail(ErrorCode::kUnavailable,
                fmt::format("no plan for rank {} of job {} arrived in time (`espalier job list` "
                            "shows its state)",
                            options.rank, options.job));
  }
  if (options.size != 0 && options.size != (*plan)->ranks) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("job {} has {} ranks in its plan, but the program says {}", options.job,
                            (*plan)->ranks, options.size));
  }
  return std::unique_ptr<JobGroup>(new JobGroup(options, std::move(*client), std::move(**plan)));
}

Result<std::unique_ptr<JobGroup>> JobGroup::Join(const JobOptions& options) {
  const auto end = steady_clock::now() + options.timeout;
  auto job = AskAgent(options, options.timeout);
  if (!job) return job;
  auto met = (*job)->Meet(end);
  if (!met) return Propagate(met);
  return job;
}

Result<std::unique_ptr<JobGroup>> JobGroup::JoinIfAllHavePlans(const JobOptions& options,
                                                               transport::RendezvousStore& store) {
  const auto end = steady_clock::now() + options.timeout;
  auto job = AskAgent(options, options.timeout / 2);
  const bool has_none = !job && job.error().code == ErrorCode::kUnavailable;
  if (!job && !has_none) return job;
  const auto key_of = [&](int rank) { return fmt::format("{}/has-plan.{}", options.job, rank); };
  auto told = store.Set(key_of(options.rank), has_none ? "no" : "yes", end);
  if (!told) return Propagate(told);
  bool all_have = true;
  for (int rank = 0; rank < options.size; ++rank) {
    auto has = store.Get(key_of(rank), end);
    if (!has) return Propagate(has);
    all_have = all_have && *has == "yes";
  }
  if (!all_have) return nullptr;
  auto met = (*job)->Meet(end);
  if (!met) return Propagate(met);
  return job;
}

// Forms the first group; all ranks join it and agree on their first plan.
Result<void> JobGroup::Meet(transport::Deadline end) {
  auto plan = ToPlan(first_);
  if (!plan) return Propagate(plan);
  auto group = runtime::RetryingGroup::Make(
      [this, end](std::uint32_t number) {
        return JoinNumber(number, number == 0 ? end : steady_clock::now() + options_.timeout);
      },
      options_.timeout);
  if (!group) return Propagate(group);
  group_ = std::move(*group);
  const CollectiveKind kind = plan->program->collective.kind;
  group_->Offer(std::move(*plan), false);
  listener_ = std::thread([this] { Listen(); });
  return AgreeOnFirstPlan(kind, end);
}

JobGroup::~JobGroup() {
  is_over_ = true;
  client_->Close();
  if (listener_.joinable()) listener_.join();
}

Result<std::unique_ptr<runtime::Group>> JobGroup::JoinNumber(std::uint32_t number,
                                                             transport::Deadline end) {
  const agent::LocalRankPlan& plan = first_;
  if (plan.offload) {
    auto joined = runtime::OffloadedGroup::JoinJob(
        agent::AgentSocket(options_.agent) + agent::kOffloadSocketSuffix,
        {.job = options_.job, .rank = plan.rank, .number = number}, plan.ranks, options_.timeout,
        end);
    if (!joined) return Propagate(joined);
    return std::move(*joined);
  }
  runtime::GroupJoinInfo place = MakeGroupJoinInfo(plan, options_.job, number);
  place.options.timeout = options_.timeout;
  place.options.join_by = end;
  place.options.members.trusts_network = TrustsNetwork();
  if (flows_ == nullptr && !plan.verbs) {
    flows_ = std::make_unique<AgentFlows>(options_.agent, options_.job);
  }
  place.options.observer = flows_.get();
  if (store_ == nullptr) {
    auto store = transport::OpenStore(place.store, plan.rank, place.options.members);
    if (!store) return Propagate(store);
    store_ = std::move(*store);
  }
  auto joined =
      runtime::Communicator::Join(*store_, place.name, plan.rank, place.size, place.options);
  if (!joined) return Propagate(joined);
  return std::move(*joined);
}

// Ranks may hold different plans at first, until the controller's pushes have reached all agents.
// Each barrier ends with an agreement whose result is the same everywhere, so all ranks make the
// same number of attempts.
Result<void> JobGroup::AgreeOnFirstPlan(CollectiveKind kind, transport::Deadline end) {
  while (group_->GenerationOf(kind) == 0) {
    if (steady_clock::now() >= end) {
      return Fail(ErrorCode::kUnavailable,
                  "the ranks got no common plan in time (`espalier job list` shows the job)");
    }
    auto met = group_->Run(CollectiveKind::kBarrier, nullptr, nullptr, 0, reduce::DataType::kU8,
                           reduce::ReduceOp::kSum, program::kNoRoot);
    if (!met) return met;
    if (group_->GenerationOf(kind) == 0) std::this_thread::sleep_for(kPause);
  }
  return {};
}

// Offers new plans to the group. If the agent goes, the group keeps the plan that it has, and looks
// for an agent that wants to know of its flows.
void JobGroup::Listen() {
  bool has_plans = true;
  while (!is_over_) {
    if (flows_ != nullptr) flows_->Dispatch();
    if (!has_plans) {
      std::this_thread::sleep_for(kLook);
      continue;
    }
    auto local = client_->Wait(kLook);
    has_plans = local.has_value();
    if (!local || !*local) continue;
    auto plan = ToPlan(**local);
    if (plan) group_->Offer(std::move(*plan), (*local)->urgent);
  }
}

// Every rank reports failures; only rank 0 reports successes, which are common to all.
void JobGroup::Report(CollectiveKind kind, std::size_t bytes, steady_clock::time_point start,
                      const Result<void>& done) {
  ++calls_;
  if (done && rank() != 0) return;
  const auto duration =
      std::chrono::duration_cast<std::chrono::microseconds>(steady_clock::now() - start);
  client_->Report(static_cast<int>(kind), calls_, bytes, duration,
                  done ? std::string() : done.error().message);
}

Result<void> JobGroup::Run(CollectiveKind kind, const void* input, void* output, std::size_t count,
                           reduce::DataType type, reduce::ReduceOp op, int root) {
  const auto start = steady_clock::now();
  auto done = group_->Run(kind, input, output, count, type, op, root);
  Report(kind, count * reduce::SizeOf(type), start, done);
  return done;
}

Result<void> JobGroup::RunUnequal(CollectiveKind kind, const void* input, void* output,
                                  std::span<const std::size_t> counts, reduce::DataType type,
                                  reduce::ReduceOp op) {
  const auto start = steady_clock::now();
  auto done = group_->RunUnequal(kind, input, output, counts, type, op);
  const std::size_t all = std::accumulate(counts.begin(), counts.end(), std::size_t{0});
  Report(kind, all * reduce::SizeOf(type), start, done);
  return done;
}

}  // namespace espalier::client
