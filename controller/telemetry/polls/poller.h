#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "common/base/random.h"
#include "common/base/time/event_loop.h"
#include "controller/telemetry/polls/poll_target.h"
#include "controller/telemetry/polls/polled_switches.h"
#include "controller/telemetry/polls/workers.h"

namespace espalier::telemetry {

// Asks each source of PolledSwitches once an interval, more or less a tenth by chance, as soon as
// its last answer is there.
//
// Requests block threads, of which there are two kinds, so that slow switches delay only each
// other: kSlowWorkers for sources that have failed, or have taken half of the timeout, kSlowAfter
// times in a row, and kPromptWorkers for the others. Answers are read one at a time, so that
// hostile ones use the memory of one.
//
// Thread safety: the loop's thread. The destructor waits for requests in progress, up to their
// timeout. The loop and the switches must outlive it.
class Poller {
 public:
  static constexpr std::size_t kPromptWorkers = 12;
  static constexpr std::size_t kSlowWorkers = 4;
  static constexpr int kSlowAfter = 2;

  struct Options {
    Duration interval = std::chrono::seconds(1);
    Duration timeout = std::chrono::seconds(3);  // of a request
    std::string ca_file;                         // of https
    std::uint64_t seed = 0;
  };
  // Calls `handle_answer` after each answer and each failure.
  Poller(EventLoop& loop, PolledSwitches& switches, const Options& options,
         std::function<void()> handle_answer);

 private:
  struct Outcome;
  void Schedule(std::size_t poll, Duration delay);
  void Start(std::size_t poll);
  void Finish(std::size_t poll, TimePoint begin, const Outcome& outcome);

  EventLoop& loop_;
  PolledSwitches& switches_;
  const Duration interval_;
  const FetchOptions fetch_;
  const std::function<void()> handle_answer_;
  Random random_;
  std::vector<TimerPtr> timers_;  // by poll
  std::vector<int> slow_polls_;   // by poll: in a row
  std::mutex reading_;
  Workers prompt_;  // destroyed first: their work uses the others
  Workers slow_;
};

}  // namespace espalier::telemetry
