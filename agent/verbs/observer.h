#pragma once

#include <infiniband/verbs.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "agent/verbs/attempt.h"
#include "agent/verbs/chain_table.h"
#include "agent/verbs/traffic_count.h"

namespace espalier::shim {

// The device's own functions, behind those that we put in their place.
struct ObservedDevice {
  ChainLink<ObservedDevice> link;
  std::uint32_t number = 0;
  decltype(ibv_context_ops::post_send) post_send = nullptr;
  decltype(ibv_context_ops::poll_cq) poll_cq = nullptr;
  decltype(verbs_context::create_cq_ex) create_cq_ex = nullptr;
};

// A queue pair whose traffic is counted. The first cache line is what a post needs, the second what
// a completion does.
struct alignas(64) ObservedPair {
  ObservedPair(const ObservedDevice& of, std::uint32_t max_requests, bool signals_all)
      : post_send(of.post_send), all_signalled(signals_all), count(max_requests) {}

  ChainLink<ObservedPair> by_address;
  const decltype(ibv_context_ops::post_send) post_send;
  const bool all_signalled;
  TrafficCount count;
  ChainLink<ObservedPair> by_number;
};
static_assert(sizeof(ObservedPair) == 128);

// Requests that were begun and not yet given to the device; nearly always one.
class BegunRequests {
 public:
  // `takes_bytes`: those that are added next leave from here.
  void Add(const SendRequest& request, bool takes_bytes) {
    takes_bytes_ = takes_bytes;
    if (count_ == 0) [[likely]] {
      count_ = 1;
      first_.bytes = request.bytes;
      first_.signalled = request.signalled;
      return;
    }
    AddFurther(request);
  }
  // One that is not counted was begun.
  void AddUncounted() { takes_bytes_ = false; }
  // To the one that was begun last, if it takes any.
  void AddBytes(std::uint64_t bytes) {
    if (takes_bytes_ && count_ != 0) (count_ == 1 ? first_ : others_->back()).bytes += bytes;
  }
  // The one, where there is no other.
  const SendRequest* Only() const { return count_ == 1 ? &first_ : nullptr; }
  void Clear() {
    if (count_ > 1) others_->clear();
    count_ = 0;
  }
  template <typename Work>
  void ForEach(Work&& work) {
    if (count_ == 0) return;
    work(first_);
    if (count_ == 1) return;
    for (SendRequest& request : *others_) work(request);
  }

 private:
  // One for which there is no memory is not counted.
  void AddFurther(const SendRequest& request);

  SendRequest first_;
  std::unique_ptr<std::vector<SendRequest>> others_;
  std::uint32_t count_ = 0;
  bool takes_bytes_ = false;
};

// A queue pair that is posted to by ibv_wr_*. The device lets one thread at a time do so. One cache
// line: with many pairs in turn, what a post costs is the lines that it looks at.
struct alignas(64) ExtendedPair {
  ChainLink<ExtendedPair> link;
  const ibv_qp_ex* original = nullptr;  // its functions; all pairs with the same share them
  ObservedPair* counted = nullptr;      // null: it is not connected
  BegunRequests begun;
};
static_assert(sizeof(ExtendedPair) == 64);

// A completion queue that is polled by ibv_start_poll and ibv_next_poll.
struct ExtendedQueue {
  ChainLink<ExtendedQueue> link;
  std::uint32_t device_number = 0;
  decltype(ibv_cq_ex::start_poll) start_poll = nullptr;
  decltype(ibv_cq_ex::next_poll) next_poll = nullptr;
};

// Counts what a program posts and completes. Programs do that through inline functions that call
// what the context, the queue pair and the completion queue point to: the observer puts functions
// of its own there, which call the device's and count. They take no lock and make no system call.
//
// Such functions get nothing of ours but what they look up by the object's address. So there is
// one observer in a process, for ever. The functions that watch throw std::bad_alloc, and have
// changed nothing then; the others do not throw.
// Thread safety: all of it, any thread.
class Observer {
 public:
  static Observer& OfThisProcess();

  // From now on this device is observed. Again: nothing.
  void Watch(ibv_context& context);
  void Forget(ibv_context& context);
  // The pair's description is what its device says. The pair must not be posted to yet.
  ObservedPair& Watch(ibv_qp& pair, const ibv_qp_init_attr& description);
  // Also one that is not watched.
  void Forget(ibv_qp& pair);
  // Whether its traffic is counted or not, from when the program asks for its functions until it
  // is destroyed.
  void WatchExtended(ibv_qp_ex& pair);
  void ForgetExtended(ibv_qp& pair);
  void Watch(ibv_cq_ex& queue);
  void Forget(ibv_cq& queue);
  // Held while the process forks, so that the child finds it free.
  std::mutex& mutex() { return mutex_; }
  // Ends what was forgotten so many calls ago that nobody can be looking at it.
  void EndForgotten();

 private:
  friend struct Hooks;
  template <typename T>
  struct Forgotten {
    std::unique_ptr<T> object;
    std::uint64_t at = 0;
  };

  constexpr Observer() = default;
  ObservedDevice& Device(ibv_context& context);
  const ibv_qp_ex& FunctionsOf(const ibv_qp_ex& pair);
  template <typename T>
  void Retire(std::vector<Forgotten<T>>& retired, T& object) {
    // Without memory for it, it stays for ever: somebody may be looking at it.
    if (!Attempt([&] { retired.emplace_back(); })) return;
    retired.back() = {std::unique_ptr<T>(&object), turn_};
  }

  std::mutex mutex_;  // of all below, but for look-ups
  ChainTable<ObservedDevice, &ObservedDevice::link> devices_;
  ChainTable<ObservedPair, &ObservedPair::by_address> pairs_;
  ChainTable<ObservedPair, &ObservedPair::by_number> numbers_;
  ChainTable<ExtendedPair, &ExtendedPair::link> extended_pairs_;
  ChainTable<ExtendedQueue, &ExtendedQueue::link> extended_queues_;
  std::vector<std::unique_ptr<const ibv_qp_ex>> functions_;  // as devices gave them
  std::uint64_t turn_ = 0;
  std::uint32_t last_device_ = 0;
  std::vector<Forgotten<ObservedDevice>> old_devices_;
  std::vector<Forgotten<ObservedPair>> old_pairs_;
  std::vector<Forgotten<ExtendedPair>> old_extended_pairs_;
  std::vector<Forgotten<ExtendedQueue>> old_queues_;
};

}  // namespace espalier::shim
