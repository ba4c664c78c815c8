#pragma once

#include <deque>
#include <map>
#include <utility>

#include "common/base/time/event_loop.h"

namespace espalier::agent {

// A loop whose time the test advances.
class ManualLoop : public EventLoop {
 public:
  TimePoint Now() const override { return now_; }
  void Post(Callback callback) override { posted_.push_back(std::move(callback)); }

  [[nodiscard]] TimerPtr After(Duration delay, Callback callback) override {
    const Key key{now_ + delay, ++last_timer_};
    timers_.emplace(key, std::move(callback));
    return std::make_unique<Pending>(*this, key);
  }

  // Runs all callbacks that are due within `span`, in order.
  void Advance(Duration span) {
    const TimePoint end = now_ + span;
    RunPosted();
    while (!timers_.empty() && timers_.begin()->first.first <= end) {
      auto due = timers_.extract(timers_.begin());
      now_ = std::max(now_, due.key().first);
      due.mapped()();
      RunPosted();
    }
    now_ = end;
  }

  // Runs all callbacks that are due within `span`, at its end: the host was too busy before.
  void Oversleep(Duration span) {
    now_ += span;
    Advance(Duration::zero());
  }

 private:
  using Key = std::pair<TimePoint, std::uint64_t>;

  struct Pending : Timer {
    Pending(ManualLoop& owner, Key timer) : loop(owner), key(timer) {}
    ~Pending() override { loop.timers_.erase(key); }
    ManualLoop& loop;
    Key key;
  };

  void RunPosted() {
    while (!posted_.empty()) {
      const Callback callback = std::move(posted_.front());
      posted_.pop_front();
      callback();
    }
  }

  TimePoint now_{};
  std::uint64_t last_timer_ = 0;
  std::deque<Callback> posted_;
  std::map<Key, Callback> timers_;
};

}  // namespace espalier::agent
