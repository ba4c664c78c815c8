#include "collective/runtime/group/communicator.h"

#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <limits>
#include <new>
#include <stdexcept>
#include <utility>

#include "collective/runtime/calls/operands.h"
#include "collective/runtime/choice/cost_table.h"
#include "collective/runtime/program/program_collectives.h"
#include "collective/runtime/shared/shared_collectives.h"
#include "collective/transport/hosts/hosts_transport.h"
#include "collective/transport/rendezvous/rendezvous.h"
#include "collective/transport/rendezvous/tcp_socket.h"
#include "collective/transport/shm/shared_group.h"
#include "collective/transport/tcp/tcp_transport.h"
#include "collective/transport/verbs/verbs_transport.h"

namespace espalier::runtime {
namespace {

using program::CollectiveKind;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

tl::unexpected<Error> Refuse(std::string message) {
  return Fail(ErrorCode::kInvalidArgument, std::move(message));
}

Operands Between(const void* input, void* output, std::size_t count, reduce::DataType type,
                 reduce::ReduceOp op = reduce::ReduceOp::kSum) {
  return {.input = static_cast<const std::byte*>(input),
          .output = static_cast<std::byte*>(output),
          .elements = count,
          .type = type,
          .op = op};
}

// Whether it may be a candidate; hosts are not known yet.
bool IsAlgorithm(Medium medium, const std::string& name, int ranks) {
  if (medium == Medium::kShared) return FindSharedProtocol(name).has_value();
  for (int kind = 0; kind <= static_cast<int>(CollectiveKind::kBarrier); ++kind) {
    const auto candidates = CandidatesOf(static_cast<CollectiveKind>(kind), ranks,
                                         medium == Medium::kHosts ? ranks - 1 : 0);
    if (std::find(candidates.begin(), candidates.end(), name) != candidates.end()) return true;
  }
  return false;
}

Result<std::unique_ptr<transport::Transport>> JoinTransport(transport::RendezvousStore& store,
                                                            const std::string& name, int rank,
                                                            int size,
                                                            const CommunicatorOptions& options,
                                                            const transport::HostMap& hosts,
                                                            transport::Deadline deadline) {
  if (options.medium == Medium::kHosts) {
    transport::HostsOptions both;
    both.channels = ProgramCollectives::ChannelsOf(options.connections) + Backend::kMessageChannels;
    both.tcp.address = options.address;
    both.tcp.members = options.members;
    both.tcp.memory = options.memory;
    return transport::JoinHosts(store, name, rank, hosts, both, deadline);
  }
  if (options.medium == Medium::kVerbs) {
    return transport::JoinVerbs(
        store, name, rank, size,
        {.address = options.address, .members = options.members, .deadline = deadline});
  }
  return transport::JoinTcp(store, name, rank, size,
                            {.address = options.address,
                             .members = options.members,
                             .memory = options.memory,
                             .deadline = deadline});
}

Result<std::unique_ptr<Backend>> MakeBackend(transport::RendezvousStore& store,
                                             const std::string& name, int rank, int size,
                                             const CommunicatorOptions& options,
                                             const transport::HostMap& hosts,
                                             transport::Deadline deadline) {
  if (options.medium == Medium::kShared) {
    auto group = transport::SharedGroup::Join(store, name, rank, size,
                                              SharedCollectives::MemoryOf(size), deadline);
    if (!group) return Propagate(group);
    auto costs =
        AgreeOnCosts(store, name, rank, size, options.medium, options.costs_file, deadline);
    if (!costs) return Propagate(costs);
    return std::make_unique<SharedCollectives>(std::move(*group), *costs,
                                               FindSharedProtocol(options.algorithm));
  }
  auto transport = JoinTransport(store, name, rank, size, options, hosts, deadline);
  if (!transport) return Propagate(transport);
  const bool has_hosts = options.medium == Medium::kHosts;
  auto costs = AgreeOnCosts(store, name, rank, size, has_hosts ? Medium::kTcp : options.medium,
                            options.costs_file, deadline);
  if (!costs) return Propagate(costs);
  HostLayout layout;
  if (has_hosts) {
    layout.ranks_per_host = hosts.RanksPerHost();
    auto within = AgreeOnCosts(store, name + "/within", rank, size, Medium::kShared,
                               options.costs_file, deadline);
    if (!within) return Propagate(within);
    layout.within = *within;
  }
  return std::make_unique<ProgramCollectives>(std::move(*transport), options.connections, *costs,
                                              options.algorithm, options.memory, layout);
}

// Turns a lack of memory into an error of the call, so that the process goes on.
template <typename Work>
Result<void> WithinMemory(int rank, const Work& work) {
  const auto fail = [rank] {
    return Fail(
        ErrorCode::kResourceExhausted,
        fmt::format("rank {} has too little memory for the call (make smaller calls, or give the "
                    "process that runs them more memory)",
                    rank));
  };
  try {
    return work();
  } catch (const std::bad_alloc&) {
    return fail();
  } catch (const std::length_error&) {
    return fail();
  }
}

// A rank that fails to join leaves the cause in the store. A cause that is there already may
// explain this rank's failure and is added to its error.
Error TellWhy(transport::RendezvousStore& store, const std::string& name, int rank, Error error) {
  constexpr milliseconds kPatience{50};
  const std::string key = transport::JoinFailureKey(name);
  const auto end = steady_clock::now() + kPatience;
  const auto before = store.Get(key, end);
  if (before) {
    if (error.message.find(*before) == std::string::npos) {
      error.message += fmt::format("; earlier failure: {}", *before);
    }
  } else {
    // Best effort: the store may be what failed.
    static_cast<void>(
        store.Set(key, fmt::format("rank {}: {}", rank, error.message), end + kPatience));
  }
  return error;
}

}  // namespace

Communicator::Communicator(transport::RendezvousStore& store, std::string name,
                           std::unique_ptr<Backend> backend, int rank, int size,
                           const CommunicatorOptions& options, transport::HostMap hosts)
    : store_(store),
      name_(std::move(name)),
      backend_(std::move(backend)),
      exchange_(backend_->Messages()),
      rank_(rank),
      size_(size),
      options_(options),
      hosts_(std::move(hosts)) {}

Result<std::unique_ptr<Communicator>> Communicator::Join(transport::RendezvousStore& store,
                                                         const std::string& name, int rank,
                                                         int size,
                                                         const CommunicatorOptions& options) {
  auto fits = transport::Rendezvous::CheckRank(rank, size);
  if (!fits) return Propagate(fits);
  if (options.timeout <= milliseconds(0)) return Refuse("timeout must be positive");
  if (options.connections < 1) return Refuse("connections must be at least 1");
  if (!options.algorithm.empty() && !IsAlgorithm(options.medium, options.algorithm, size)) {
    return Refuse(fmt::format("algorithm \"{}\" is not available over {}", options.algorithm,
                              MediumName(options.medium)));
  }
  const transport::Deadline deadline =
      options.join_by.value_or(steady_clock::now() + options.timeout);
  transport::HostMap hosts;
  if (options.medium == Medium::kHosts) {
    auto agreed = transport::AgreeOnHosts(
        store, name, rank, size, options.host.empty() ? options.address : options.host, deadline);
    if (!agreed) return tl::unexpected(TellWhy(store, name, rank, std::move(agreed.error())));
    hosts = std::move(*agreed);
  }
  auto backend = MakeBackend(store, name, rank, size, options, hosts, deadline);
  if (!backend) return tl::unexpected(TellWhy(store, name, rank, std::move(backend.error())));
  std::unique_ptr<Communicator> made(
      new Communicator(store, name, std::move(*backend), rank, size, options, std::move(hosts)));
  // Returns when all ranks have joined; else the error names a missing rank.
  auto met = made->Call(CollectiveKind::kBarrier, {}, program::kNoRoot, deadline);
  if (!met) return tl::unexpected(TellWhy(store, name, rank, std::move(met.error())));
  return made;
}

Result<void> Communicator::Call(CollectiveKind kind, const Operands& operands, int root,
                                std::optional<transport::Deadline> deadline) {
  if (failure_) return tl::unexpected(*failure_);
  if (is_interrupted_) return tl::unexpected(GiveUp({}));
  auto checked = CheckOperands(kind, operands, root, rank_, size_);
  if (!checked) return checked;
  const CallSignature call = {
      .sequence = calls_,
      .kind = kind,
      .type = operands.type,
      .op = operands.op,
      .root = root,
      .count = operands.elements,
      .bounds = operands.HasUnequalParts() ? FingerprintOfBounds(operands.bounds) : 0};
  ActivePlan* const plan = operands.HasUnequalParts() ? nullptr : FindPlan(call);
  const bool needs_plan = kind == CollectiveKind::kCustom || (kind == CollectiveKind::kAllToNext &&
                                                              options_.medium == Medium::kShared);
  if (needs_plan && plan == nullptr) {
    return Refuse(fmt::format("no plan for a {} call of that size (put one in force first)",
                              program::CollectiveKindName(kind)));
  }
  ++calls_;
  transport::WaitLimit limit = OfOneCall();
  if (deadline) limit.deadline = *deadline;
  auto done = WithinMemory(rank_, [&] {
    return plan != nullptr ? plan->Run(operands, call, limit)
                           : backend_->Run(operands, call, limit);
  });
  if (!done) return tl::unexpected(GiveUp(std::move(done.error())));
  return done;
}

Result<void> Communicator::RunExchange(const Exchange& exchange) {
  if (failure_) return tl::unexpected(*failure_);
  if (is_interrupted_) return tl::unexpected(GiveUp({}));
  auto checked = CheckExchange(exchange, size_, rank_);
  if (checked) checked = exchange_.CheckOwn(exchange);
  if (!checked) return checked;
  const bool is_collective = exchange.kind != ExchangeKind::kMessages;
  const CallSignature call = SignatureOf(exchange, calls_);
  if (is_collective) ++calls_;
  const transport::WaitLimit limit = OfOneCall();
  auto done = WithinMemory(rank_, [&]() -> Result<void> {
    auto entered = is_collective ? backend_->Enter(call, limit) : Result<void>();
    return entered ? exchange_.Run(exchange, call, limit) : entered;
  });
  if (!done) return tl::unexpected(GiveUp(std::move(done.error())));
  return done;
}

// Uses the coarse clock, which lags by some milliseconds but costs little to read.
transport::WaitLimit Communicator::OfOneCall() const {
  timespec now = {};
  ::clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  const std::chrono::nanoseconds since_boot =
      std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
  return {steady_clock::time_point(since_boot) + options_.timeout, &is_interrupted_};
}

Result<void> Communicator::CheckWait() {
  if (is_interrupted_) return Fail(ErrorCode::kUnavailable, "interrupted");
  return backend_->Check();
}

void Communicator::Interrupt(const Error& cause) {
  const std::lock_guard lock(interruption_mutex_);
  if (!interruption_) interruption_ = cause;
  is_interrupted_ = true;
}

// Ends the group on all ranks, also those in another call. After an interruption its cause replaces
// any later error.
Error Communicator::GiveUp(Error error) {
  if (is_interrupted_) {
    const std::lock_guard lock(interruption_mutex_);
    error = *interruption_;
  }
  failure_ = error;
  backend_->Abort(error);
  return error;
}

ActivePlan* Communicator::FindPlan(const CallSignature& call) const {
  const Shares shares = SharesOf(call.kind, size_);
  const std::size_t bytes =
      call.count * reduce::SizeOf(call.type) * std::max(shares.input, shares.output);
  const auto found = std::find_if(plans_.begin(), plans_.end(),
                                  [&](const auto& plan) { return plan->Serves(call, bytes); });
  return found == plans_.end() ? nullptr : found->get();
}

Result<void> Communicator::Use(CollectivePlan plan) {
  if (failure_) return tl::unexpected(*failure_);
  auto checked = CheckCollectivePlan(std::move(plan), rank_, size_, options_.verification_budget);
  if (!checked) return Propagate(checked);
  auto prepared = WithinMemory(rank_, [&] { return Prepare(std::move(*checked)); });
  // Ranks that wait for this one's connections learn of a failure at their next CheckWait.
  if (prepared) prepared = Barrier();
  if (!prepared && !failure_) return tl::unexpected(GiveUp(std::move(prepared.error())));
  return prepared;
}

// Opens the sockets at which peers connect by this plan. Those of earlier plans stay open, as the
// next plan may need them again.
Result<void> Communicator::ListenFor(const CollectivePlan& plan) {
  if (plan_listener_ == nullptr) {
    auto listener = transport::ListenOn(options_.address, options_.plan_port);
    if (!listener) return Propagate(listener);
    plan_listener_ = std::move(*listener);
  }
  auto port = transport::LocalPort(plan_listener_->get());
  if (!port) return Propagate(port);
  for (const IpAddress& address : plan.addresses.listen) {
    if (address.ToString() == options_.address || more_listeners_.contains(address)) continue;
    auto allowed = options_.members.CheckMeetsAt(address);
    if (!allowed) return allowed;
    auto listener = transport::ListenOn(address.ToString(), *port);
    if (!listener) return Propagate(listener);
    more_listeners_.emplace(address, std::move(*listener));
  }
  return {};
}

Result<void> Communicator::Prepare(CollectivePlan plan) {
  // The previous plan has run its last call, and the new one may need its ports.
  const CollectiveKind kind = plan.program->collective.kind;
  plans_.erase(
      std::remove_if(plans_.begin(), plans_.end(),
                     [&](const auto& old) { return old->plan().program->collective.kind == kind; }),
      plans_.end());
  if (options_.medium == Medium::kTcp || options_.medium == Medium::kHosts) {
    auto listens = ListenFor(plan);
    if (!listens) return listens;
  }
  std::vector<std::shared_ptr<const UniqueFd>> more_listeners;
  for (const auto& [address, listener] : more_listeners_) more_listeners.push_back(listener);
  auto prepared = ActivePlan::Prepare(std::move(plan),
                                      {.store = store_,
                                       .group = fmt::format("{}/use.{}", name_, uses_++),
                                       .rank = rank_,
                                       .size = size_,
                                       .medium = options_.medium,
                                       .hosts = hosts_,
                                       .address = options_.address,
                                       .members = options_.members,
                                       .listener = plan_listener_,
                                       .more_listeners = std::move(more_listeners),
                                       .memory = options_.memory,
                                       .observer = options_.observer,
                                       .check = [this] { return CheckWait(); }},
                                      steady_clock::now() + options_.timeout);
  if (!prepared) return Propagate(prepared);
  plans_.push_back(std::move(*prepared));
  return {};
}

std::uint64_t Communicator::GenerationOf(CollectiveKind kind) const {
  for (const auto& plan : plans_) {
    if (plan->plan().program->collective.kind == kind) return plan->plan().generation;
  }
  return 0;
}

Result<void> Communicator::Run(CollectiveKind kind, const void* input, void* output,
                               std::size_t count, reduce::DataType type, reduce::ReduceOp op,
                               int root) {
  void* const own_output = kind == CollectiveKind::kReduce && rank_ != root ? nullptr : output;
  return Call(kind, Between(input, own_output, count, type, op), root);
}

Result<void> Communicator::RunUnequal(CollectiveKind kind, const void* input, void* output,
                                      std::span<const std::size_t> counts, reduce::DataType type,
                                      reduce::ReduceOp op) {
  auto bounds = BoundsOf(kind, counts, size_);
  if (!bounds) return Propagate(bounds);
  Operands operands = Between(input, output, bounds->back(), type, op);
  operands.bounds = *bounds;
  return Call(kind, operands, program::kNoRoot);
}

Result<void> Communicator::AllReduce(const void* input, void* output, std::size_t count,
                                     reduce::DataType type, reduce::ReduceOp op) {
  return Call(CollectiveKind::kAllReduce, Between(input, output, count, type, op),
              program::kNoRoot);
}

Result<void> Communicator::Reduce(const void* input, void* output, std::size_t count,
                                  reduce::DataType type, reduce::ReduceOp op, int root) {
  void* const own_output = rank_ == root ? output : nullptr;
  return Call(CollectiveKind::kReduce, Between(input, own_output, count, type, op), root);
}

Result<void> Communicator::Broadcast(void* buffer, std::size_t count, reduce::DataType type,
                                     int root) {
  return Call(CollectiveKind::kBroadcast, Between(buffer, buffer, count, type), root);
}

Result<void> Communicator::AllGather(const void* input, void* output, std::size_t count,
                                     reduce::DataType type) {
  return Call(CollectiveKind::kAllGather, Between(input, output, count, type), program::kNoRoot);
}

Result<void> Communicator::ReduceScatter(const void* input, void* output, std::size_t count,
                                         reduce::DataType type, reduce::ReduceOp op) {
  return Call(CollectiveKind::kReduceScatter, Between(input, output, count, type, op),
              program::kNoRoot);
}

Result<void> Communicator::AllToAll(const void* input, void* output, std::size_t count,
                                    reduce::DataType type) {
  return Call(CollectiveKind::kAllToAll, Between(input, output, count, type), program::kNoRoot);
}

Result<void> Communicator::Barrier() {
  return Call(CollectiveKind::kBarrier, {}, program::kNoRoot);
}

Result<void*> Communicator::Allocate(std::size_t bytes) {
  auto memory = backend_->Allocate(bytes);
  if (!memory) return Propagate(memory);
  return *memory;
}

Result<void> Communicator::Release(void* memory) {
  return backend_->Release(static_cast<std::byte*>(memory));
}

}  // namespace espalier::runtime
