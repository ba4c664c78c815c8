#include "controller/telemetry/polls/poller.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <utility>

namespace espalier::telemetry {

// Of one request. Written by a worker, then read on the loop's thread.
struct Poller::Outcome {
  Result<PortReadings> readings;
  Duration took{};
  TimePoint at{};  // when the answer was there
};

Poller::Poller(EventLoop& loop, PolledSwitches& switches, const Options& options,
               std::function<void()> handle_answer)
    : loop_(loop),
      switches_(switches),
      interval_(options.interval),
      fetch_{.timeout = options.timeout, .ca_file = options.ca_file},
      handle_answer_(std::move(handle_answer)),
      random_(options.seed),
      timers_(switches.polls().size()),
      slow_polls_(switches.polls().size()),
      prompt_(loop, kPromptWorkers),
      slow_(loop, kSlowWorkers) {
  // Spread over an interval.
  for (std::size_t i = 0; i < timers_.size(); ++i) {
    Schedule(i, std::chrono::duration_cast<Duration>(interval_ * random_.Fraction()));
  }
}

void Poller::Schedule(std::size_t poll, Duration delay) {
  timers_[poll] = loop_.After(std::max(delay, Duration::zero()), [this, poll] { Start(poll); });
}

void Poller::Start(std::size_t poll) {
  auto outcome = std::make_shared<Outcome>();
  const auto ask = [this, poll, outcome] {
    const TimePoint begin = loop_.Now();
    const Poll& one = switches_.polls()[poll];
    const Result<std::string> text = FetchFrom(one.target, fetch_);
    outcome->at = loop_.Now();
    outcome->took = outcome->at - begin;
    if (!text) {
      outcome->readings = tl::unexpected(text.error());
      return;
    }
    const std::scoped_lock lock(reading_);
    outcome->readings =
        one.reader->Read(*text, [&](std::string_view name) { return switches_.Knows(poll, name); });
  };
  Workers& workers = slow_polls_[poll] >= kSlowAfter ? slow_ : prompt_;
  workers.Run(ask, [this, poll, begin = loop_.Now(), outcome] { Finish(poll, begin, *outcome); });
}

void Poller::Finish(std::size_t poll, TimePoint begin, const Outcome& outcome) {
  if (outcome.readings) {
    switches_.HandleReadings(poll, *outcome.readings, outcome.at);
  } else {
    switches_.HandleFailure(poll, Printable(outcome.readings.error().message, 300));
  }
  const bool is_slow = !outcome.readings || outcome.took > fetch_.timeout / 2;
  slow_polls_[poll] = is_slow ? slow_polls_[poll] + 1 : 0;
  const auto pause =
      std::chrono::duration_cast<Duration>(interval_ * (0.9 + 0.2 * random_.Fraction()));
  Schedule(poll, begin + pause - loop_.Now());
  handle_answer_();
}

}  // namespace espalier::telemetry
