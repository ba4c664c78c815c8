#include "common/loop/asio_event_loop.h"

#include <algorithm>
#include <boost/asio.hpp>
#include <map>
#include <optional>
#include <utility>

#include "common/base/check.h"

namespace espalier::io {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;

// now + delay, without overflow; a negative delay counts as zero.
TimePoint Deadline(TimePoint now, Duration delay) {
  const Duration room = TimePoint::max() - now - Duration(1);
  return now + std::clamp(delay, Duration::zero(), room);
}

// Runs all timers of a loop with one Asio timer. Due timers run in the order of their deadlines
// and, if those are equal, of their creation, which Asio does not guarantee. A destroyed timer
// never runs, even if it was already due.
class TimerQueue {
 public:
  explicit TimerQueue(asio::io_context& context) : alarm_(std::in_place, context) {}

  // Call before the context is destroyed. Timers that its handlers own may be destroyed later.
  void Shutdown() {
    // One by one, as a callback may own timers, whose destruction uses the map.
    while (!pending_.empty()) pending_.extract(pending_.begin());
    alarm_.reset();
  }

  TimerPtr Add(TimePoint now, Duration delay, EventLoop::Callback callback) {
    const Key key{Deadline(now, delay), next_sequence_++};
    pending_.emplace(key, std::move(callback));
    Arm(now);
    return std::make_unique<Handle>(*this, key);
  }

  static TimePoint Now() { return TimePoint(std::chrono::steady_clock::now().time_since_epoch()); }

 private:
  using Key = std::pair<TimePoint, std::uint64_t>;

  class Handle : public Timer {
   public:
    Handle(TimerQueue& queue, const Key& key) : queue_(queue), key_(key) {}
    ~Handle() override { queue_.pending_.extract(key_); }

   private:
    TimerQueue& queue_;
    const Key key_;
  };

  // Sets the alarm for the earliest timer. An alarm for a timer that was cancelled has no effect.
  void Arm(TimePoint now) {
    if (pending_.empty() || pending_.begin()->first.first >= armed_for_) return;
    armed_for_ = pending_.begin()->first.first;
    const auto ring = [this](const error_code& error = {}) {
      if (!error) Ring();
    };
    if (armed_for_ <= now) {
      asio::post(alarm_->get_executor(), ring);  // setting a timer costs a system call
      return;
    }
    alarm_->expires_at(std::chrono::steady_clock::time_point(armed_for_.time_since_epoch()));
    alarm_->async_wait(ring);
  }

  void Ring() {
    armed_for_ = TimePoint::max();
    const TimePoint now = Now();
    while (!pending_.empty() && pending_.begin()->first.first <= now) {
      pending_.extract(pending_.begin()).mapped()();
    }
    Arm(now);
  }

  std::optional<asio::steady_timer> alarm_;
  std::map<Key, EventLoop::Callback> pending_;
  std::uint64_t next_sequence_ = 0;
  TimePoint armed_for_ = TimePoint::max();
};

// A watch whose pending handler keeps it alive, so that its callback may destroy its Timer.
template <typename Watch>
class WatchHandle : public Timer {
 public:
  explicit WatchHandle(std::shared_ptr<Watch> watch) : watch_(std::move(watch)) {}
  ~WatchHandle() override { watch_->Cancel(); }

 private:
  std::shared_ptr<Watch> watch_;
};

class DescriptorWatch : public std::enable_shared_from_this<DescriptorWatch> {
 public:
  using Readiness = asio::posix::descriptor_base::wait_type;

  DescriptorWatch(asio::io_context& context, int fd, Readiness readiness,
                  EventLoop::Callback callback)
      : descriptor_(context), readiness_(readiness), callback_(std::move(callback)) {
    error_code error;
    descriptor_.assign(fd, error);
    ESPALIER_CHECK(!error, "fd={} error={}", fd, error.message());
  }

  void Wait() {
    descriptor_.async_wait(readiness_, [self = shared_from_this()](const error_code& error) {
      if (error || self->cancelled_) return;
      self->callback_();
      if (!self->cancelled_) self->Wait();
    });
  }

  void Cancel() {
    cancelled_ = true;
    descriptor_.release();
  }

 private:
  asio::posix::stream_descriptor descriptor_;
  const Readiness readiness_;
  EventLoop::Callback callback_;
  bool cancelled_ = false;
};

class SignalWatch : public std::enable_shared_from_this<SignalWatch> {
 public:
  SignalWatch(asio::io_context& context, std::span<const int> signals,
              std::function<void(int)> callback)
      : signals_(context), callback_(std::move(callback)) {
    for (const int signal : signals) {
      error_code error;
      signals_.add(signal, error);
      ESPALIER_CHECK(!error, "signal={} error={}", signal, error.message());
    }
  }

  void Wait() {
    signals_.async_wait([self = shared_from_this()](const error_code& error, int signal) {
      if (error || self->cancelled_) return;
      self->callback_(signal);
      if (!self->cancelled_) self->Wait();
    });
  }

  void Cancel() {
    cancelled_ = true;
    error_code ignored;  // the watch is silent from now on, even if this fails
    signals_.clear(ignored);
    signals_.cancel(ignored);
  }

 private:
  asio::signal_set signals_;
  std::function<void(int)> callback_;
  bool cancelled_ = false;
};

TimerPtr Watch(asio::io_context& context, int fd, DescriptorWatch::Readiness readiness,
               EventLoop::Callback callback) {
  auto watch = std::make_shared<DescriptorWatch>(context, fd, readiness, std::move(callback));
  watch->Wait();
  return std::make_unique<WatchHandle<DescriptorWatch>>(std::move(watch));
}

}  // namespace

struct AsioEventLoop::Impl {
  Impl() { timers.emplace(context); }
  ~Impl() { timers->Shutdown(); }

  std::optional<TimerQueue> timers;  // outlives the context, whose handlers may own timers
  asio::io_context context{1};
};

AsioEventLoop::AsioEventLoop() : impl_(std::make_unique<Impl>()) {}

AsioEventLoop::~AsioEventLoop() = default;

void AsioEventLoop::Run() {
  {
    const auto work = asio::make_work_guard(impl_->context);
    impl_->context.run();
  }
  impl_->context.restart();  // after the guard's destruction, which stops a context without work
}

void AsioEventLoop::Stop() { impl_->context.stop(); }

TimePoint AsioEventLoop::Now() const { return TimerQueue::Now(); }

void AsioEventLoop::Post(Callback callback) { asio::post(impl_->context, std::move(callback)); }

TimerPtr AsioEventLoop::After(Duration delay, Callback callback) {
  return impl_->timers->Add(Now(), delay, std::move(callback));
}

TimerPtr AsioEventLoop::WatchReadable(int fd, Callback callback) {
  return Watch(impl_->context, fd, asio::posix::descriptor_base::wait_read, std::move(callback));
}

TimerPtr AsioEventLoop::WatchWritable(int fd, Callback callback) {
  return Watch(impl_->context, fd, asio::posix::descriptor_base::wait_write, std::move(callback));
}

TimerPtr AsioEventLoop::WatchSignals(std::span<const int> signals,
                                     std::function<void(int)> callback) {
  auto watch = std::make_shared<SignalWatch>(impl_->context, signals, std::move(callback));
  watch->Wait();
  return std::make_unique<WatchHandle<SignalWatch>>(std::move(watch));
}

void* AsioEventLoop::context() { return &impl_->context; }

}  // namespace espalier::io
