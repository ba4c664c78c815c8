#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "agent/dpdk/flows/packet_steering.h"
#include "agent/dpdk/flows/stream_table.h"
#include "common/base/time/event_loop.h"

namespace espalier::dpdk {

// Returns whether both keys have the same source and the same destination.
bool AreSameHosts(const FlowKey& a, const FlowKey& b);

// The control thread's half of AckMatch: begins the comparisons that cores make, and tells which
// data a stream of acknowledgements answers when one candidate is left.
//
// A match is as good as its candidates: if the right one is missing, a wrong one may be left. So
// all data between two hosts that may be answered have to be candidates, and a match ends when
// there are others. Matches that are not decided after kLongest, or without acknowledgements for
// kUnused at first, end as well; they may begin again.
//
// Thread safety: one thread. Complexity: linear in the matches, of which there are
// StreamTable::kMostMatches at most.
class StreamMatcher {
 public:
  // How long cores must have looked at a candidate before, and how long they compare at least.
  static constexpr Duration kSettle = std::chrono::milliseconds(20);
  static constexpr Duration kLongest = std::chrono::seconds(5);
  static constexpr Duration kUnused = std::chrono::milliseconds(250);
  static constexpr std::uint32_t kLeastSeen = 8;
  // Maximum number of packets that pass until the control thread handles an acknowledgement.
  static constexpr std::uint32_t kMayFit = 1U << 18;

  struct Candidate {
    FlowKey data;
    const std::atomic<std::uint64_t>* next;  // valid until End
  };
  struct Found {
    FlowKey data;
    FlowKey acknowledgements;
    std::uint16_t own_port = 0;  // of the acknowledgements
    std::uint8_t vlan_tags = 0;
  };

  explicit StreamMatcher(StreamTable& table) : table_(table) {}

  bool Has(const FlowKey& acknowledgements) const { return matches_.contains(acknowledgements); }
  // `first`: an acknowledgement of a stream that is not being matched. No effect without candidates
  // or with too many, and if there are too many matches. Its flow_kind is that of the data.
  void Begin(const FlowEvent& first, std::span<const Candidate> candidates, TimePoint now);
  // The data stream is no candidate any more, as its acknowledgements are known.
  void Exclude(const FlowKey& data);
  // Ends the matches of acknowledgements of data between these hosts.
  void EndBetween(const FlowKey& data);
  // Returns what has become known, once for each stream of data. `is_ready`: whether it may be told
  // of these data yet.
  std::vector<Found> TakeFound(TimePoint now,
                               const std::function<bool(const FlowKey& data)>& is_ready);

  // Whether the table must be published since the last call.
  bool TakeChanged() { return std::exchange(changed_, false); }
  std::size_t size() const { return matches_.size(); }

 private:
  struct Match {
    std::uint32_t slot = 0;
    TimePoint began;
    FlowEvent first;
    std::vector<FlowKey> data;  // by candidate
  };
  using Matches = std::unordered_map<FlowKey, Match, FlowKeyHash>;
  Matches::iterator End(Matches::iterator match);

  StreamTable& table_;
  Matches matches_;
  bool changed_ = false;
};

}  // namespace espalier::dpdk
