#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "agent/verbs/ticks.h"

namespace espalier::shim {

// The part of a work request that counts for its queue pair's send queue.
struct SendRequest {
  std::uint64_t bytes = 0;  // that this host sends; 0 for reads and atomics
  bool signalled = false;   // it has a completion of its own
};

// Counts the bytes that a queue pair was given to send, and those of them that are acknowledged.
// Only signalled requests have completions, in the order in which they were posted. A completion
// also covers everything posted before it. So a ring keeps, for each signalled request that may be
// in flight, how many bytes had been posted up to it.
//
// Posting and completing are wait-free, one atomic addition each, from any threads. If several
// threads post to one queue pair at once, the order here may differ from the device's for a moment.
// Bytes are known modulo 2^40.
//
// A thread that looks at the count now and then (QueueActivity) begins a pause when the queue is
// idle. The post that ends the pause notes its time; other posts only compare a number.
//
// The members that a post needs come first and have 32 bytes; those that a completion needs follow,
// for another cache line.
class TrafficCount {
 public:
  // `max_requests`: capacity of the send queue.
  explicit TrafficCount(std::uint32_t max_requests)
      : mask_(RingSize(max_requests) - 1),
        ring_(std::make_unique<std::atomic<std::uint64_t>[]>(mask_ + 1)) {}

  void Post(const SendRequest& request) { Note(Reserve(WordOf(request)), request); }

  // To post several requests in order: Reserve the sum of their words, then Note each from there.
  static std::uint64_t WordOf(const SendRequest& request) {
    return request.bytes << kIndexBits | (request.signalled ? 1 : 0);
  }
  std::uint64_t Reserve(std::uint64_t words) {
    const std::uint64_t at = posted_.fetch_add(words, std::memory_order_relaxed);
    if (at == idle_at_.load(std::memory_order_relaxed)) [[unlikely]]
      NoteStart();
    return at;
  }
  // Returns where to note the next request.
  std::uint64_t Note(std::uint64_t at, const SendRequest& request) {
    const std::uint64_t after = at + (request.bytes << kIndexBits);
    if (!request.signalled) return after;
    ring_[at & mask_].store(after, std::memory_order_relaxed);
    return after + 1;
  }

  // Counts the completion of one signalled request. Notes the time if the queue may be empty now.
  void Complete() { Complete(&ReadTicks); }
  // `read_ticks`: returns the present.
  template <typename ReadTime>
  void Complete(ReadTime&& read_ticks) {
    const std::uint64_t count = completions_.fetch_add(1, std::memory_order_release) + 1;
    if (IsBefore(count, posted_seen_.load(std::memory_order_relaxed))) [[likely]]
      return;
    // Reads what other threads may write only once for all requests that were posted until then.
    const std::uint64_t posted = posted_.load(std::memory_order_relaxed);
    posted_seen_.store(posted, std::memory_order_relaxed);
    if (!IsBefore(count, posted)) emptied_at_.store(read_ticks(), std::memory_order_relaxed);
  }
  // Notes that the queue pair has failed: everything posted before or later counts as completed.
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
  // Returns a - b of two byte counts modulo 2^40; 0 if b is ahead.
  static std::uint64_t Difference(std::uint64_t a, std::uint64_t b) {
    const std::uint64_t difference = (a - b) & kByteMask;
    return difference > kByteMask / 2 ? 0 : difference;
  }

  struct Queue {
    std::uint64_t position = 0;    // changes with each post, except for those of nothing
    bool is_complete = false;      // all signalled requests are, or the queue pair has failed
    bool has_tail = false;         // bytes were posted after the last signalled request
    bool has_start = false;        // a post has ended the pause
    std::uint64_t started_at = 0;  // when it did so, in ticks
    std::uint64_t completions = 0;
    std::uint64_t emptied_at = 0;  // when the last of them left no request, in ticks
    Reading bytes;
  };
  Queue ReadQueue() const {
    Queue queue;
    queue.has_start = idle_at_.load(std::memory_order_acquire) == kNoPause;
    queue.started_at = started_at_.load(std::memory_order_relaxed);
    const Reading reading = Read();
    queue.completions = completions_.load(std::memory_order_acquire);
    queue.emptied_at = emptied_at_.load(std::memory_order_relaxed);
    queue.position = posted_.load(std::memory_order_relaxed);
    queue.is_complete = failed_.load(std::memory_order_relaxed) ||
                        ((queue.position ^ queue.completions) & kIndexMask) == 0;
    queue.has_tail = reading.posted_bytes != reading.completed_bytes;
    queue.bytes = reading;
    return queue;
  }
  // The queue is idle at this position; the post that finds it there notes its time. A pause begins
  // at position 0 by itself.
  void BeginPause(std::uint64_t position) { idle_at_.store(position, std::memory_order_relaxed); }
  void EndPause() { idle_at_.store(kNoPause, std::memory_order_relaxed); }

 private:
  // A position that is reached once in 2^40 bytes, and then means one edge without a time.
  static constexpr std::uint64_t kNoPause = ~std::uint64_t{0};

  // Compares numbers of signalled requests, which wrap around.
  static bool IsBefore(std::uint64_t a, std::uint64_t b) {
    const std::uint64_t ahead = (b - a) & kIndexMask;
    return ahead != 0 && ahead <= kIndexMask / 2;
  }

  [[gnu::noinline, gnu::cold]] void NoteStart() {
    started_at_.store(ReadTicks(), std::memory_order_relaxed);
    idle_at_.store(kNoPause, std::memory_order_release);
  }

  // A word has the bytes in its upper bits and the number of signalled requests below. When that
  // number overflows, one byte too many counts as posted and as completed.
  static constexpr int kIndexBits = 24;
  static constexpr std::uint64_t kIndexMask = (std::uint64_t{1} << kIndexBits) - 1;
  static constexpr std::uint64_t kByteMask = (std::uint64_t{1} << (64 - kIndexBits)) - 1;

  // Twice the requests that can be in flight, as a completion may be counted late.
  static std::size_t RingSize(std::uint32_t max_requests) {
    std::size_t size = 2;
    while (size < std::size_t{2} * max_requests && size < (std::size_t{1} << kIndexBits)) size *= 2;
    return size;
  }

  std::atomic<std::uint64_t> posted_{0};
  const std::size_t mask_;
  const std::unique_ptr<std::atomic<std::uint64_t>[]> ring_;
  std::atomic<std::uint64_t> idle_at_{0};  // the position at which a pause is; else kNoPause
  std::atomic<std::uint64_t> completions_{0};
  std::atomic<std::uint64_t> posted_seen_{0};  // posted_ when a completion last needed it
  std::atomic<std::uint64_t> emptied_at_{0};
  std::atomic<std::uint64_t> started_at_{0};
  std::atomic<bool> failed_{false};
};

}  // namespace espalier::shim
