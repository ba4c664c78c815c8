#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace espalier {

// A thread that does pieces of work one after another, in the order in which they were posted.
// Thread safety: Post from any thread, also from a piece of work. The constructor throws
// std::system_error where there is no thread to be had.
class WorkerThread {
 public:
  // What becomes of work that waits when the thread is destroyed. The destructor waits for the
  // piece at hand in both cases.
  enum class AtEnd : std::uint8_t { kDone, kDropped };

  explicit WorkerThread(AtEnd waiting) : at_end_(waiting), thread_([this] { Run(); }) {}
  ~WorkerThread();
  WorkerThread(const WorkerThread&) = delete;
  WorkerThread& operator=(const WorkerThread&) = delete;

  // False, and nothing is done, where so many pieces wait already. Work must not throw. Throws
  // std::bad_alloc and has posted nothing then.
  bool Post(std::function<void()> work, std::size_t most_waiting = SIZE_MAX);

 private:
  void Run();

  const AtEnd at_end_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> waiting_;  // guarded
  bool is_over_ = false;                       // guarded
  std::thread thread_;
};

}  // namespace espalier
