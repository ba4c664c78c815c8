#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "agent/dpdk/stream_matcher.h"

namespace espalier::dpdk {

// Incoming data whose acknowledgement stream is not yet known.
//
// Cores inspect all data that arrive only while there is something to find: for kLook at a time and
// then not for kRest. Only elephants count: a stream that brings fewer than kEnough bytes within
// kLook, or pauses for kIdle before, is forgotten.
//
// Peers control the number of entries, so the table is bounded and drops new ones when full.
// Thread safety: one thread. Complexity: linear in the arrivals.
class Arrivals {
 public:
  static constexpr std::uint64_t kEnough = 1 << 20;  // bytes of an elephant
  static constexpr Duration kIdle = std::chrono::seconds(1);
  static constexpr Duration kLook = std::chrono::seconds(5);
  static constexpr Duration kRest = std::chrono::seconds(30);

  Arrivals(StreamTable& table, StreamMatcher& matcher) : table_(table), matcher_(matcher) {}

  // The first packet of data to a queue pair that cores do not know.
  void Handle(const FlowEvent& event, TimePoint now);
  // An acknowledgement that leaves. Begins a match if it fits data that have arrived.
  void HandleAnswer(const FlowEvent& event, TimePoint now);
  // The acknowledgements of these data are known, by whatever means, until Forget.
  void SetKnown(const FlowKey& data);
  void Forget(const FlowKey& data);

  void Tick(TimePoint now);
  // Whether there is something to find out.
  bool IsLooking() const { return looking_since_.has_value(); }
  // Whether so many bytes have arrived that their acknowledgements are worth a flow.
  bool HasEnough(const FlowKey& data) const;
  bool Has(const FlowKey& data) const { return arrivals_.contains(data); }

  std::size_t size() const { return arrivals_.size(); }
  bool TakeChanged() { return std::exchange(changed_, false); }

 private:
  enum class State : std::uint8_t { kLookedAt, kRests, kKnown };
  struct Arrival {
    std::uint32_t slot = 0;
    State state = State::kLookedAt;
    std::uint64_t bytes = 0;
    TimePoint since;        // in this state
    TimePoint progress_at;  // last seen
  };
  using Map = std::unordered_map<FlowKey, Arrival, FlowKeyHash>;

  Map::iterator Remove(Map::iterator arrival);
  std::uint64_t BytesOf(const Arrival& arrival) const {
    return table_.arrival(arrival.slot).bytes.load(std::memory_order_relaxed);
  }
  // Returns whether the arrival remains.
  bool Update(const FlowKey& data, Arrival& arrival, TimePoint now);

  StreamTable& table_;
  StreamMatcher& matcher_;
  Map arrivals_;
  std::unordered_set<FlowKey, FlowKeyHash> known_;
  std::optional<TimePoint> looking_since_;
  bool changed_ = false;
};

}  // namespace espalier::dpdk
