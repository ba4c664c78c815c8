#include "common/loop/background.h"

namespace espalier::io {

Background::Background(EventLoop& loop) : loop_(loop), thread_([this] { Work(); }) {}

Background::~Background() {
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void Background::Run(std::function<void()> work, std::function<void()> done) {
  {
    const std::lock_guard lock(mutex_);
    waiting_.emplace_back(std::move(work), std::move(done));
  }
  changed_.notify_one();
}

void Background::Work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return is_over_ || !waiting_.empty(); });
    if (is_over_) return;
    auto [work, done] = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    work();
    loop_.Post(std::move(done));
    lock.lock();
  }
}

}  // namespace espalier::io
