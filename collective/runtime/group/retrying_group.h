#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "collective/runtime/calls/group.h"
#include "common/base/result.h"

namespace espalier::runtime {

// A group that survives failures of its paths and takes over new plans. If a call is broken off,
// all ranks form the group again, agree on the newest plans that all of them have been offered, and
// repeat the call.
//
// Every call ends with an agreement of all ranks (a small allreduce): that all have completed it,
// and on the plans for the next call. A rank that misses the agreement learns in the new group
// whether others have it; if so, its own result stands. A call is repeated only if every rank still
// has its input, that is, if it is not in place. A broadcast can be repeated although it is in
// place, because its root still has the data. Otherwise all ranks report the failure and continue
// with the next call, so no wrong result goes unnoticed.
//
// Errors of Run: as Group. If a broken call cannot be repeated, its error leaves the group usable.
// kUnavailable if the ranks do not join again in time, which ends the group.
// Thread safety: one thread at a time, except Offer and Interrupt, which any thread may call.
class RetryingGroup : public Group {
 public:
  // Joins group `number` together with all other ranks. Numbers start at 0. All ranks count alike,
  // because a group ends for all ranks at once.
  using Join = std::function<Result<std::unique_ptr<Group>>(std::uint32_t number)>;

  // `patience`: how long a call may be retried after its first failure.
  static Result<std::unique_ptr<RetryingGroup>> Make(Join join, std::chrono::milliseconds patience);

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  Result<void> Run(program::CollectiveKind kind, const void* input, void* output, std::size_t count,
                   reduce::DataType type, reduce::ReduceOp op, int root) override;
  Result<void> RunUnequal(program::CollectiveKind kind, const void* input, void* output,
                          std::span<const std::size_t> counts, reduce::DataType type,
                          reduce::ReduceOp op) override;
  // As Group. Collective exchanges only, because messages of single ranks end in no agreement.
  Result<void> RunExchange(const Exchange& exchange) override;
  // As Group. Afterwards this plan is in force, or a later one that all ranks have been offered.
  // Errors: kFailedPrecondition if ranks pass different plans.
  Result<void> Use(CollectivePlan plan) override;
  // Not supported, because registered memory belongs to a group that a failure may replace. Errors:
  // kUnsupported, kNotFound.
  Result<void*> Allocate(std::size_t bytes) override;
  Result<void> Release(void* memory) override;
  void Interrupt(const Error& cause) override;

  // Offers a plan, which comes into force once all ranks have been offered it or a later one.
  // Urgent: the plan in force does not work any more, so a call in progress is interrupted and
  // repeated with the new plan. A plan of no higher generation than the one in force is ignored.
  void Offer(CollectivePlan plan, bool is_urgent);
  // The generation of the plan in force for that collective; 0: none.
  std::uint64_t GenerationOf(program::CollectiveKind kind) const;

 private:
  static constexpr std::size_t kKinds =
      static_cast<std::size_t>(program::CollectiveKind::kCustom) + 1;
  struct Offers {
    std::map<std::uint64_t, CollectivePlan> by_generation;
    std::uint64_t in_force = 0;
  };
  struct Call {
    program::CollectiveKind kind;
    const void* input;
    void* output;
    std::size_t count;
    reduce::DataType type;
    reduce::ReduceOp op;
    int root;
    std::optional<std::span<const std::size_t>> counts;  // of unequal parts
    const Exchange* exchange = nullptr;                  // instead of all other members
  };
  // The outcome of a broken call, as all ranks agree in the next group.
  enum class Fate { kDone, kToDo, kLost };
  struct Standing {
    Fate fate;
    std::int64_t next;  // number of the call that all ranks begin next
  };

  RetryingGroup(Join join, std::chrono::milliseconds patience)
      : join_(std::move(join)), patience_(patience) {}

  Result<void> Do(const Call& call);
  bool CanRepeat(const Call& call) const;
  Result<void> JoinNext();
  Result<void> Try(const Call& call, bool& has_result);
  Result<void> TryAgain(const Call& call, bool has_result, Error cause);
  Result<Standing> AgreeOnCall(bool has_result, bool can_repeat);
  Result<void> AgreeOnPlans(std::int64_t calls);
  tl::unexpected<Error> OutOfStep(std::int64_t least, std::int64_t most);
  Result<void> MinimumOfAll(std::vector<std::int64_t>& values);

  Join join_;
  std::chrono::milliseconds patience_;
  int rank_ = 0;
  int size_ = 1;
  std::uint32_t number_ = 0;     // of the next group to join
  std::int64_t calls_ = 0;       // calls that all ranks have completed
  std::int64_t lost_call_ = -1;  // a call that is lost before this rank has begun it
  std::optional<Error> failure_;
  mutable std::mutex mutex_;
  std::shared_ptr<Group> group_;       // changed under the mutex, by the calling thread
  Offers offers_[kKinds];              // guarded
  std::optional<Error> interruption_;  // guarded
};

}  // namespace espalier::runtime
