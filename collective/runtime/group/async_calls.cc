#include "collective/runtime/group/async_calls.h"

#include <fmt/format.h>

#include <exception>
#include <utility>

namespace espalier::runtime {

AsyncCalls::~AsyncCalls() {
  const std::lock_guard lock(mutex_);
  if (done_ != last_) group_.Interrupt({ErrorCode::kUnavailable, "this rank has left the group"});
}

std::uint64_t AsyncCalls::Post(Call call) {
  const std::lock_guard lock(mutex_);
  if (!thread_) thread_.emplace(WorkerThread::AtEnd::kDone);
  const auto room = results_.try_emplace(last_ + 1).first;
  try {
    thread_->Post([this, call = std::move(call)] { Finish(Make(call)); });
  } catch (...) {
    results_.erase(room);
    throw;
  }
  return ++last_;
}

// An exception of a call becomes its result and does not end the process.
Result<void> AsyncCalls::Make(const Call& call) noexcept {
  try {
    return call(group_);
  } catch (const std::exception&) {
    return tl::unexpected(Error{ErrorCode::kResourceExhausted, {}});  // a message needs memory
  }
}

void AsyncCalls::Finish(Result<void> done) {
  const std::lock_guard lock(mutex_);
  ++done_;
  // Post has allocated the entry, so storing the result cannot fail.
  if (done) {
    results_.erase(done_);
  } else {
    results_.at(done_) = std::move(done.error());
  }
  changed_.notify_all();
}

std::optional<Result<void>> AsyncCalls::Take(std::uint64_t number) {
  if (number == 0 || number > last_) {
    return Result<void>(
        Fail(ErrorCode::kNotFound, fmt::format("no call {} has been posted", number)));
  }
  if (number > done_) return std::nullopt;
  auto error = results_.extract(number);
  if (error.empty()) return Result<void>();
  return Result<void>(tl::unexpected(std::move(error.mapped())));
}

std::optional<Result<void>> AsyncCalls::Test(std::uint64_t number) {
  const std::lock_guard lock(mutex_);
  return Take(number);
}

Result<void> AsyncCalls::Wait(std::uint64_t number) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return number > last_ || number <= done_; });
  return *Take(number);
}

void AsyncCalls::WaitForAll() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return done_ == last_; });
}

}  // namespace espalier::runtime
