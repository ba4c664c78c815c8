#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace espalier::shim {

// A work request, as far as its queue pair's send queue is concerned.
struct SendRequest {
  std::uint64_t bytes = 0;  // that leave from here: none for what only asks the peer
  bool signalled = false;   // it completes with a word about it
};

// The bytes that a queue pair was given to send, and those of them that are known to have been
// acknowledged. Only signalled requests complete with a word about it, in the order in which they
// were posted; such a word stands for all that was posted before. So the count keeps, for each
// signalled request that may be on its way, how much had been posted up to it.
//
// Posting and completing are wait-free, one atomic addition each, from any threads. Where several
// threads post to one queue pair at once, the count's order may differ from the device's for a
// moment. Bytes are known modulo 2^40.
//
// What a post needs comes first and is 32 bytes; what a completion does is behind it, for another
// cache line.
class TrafficCount {
 public:
  // `max_requests`: that the send queue holds.
  explicit TrafficCount(std::uint32_t max_requests)
      : mask_(RingSize(max_requests) - 1),
        ring_(std::make_unique<std::atomic<std::uint64_t>[]>(mask_ + 1)) {}

  void Post(const SendRequest& request) { Note(Reserve(WordOf(request)), request); }

  // Several at once, in order: the sum of their words is reserved, and each noted from there.
  static std::uint64_t WordOf(const SendRequest& request) {
    return request.bytes << kIndexBits | (request.signalled ? 1 : 0);
  }
  std::uint64_t Reserve(std::uint64_t words) {
    return posted_.fetch_add(words, std::memory_order_relaxed);
  }
  // Where the next one is to be noted.
  std::uint64_t Note(std::uint64_t at, const SendRequest& request) {
    const std::uint64_t after = at + (request.bytes << kIndexBits);
    if (!request.signalled) return after;
    ring_[at & mask_].store(after, std::memory_order_relaxed);
    return after + 1;
  }

  // Word of one signalled request.
  void Complete() { completions_.fetch_add(1, std::memory_order_release); }
  // The queue pair has failed: what was posted, and will be, is flushed.
  void Fail() { failed_.store(true, std::memory_order_relaxed); }

  // Modulo 2^40.
  struct Reading {
    std::uint64_t posted_bytes = 0;
    std::uint64_t completed_bytes = 0;
  };
  Reading Read() const {
    const std::uint64_t completions = completions_.load(std::memory_order_acquire);
    std::uint64_t completed =
        completions == 0 ? 0 : ring_[(completions - 1) & mask_].load(std::memory_order_relaxed);
    const std::uint64_t posted = posted_.load(std::memory_order_relaxed);
    if (failed_.load(std::memory_order_relaxed)) completed = posted;
    return {.posted_bytes = posted >> kIndexBits, .completed_bytes = completed >> kIndexBits};
  }
  // a - b of readings, b not being later.
  static std::uint64_t Difference(std::uint64_t a, std::uint64_t b) {
    const std::uint64_t difference = (a - b) & kByteMask;
    return difference > kByteMask / 2 ? 0 : difference;
  }

 private:
  // A word: bytes above, the number of signalled requests below. When the number runs over, the
  // bytes posted grow by one, and those completed with them.
  static constexpr int kIndexBits = 24;
  static constexpr std::uint64_t kByteMask = (std::uint64_t{1} << (64 - kIndexBits)) - 1;

  // Twice what can be on its way: a completion may be counted late.
  static std::size_t RingSize(std::uint32_t max_requests) {
    std::size_t size = 2;
    while (size < std::size_t{2} * max_requests && size < (std::size_t{1} << kIndexBits)) size *= 2;
    return size;
  }

  std::atomic<std::uint64_t> posted_{0};
  const std::size_t mask_;
  const std::unique_ptr<std::atomic<std::uint64_t>[]> ring_;
  std::atomic<bool> failed_{false};
  std::atomic<std::uint64_t> completions_{0};
};

}  // namespace espalier::shim
