#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace espalier {

// A thread that does pieces of work one after another, in the order of posting.
// Thread safety: Post from any thread, also from a piece of work. The constructor throws
// std::system_error if no thread can be created.
class WorkerThread {
 public:
  // Whether waiting work is done or dropped when the object is destroyed. The destructor waits for
  // the current piece in both cases.
  enum class AtEnd : std::uint8_t { kDone, kDropped };

  explicit WorkerThread(AtEnd waiting) : at_end_(waiting), thread_([this] { Run(); }) {}
  ~WorkerThread();
  WorkerThread(const WorkerThread&) = delete;
  WorkerThread& operator=(const WorkerThread&) = delete;

  // Returns false and does nothing if `most_waiting` pieces wait already. Work must not throw.
  // Throws std::bad_alloc, in which case nothing was posted.
  bool Post(std::function<void()> work, std::size_t most_waiting = SIZE_MAX);

 private:
  void Run();

  const AtEnd at_end_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> waiting_;  // guarded by the mutex
  bool is_over_ = false;                       // guarded by the mutex
  std::thread thread_;
};

}  // namespace espalier
