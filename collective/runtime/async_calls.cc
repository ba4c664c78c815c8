#include "collective/runtime/async_calls.h"

#include <fmt/format.h>

#include <utility>

namespace espalier::runtime {

AsyncCalls::~AsyncCalls() {
  {
    const std::lock_guard lock(mutex_);
    stops_ = true;
    if (done_ != last_) group_.Interrupt({ErrorCode::kUnavailable, "this rank has left the group"});
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

std::uint64_t AsyncCalls::Post(Call call) {
  const std::lock_guard lock(mutex_);
  posted_.push_back(std::move(call));
  if (!thread_.joinable()) thread_ = std::thread([this] { Work(); });
  changed_.notify_all();
  return ++last_;
}

void AsyncCalls::Work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stops_ || !posted_.empty(); });
    if (posted_.empty()) return;
    const Call call = std::move(posted_.front());
    posted_.pop_front();
    lock.unlock();
    auto done = call(group_);
    lock.lock();
    ++done_;
    if (!done) errors_.emplace(done_, std::move(done.error()));
    changed_.notify_all();
  }
}

std::optional<Result<void>> AsyncCalls::Take(std::uint64_t number) {
  if (number == 0 || number > last_) {
    return Result<void>(
        Fail(ErrorCode::kNotFound, fmt::format("there is no call {} that was posted", number)));
  }
  if (number > done_) return std::nullopt;
  auto error = errors_.extract(number);
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
