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

// The device's own functions, which the observer's functions replace and call.
struct ObservedDevice {
  ChainLink<ObservedDevice> link;
  std::uint32_t number = 0;
  decltype(ibv_context_ops::post_send) post_send = nullptr;
  decltype(ibv_context_ops::poll_cq) poll_cq = nullptr;
  decltype(verbs_context::create_cq_ex) create_cq_ex = nullptr;
};

// A queue pair whose traffic is counted. Its first cache line holds what a post needs, the second
// what a completion needs.
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

// Requests that the program has begun and not given to the device yet; nearly always one.
class BegunRequests {
 public:
  // `takes_bytes`: bytes that are added next count, as this host sends them.
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
  // Notes that a request has begun which is not counted.
  void AddUncounted() { takes_bytes_ = false; }
  // Adds bytes to the request that was begun last, if it takes bytes.
  void AddBytes(std::uint64_t bytes) {
    if (takes_bytes_ && count_ != 0) (count_ == 1 ? first_ : others_->back()).bytes += bytes;
  }
  // Returns the request if there is exactly one; else null.
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
  // Does not count the request if there is no memory for it.
  void AddFurther(const SendRequest& request);

  SendRequest first_;
  std::unique_ptr<std::vector<SendRequest>> others_;
  std::uint32_t count_ = 0;
  bool takes_bytes_ = false;
};

// A queue pair to which the program posts by ibv_wr_*. The device lets one thread at a time do so.
// It fits one cache line: with many pairs in turn, the cost of a post is the lines that it reads.
struct alignas(64) ExtendedPair {
  ChainLink<ExtendedPair> link;
  const ibv_qp_ex* original = nullptr;  // the device's functions, shared by pairs with the same
  ObservedPair* counted = nullptr;      // null: it is not connected
  BegunRequests begun;
};
static_assert(sizeof(ExtendedPair) == 64);

// A completion queue that the program polls by ibv_start_poll and ibv_next_poll.
struct ExtendedQueue {
  ChainLink<ExtendedQueue> link;
  std::uint32_t device_number = 0;
  decltype(ibv_cq_ex::start_poll) start_poll = nullptr;
  decltype(ibv_cq_ex::next_poll) next_poll = nullptr;
};

// Counts the send requests that a program posts and completes. Programs post and poll through
// inline functions, which call function pointers in the context, the queue pair and the completion
// queue. The observer replaces these pointers by functions of its own, which call the device's and
// count. They take no lock and make no system call.
//
// Such a function finds its data only by the address of the object that it gets. So there is one
// observer in a process, which is never destroyed. The Watch functions throw std::bad_alloc, and
// then change nothing; the others do not throw.
// Thread safety: any thread may call any function.
class Observer {
 public:
  static Observer& OfThisProcess();

  // Observes the device; no effect if it is observed already.
  void Watch(ibv_context& context);
  void Forget(ibv_context& context);
  // Counts the traffic of the pair. `description` is what its device reports. The program must not
  // have posted to the pair yet.
  ObservedPair& Watch(ibv_qp& pair, const ibv_qp_init_attr& description);
  // Ignores a pair that is not watched.
  void Forget(ibv_qp& pair);
  // Replaces the functions of a pair, whether its traffic is counted or not: from when the program
  // asks for them until ForgetExtended.
  void WatchExtended(ibv_qp_ex& pair);
  void ForgetExtended(ibv_qp& pair);
  void Watch(ibv_cq_ex& queue);
  void Forget(ibv_cq& queue);
  // To be held while the process forks, so that it is free in the child.
  std::mutex& mutex() { return mutex_; }
  // Destroys objects that were forgotten so many calls ago that no thread can still read them.
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
    // If there is no memory for the note, the object is leaked, as another thread may read it.
    if (!Attempt([&] { retired.emplace_back(); })) return;
    retired.back() = {std::unique_ptr<T>(&object), turn_};
  }

  std::mutex mutex_;  // guards all members below, except for look-ups
  ChainTable<ObservedDevice, &ObservedDevice::link> devices_;
  ChainTable<ObservedPair, &ObservedPair::by_address> pairs_;
  ChainTable<ObservedPair, &ObservedPair::by_number> numbers_;
  ChainTable<ExtendedPair, &ExtendedPair::link> extended_pairs_;
  ChainTable<ExtendedQueue, &ExtendedQueue::link> extended_queues_;
  std::vector<std::unique_ptr<const ibv_qp_ex>> functions_;  // the devices' own, each set once
  std::uint64_t turn_ = 0;
  std::uint32_t last_device_ = 0;
  std::vector<Forgotten<ObservedDevice>> old_devices_;
  std::vector<Forgotten<ObservedPair>> old_pairs_;
  std::vector<Forgotten<ExtendedPair>> old_extended_pairs_;
  std::vector<Forgotten<ExtendedQueue>> old_queues_;
};

}  // namespace espalier::shim
