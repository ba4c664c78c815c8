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

// A group that outlives failures of its paths, and takes over plans as they come. Where a call is
// broken off, all ranks make the group anew, agree on the newest plans that all of them have been
// offered, and do the call again.
//
// Every call ends with an agreement of all ranks (a small allreduce): that all have done it, and on
// the plans for the next. A rank that misses the agreement learns in the new group whether others
// have it: then its own result stands too. A call is done again only where every rank still has its
// input: not in place (but for broadcasts, whose root still has it). Else all ranks report it, and
// go on with the next. So nothing is ever silently wrong.
//
// Errors of Run: as Group's; those of a broken call that cannot be done again leave the group in
// order; kUnavailable where the ranks do not meet again in time, which ends it.
// Thread safety: one thread at a time, but for Offer and Interrupt, which are for any thread.
class RetryingGroup : public Group {
 public:
  // Joins the group of that number: every rank of one number meets the others of it. Called for 0
  // first; all ranks count alike, as a group that is over is over for all.
  using Join = std::function<Result<std::unique_ptr<Group>>(std::uint32_t number)>;

  // `patience`: how long a call may be tried again, from its first failure.
  static Result<std::unique_ptr<RetryingGroup>> Make(Join join, std::chrono::milliseconds patience);

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  Result<void> Run(program::CollectiveKind kind, const void* input, void* output, std::size_t count,
                   reduce::DataType type, reduce::ReduceOp op, int root) override;
  Result<void> RunUnequal(program::CollectiveKind kind, const void* input, void* output,
                          std::span<const std::size_t> counts, reduce::DataType type,
                          reduce::ReduceOp op) override;
  // As Group: a call of all ranks, which they leave with this plan in force, or with a later one
  // that all have been offered. Errors: kFailedPrecondition where they make it with other plans.
  Result<void> Use(CollectivePlan plan) override;
  // Memory goes with a group, which may be another one after a call: kUnsupported, kNotFound.
  Result<void*> Allocate(std::size_t bytes) override;
  Result<void> Release(void* memory) override;
  void Interrupt(const Error& cause) override;

  // A plan that comes into force at the first call that all ranks begin with it, or with a later
  // one. Urgent: the plan in force no longer works, so a call under way is broken off and done
  // again by the new one. Plans of no higher generation than those in force are ignored.
  void Offer(CollectivePlan plan, bool is_urgent);
  // The plan in force for that collective; 0: none.
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
  };
  // What a call that was broken off has come to in the group after.
  enum class Fate { kDone, kToDo, kLost };
  struct Standing {
    Fate fate;
    std::int64_t next;  // the call that all ranks begin next
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
  std::uint32_t number_ = 0;     // of the next group
  std::int64_t calls_ = 0;       // that all ranks have done
  std::int64_t lost_call_ = -1;  // that this rank has not begun, and others have in vain
  std::optional<Error> failure_;
  mutable std::mutex mutex_;
  std::shared_ptr<Group> group_;       // changed under the mutex, by the calling thread
  Offers offers_[kKinds];              // guarded
  std::optional<Error> interruption_;  // guarded
};

}  // namespace espalier::runtime
