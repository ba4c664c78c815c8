#include "collective/runtime/group/retrying_group.h"

#include <fmt/format.h>

#include <cstdint>
#include <iterator>
#include <numeric>

#include "collective/runtime/program/active_plan.h"

namespace espalier::runtime {
namespace {

using program::CollectiveKind;
using std::chrono::steady_clock;

std::size_t Index(CollectiveKind kind) { return static_cast<std::size_t>(kind); }

// Whether the failure may go away in a new group.
bool IsPassing(const Error& error) { return error.code == ErrorCode::kUnavailable; }

}  // namespace

Result<std::unique_ptr<RetryingGroup>> RetryingGroup::Make(Join join,
                                                           std::chrono::milliseconds patience) {
  std::unique_ptr<RetryingGroup> made(new RetryingGroup(std::move(join), patience));
  auto joined = made->JoinNext();
  if (!joined) return Propagate(joined);
  made->rank_ = made->group_->rank();
  made->size_ = made->group_->size();
  return made;
}

Result<void*> RetryingGroup::Allocate(std::size_t /*bytes*/) {
  return Fail(ErrorCode::kUnsupported,
              "a job's group has no registered buffers (it may form again after a failure)");
}
Result<void> RetryingGroup::Release(void* /*memory*/) {
  return Fail(ErrorCode::kNotFound, "this memory is not a registered buffer of the group");
}

void RetryingGroup::Interrupt(const Error& cause) {
  const std::lock_guard lock(mutex_);
  if (!interruption_) interruption_ = cause;
  if (group_ != nullptr) group_->Interrupt(cause);
}

void RetryingGroup::Offer(CollectivePlan plan, bool is_urgent) {
  if (plan.program == nullptr) return;
  const std::lock_guard lock(mutex_);
  Offers& offers = offers_[Index(plan.program->collective.kind)];
  if (plan.generation <= offers.in_force) return;
  const bool breaks_off = is_urgent && offers.in_force != 0;
  offers.by_generation[plan.generation] = std::move(plan);
  if (breaks_off && group_ != nullptr) {
    group_->Interrupt({ErrorCode::kUnavailable, "an urgent new plan replaces the plan in force"});
  }
}

std::uint64_t RetryingGroup::GenerationOf(CollectiveKind kind) const {
  const std::lock_guard lock(mutex_);
  return offers_[Index(kind)].in_force;
}

// Offers the plan and makes a call without data, after which all ranks agree on plans.
Result<void> RetryingGroup::Use(CollectivePlan plan) {
  auto checked = CheckCollectivePlan(std::move(plan), rank_, size_);
  if (!checked) return Propagate(checked);
  const CollectiveKind kind = checked->program->collective.kind;
  const std::uint64_t generation = checked->generation;
  Offer(std::move(*checked), false);
  auto done = Run(CollectiveKind::kBarrier, nullptr, nullptr, 0, reduce::DataType::kU8,
                  reduce::ReduceOp::kSum, program::kNoRoot);
  if (!done || GenerationOf(kind) >= generation) return done;
  return Fail(
      ErrorCode::kFailedPrecondition,
      fmt::format("not all ranks use plan {} (pass the same plan on every rank)", generation));
}

// The group's number advances only after all ranks have joined under it.
Result<void> RetryingGroup::JoinNext() {
  {
    const std::lock_guard lock(mutex_);
    if (interruption_) return tl::unexpected(*interruption_);
    group_.reset();
    for (Offers& offers : offers_) offers.in_force = 0;
  }
  auto joined = join_(number_);
  if (!joined) return Propagate(joined);
  ++number_;
  const std::lock_guard lock(mutex_);
  group_ = std::move(*joined);
  return {};
}

Result<void> RetryingGroup::MinimumOfAll(std::vector<std::int64_t>& values) {
  return group_->Run(CollectiveKind::kAllReduce, values.data(), values.data(), values.size(),
                     reduce::DataType::kI64, reduce::ReduceOp::kMin, program::kNoRoot);
}

// Puts the newest plan that all ranks have been offered in force, for each collective. All ranks
// must be at the same call. One allreduce with minimum gives, for each collective, the oldest of
// the ranks' newest generations; a second one tells whether every rank still has that plan.
Result<void> RetryingGroup::AgreeOnPlans(std::int64_t calls) {
  std::vector<std::int64_t> newest(kKinds);
  std::vector<std::int64_t> in_force(kKinds);
  {
    const std::lock_guard lock(mutex_);
    for (std::size_t k = 0; k < kKinds; ++k) {
      in_force[k] = static_cast<std::int64_t>(offers_[k].in_force);
      const auto& plans = offers_[k].by_generation;
      newest[k] = plans.empty() ? 0 : static_cast<std::int64_t>(plans.rbegin()->first);
    }
  }
  newest.insert(newest.end(), {calls, -calls});
  auto agreed = MinimumOfAll(newest);
  if (!agreed) return agreed;
  if (newest[kKinds] != calls || -newest[kKinds + 1] != calls) {
    return OutOfStep(newest[kKinds], -newest[kKinds + 1]);
  }
  newest.resize(kKinds);
  if (newest == in_force) return {};
  // A rank may have a later plan without having this one.
  std::vector<CollectivePlan> plans(kKinds);
  std::vector<std::int64_t> has(kKinds);
  {
    const std::lock_guard lock(mutex_);
    for (std::size_t k = 0; k < newest.size(); ++k) {
      const auto found = offers_[k].by_generation.find(static_cast<std::uint64_t>(newest[k]));
      has[k] = found == offers_[k].by_generation.end() ? 0 : 1;
      if (has[k] != 0) plans[k] = found->second;
    }
  }
  agreed = MinimumOfAll(has);
  for (std::size_t k = 0; k < newest.size() && agreed; ++k) {
    if (has[k] == 0 || newest[k] <= in_force[k]) continue;
    agreed = group_->Use(plans[k]);
    if (!agreed) return agreed;
    const std::lock_guard lock(mutex_);
    Offers& offers = offers_[k];
    offers.in_force = plans[k].generation;
    offers.by_generation.erase(offers.by_generation.begin(),
                               offers.by_generation.find(offers.in_force));
  }
  return agreed;
}

// Reports ranks that are more than one call apart, and moves this rank to the latest call, so that
// all are in step again.
tl::unexpected<Error> RetryingGroup::OutOfStep(std::int64_t least, std::int64_t most) {
  calls_ = most;
  return Fail(ErrorCode::kFailedPrecondition,
              fmt::format("ranks are in different calls, {} to {} (all ranks must make the same "
                          "calls in the same order)",
                          least, most));
}

// Decides the fate of a broken call in the new group, from one allreduce with minimum over the call
// numbers, over who has a result and over who can repeat. Ranks are at most one call apart, because
// a rank goes on only after the agreement that ends a call. If all are at the same call: it is done
// if all have a result, lost if one rank cannot repeat it, else repeated. If some ranks have gone
// on, the earlier call was decided, and this decides the call that they have begun: lost if one of
// those ranks cannot repeat it. Ranks behind note that call as lost_call_ before they reach it.
Result<RetryingGroup::Standing> RetryingGroup::AgreeOnCall(bool has_result, bool can_repeat) {
  std::vector<std::int64_t> values = {calls_, -calls_, can_repeat ? 1 : -calls_,
                                      has_result ? 1 : 0};
  auto agreed = MinimumOfAll(values);
  if (!agreed) return Propagate(agreed);
  const std::int64_t least = values[0];
  const std::int64_t most = -values[1];
  if (least == most) {
    if (values[3] != 0) return Standing{.fate = Fate::kDone, .next = calls_ + 1};
    if (values[2] <= 0) return Standing{.fate = Fate::kLost, .next = calls_ + 1};
    return Standing{.fate = Fate::kToDo, .next = calls_};
  }
  if (least != most - 1) return OutOfStep(least, most);
  // Some ranks have begun the next call. They went on because all had the result or the call was
  // lost.
  const bool is_next_lost = values[2] == -most;
  const std::int64_t next = is_next_lost ? most + 1 : most;
  if (calls_ == most) {
    return Standing{.fate = is_next_lost ? Fate::kLost : Fate::kToDo, .next = next};
  }
  if (is_next_lost) lost_call_ = most;
  return Standing{.fate = has_result ? Fate::kDone : Fate::kLost, .next = next};
}

Result<void> RetryingGroup::Try(const Call& call, bool& has_result) {
  auto done = call.exchange ? group_->RunExchange(*call.exchange)
              : call.counts ? group_->RunUnequal(call.kind, call.input, call.output, *call.counts,
                                                 call.type, call.op)
                            : group_->Run(call.kind, call.input, call.output, call.count, call.type,
                                          call.op, call.root);
  if (!done) return done;
  has_result = true;
  return AgreeOnPlans(calls_);
}

Result<void> RetryingGroup::Run(CollectiveKind kind, const void* input, void* output,
                                std::size_t count, reduce::DataType type, reduce::ReduceOp op,
                                int root) {
  return Do({kind, input, output, count, type, op, root, {}, nullptr});
}

Result<void> RetryingGroup::RunUnequal(CollectiveKind kind, const void* input, void* output,
                                       std::span<const std::size_t> counts, reduce::DataType type,
                                       reduce::ReduceOp op) {
  const std::size_t all = std::accumulate(counts.begin(), counts.end(), std::size_t{0});
  return Do({kind, input, output, all, type, op, program::kNoRoot, counts, nullptr});
}

// An exchange keeps its input: it receives elsewhere, or a rank gives itself what is there already.
// So its call has no elements that could be lost.
Result<void> RetryingGroup::RunExchange(const Exchange& exchange) {
  if (exchange.kind == ExchangeKind::kMessages) return Group::RunExchange(exchange);
  return Do({.kind = CollectiveKind::kCustom,
             .input = nullptr,
             .output = nullptr,
             .count = 0,
             .type = exchange.type,
             .op = reduce::ReduceOp::kSum,
             .root = exchange.root,
             .counts = {},
             .exchange = &exchange});
}

Result<void> RetryingGroup::Do(const Call& call) {
  if (failure_) return tl::unexpected(*failure_);
  if (calls_ == lost_call_) {
    ++calls_;
    return Fail(
        ErrorCode::kUnavailable,
        "the call was broken off at another rank and cannot be repeated, as it is in place");
  }
  bool has_result = false;
  auto done = Try(call, has_result);
  if (!done && IsPassing(done.error())) {
    done = TryAgain(call, has_result, std::move(done.error()));
  }
  if (done) {
    ++calls_;
  } else if (group_ == nullptr) {
    failure_ = done.error();
  }
  return done;
}

// Whether this rank's input is unchanged after a broken call. The input of a reduce_scatter has
// changed if the output lies anywhere in it.
bool RetryingGroup::CanRepeat(const Call& call) const {
  if (call.count == 0 || call.kind == CollectiveKind::kBroadcast) return true;
  if (call.kind != CollectiveKind::kReduceScatter) return call.input != call.output;
  const std::size_t parts = call.counts ? 1 : static_cast<std::size_t>(size_);
  const auto input = reinterpret_cast<std::uintptr_t>(call.input);
  const auto output = reinterpret_cast<std::uintptr_t>(call.output);
  return output < input || output - input >= parts * call.count * reduce::SizeOf(call.type);
}

Result<void> RetryingGroup::TryAgain(const Call& call, bool has_result, Error cause) {
  const auto end = steady_clock::now() + patience_;
  const bool can_repeat = CanRepeat(call);
  while (true) {
    auto joined = JoinNext();
    if (joined) {
      auto standing = AgreeOnCall(has_result, can_repeat);
      auto done = standing ? AgreeOnPlans(standing->next) : Result<void>(Propagate(standing));
      if (done && standing->fate == Fate::kDone) return {};
      if (done && standing->fate == Fate::kLost) {
        ++calls_;
        return Fail(cause.code, fmt::format("{} (the call cannot be repeated, as it is in place)",
                                            cause.message));
      }
      if (done) done = Try(call, has_result);
      if (done) return done;
      joined = std::move(done);
    }
    const std::lock_guard lock(mutex_);
    if (interruption_ || !IsPassing(joined.error()) || steady_clock::now() >= end) {
      group_.reset();
      return tl::unexpected(interruption_ ? *interruption_ : joined.error());
    }
  }
}

}  // namespace espalier::runtime
