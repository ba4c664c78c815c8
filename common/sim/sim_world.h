#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string_view>
#include <thread>
#include <vector>

#include "common/base/event_loop.h"
#include "common/base/random.h"

namespace espalier::sim {

// Virtual time for any number of event loops (one for each simulated process): one timeline, on
// which the callback that is due first runs next, and of those due at the same time the one that
// was posted first. Callbacks take no time, Post one nanosecond. The same program on the same seed
// runs the same callbacks in the same order; TraceHash() tells whether it did.
//
// Thread safety: the thread that made it, except that EventLoop::Post may come from any thread
// (from another than the world's it is taken at the next step, whenever that is: not repeatable).
// Complexity: O(log n) a callback with n of them pending.
class SimWorld {
 public:
  explicit SimWorld(std::uint64_t seed);
  ~SimWorld();
  SimWorld(const SimWorld&) = delete;
  SimWorld& operator=(const SimWorld&) = delete;

  // A loop of this world, which must outlive it. What is pending on a loop that is destroyed
  // never runs: so dies a process.
  std::unique_ptr<EventLoop> MakeLoop();

  TimePoint Now() const;
  // Independent numbers for one user of randomness; the nth call gives the same for one seed.
  Random MakeRandom() { return Random(random_.Next()); }

  // Runs the next callback; false where none is pending.
  bool Step();
  // Runs all that is due until then; the clock then stands at Now() + duration.
  void RunFor(Duration duration);
  // Runs until done(), which is asked before the first callback and after each; false where it
  // was not done within `limit` of virtual time, or nothing more can happen.
  bool RunUntil(const std::function<bool()>& done, Duration limit);

  // Makes bytes part of the trace (a message that was delivered).
  void Trace(std::string_view bytes);
  // Of all callbacks that ran (when, on which loop) and all bytes that were traced.
  std::uint64_t TraceHash() const { return trace_hash_; }
  std::uint64_t callbacks_run() const { return callbacks_run_; }

 private:
  class Loop;
  class VirtualTimer;

  // Callbacks live in slots that are used again; a heap entry whose sequence is not its slot's
  // was cancelled.
  struct Entry {
    TimePoint due;
    std::uint64_t sequence;
    std::size_t slot;
  };
  struct Slot {
    EventLoop::Callback callback;
    std::uint64_t sequence = 0;
    std::size_t loop = 0;
  };
  struct Posted {
    std::size_t loop;
    EventLoop::Callback callback;
  };

  static bool Later(const Entry& a, const Entry& b);
  Entry Schedule(std::size_t loop, TimePoint due, EventLoop::Callback callback);
  void Post(std::size_t loop, EventLoop::Callback callback);
  void Cancel(const Entry& entry);
  void CloseLoop(std::size_t loop);
  void TakeInbox();
  const Entry* Next();  // nullptr where nothing is pending
  void Mix(std::uint64_t value);

  const std::thread::id thread_ = std::this_thread::get_id();
  Random random_;
  std::atomic<Duration::rep> now_ns_;
  std::vector<Entry> heap_;
  std::vector<Slot> slots_;
  std::vector<std::size_t> free_slots_;
  std::vector<bool> loop_is_open_;
  std::uint64_t next_sequence_ = 1;
  std::uint64_t trace_hash_ = 0;
  std::uint64_t callbacks_run_ = 0;

  std::mutex inbox_mutex_;
  std::vector<Posted> inbox_;  // from other threads
  std::atomic<bool> inbox_is_filled_ = false;
};

}  // namespace espalier::sim
