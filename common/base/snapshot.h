#pragma once

#include <memory>
#include <mutex>
#include <utility>

namespace espalier {

// Holds the latest immutable value that one thread publishes and others read.
// Thread safety: any thread. A reader may keep a value as long as it likes.
template <typename T>
class Snapshot {
 public:
  explicit Snapshot(std::shared_ptr<const T> value) : value_(std::move(value)) {}

  std::shared_ptr<const T> Get() const {
    const std::lock_guard lock(mutex_);
    return value_;
  }

  void Publish(std::shared_ptr<const T> value) {
    const std::lock_guard lock(mutex_);
    value_.swap(value);  // the old value is destroyed after the lock is released
  }

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<const T> value_;
};

}  // namespace espalier
