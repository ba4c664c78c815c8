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

// Calls of a group that another thread makes, one after another in the order in which they were
// posted. The thread is started by the first. Destruction interrupts what is not done.
// Thread safety: any thread; nobody else calls the group meanwhile.
class AsyncCalls {
 public:
  explicit AsyncCalls(Group& group) : group_(group) {}
  AsyncCalls(const AsyncCalls&) = delete;
  AsyncCalls& operator=(const AsyncCalls&) = delete;
  ~AsyncCalls();

  using Call = std::function<Result<void>(Group&)>;
  // The number of the call, from 1 on. Throws std::bad_alloc or std::system_error, and has posted
  // nothing then, where there is no memory or no thread for it.
  std::uint64_t Post(Call call);
  // A call that throws has failed with kResourceExhausted.
  // The result of a call that has ended, none of one that has not. It is given once, then success.
  // Errors: kNotFound for a number that was not given.
  std::optional<Result<void>> Test(std::uint64_t number);
  // As Test, when it has ended.
  Result<void> Wait(std::uint64_t number);
  // Waits for all calls; does not take their results.
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
  std::map<std::uint64_t, Error> results_;  // of calls that are to be made or have failed
  std::optional<WorkerThread> thread_;      // last: it ends before what it uses
};

}  // namespace espalier::runtime
