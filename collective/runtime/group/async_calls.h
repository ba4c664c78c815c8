#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>

#include "collective/runtime/calls/group.h"
#include "common/base/result.h"
#include "common/os/worker_thread.h"

namespace espalier::runtime {

// Makes posted calls of a group on a thread of its own, one after another in the order of posting.
// The first call starts the thread. Destruction interrupts unfinished calls.
// Thread safety: any thread; meanwhile nothing else may call the group.
class AsyncCalls {
 public:
  explicit AsyncCalls(Group& group) : group_(group) {}
  AsyncCalls(const AsyncCalls&) = delete;
  AsyncCalls& operator=(const AsyncCalls&) = delete;
  ~AsyncCalls();

  using Call = std::function<Result<void>(Group&)>;
  // Returns the call's number, counted from 1. Throws std::bad_alloc or std::system_error if there
  // is no memory or no thread; nothing is then posted. A call that throws fails with
  // kResourceExhausted.
  std::uint64_t Post(Call call);
  // The result of a call that has ended, else none. An error is returned once, then success.
  // Errors: kNotFound for a number that Post has not returned.
  std::optional<Result<void>> Test(std::uint64_t number);
  // Waits until the call has ended; then as Test.
  Result<void> Wait(std::uint64_t number);
  // Waits for all calls and keeps their results.
  void WaitForAll();

 private:
  Result<void> Make(const Call& call) noexcept;
  void Finish(Result<void> done);
  std::optional<Result<void>> Take(std::uint64_t number);  // with the mutex held

  Group& group_;
  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded:
  std::uint64_t last_ = 0;
  std::uint64_t done_ = 0;
  std::map<std::uint64_t, Error> results_;  // of calls that are pending or have failed
  std::optional<WorkerThread> thread_;      // last: it ends before the members that it uses
};

}  // namespace espalier::runtime
