#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "agent/dpdk/flows/flow_index.h"
#include "agent/dpdk/flows/flow_key.h"
#include "agent/dpdk/flows/slot_numbers.h"

namespace espalier::dpdk {

// Data that come to one queue pair of the host, and how far they are.
struct alignas(64) ArrivalLine {
  FlowKey key;
  FlowKind kind = FlowKind::kRequests;  // of the packets that count
  std::atomic<std::uint64_t> next{0};   // PSN after the furthest packet
  std::atomic<std::uint64_t> bytes{0};  // payload of the packets that were looked at

  // Counts a packet. One core at a time: a flow's packets come to one.
  void Advance(std::uint32_t psn, std::uint32_t payload_bytes);
};
static_assert(sizeof(ArrivalLine) == 64);

// Finds out which data a stream of acknowledgements answers. Acknowledgements name the queue pair
// that sends the data, and data the one that receives them, so nothing in the packets connects the
// two but their PSNs.
//
// Every core that sees one of the acknowledgements compares it with how far each candidate is at
// that moment. Nobody acknowledges a packet before it has passed, so a candidate that has not come
// so far is none. Queue pairs of one program often have the same PSNs, but they are hardly ever
// equally far for long.
//
// A read request precedes its data, so a stream that is ahead of the request is not a match.
struct alignas(64) AckMatch {
  static constexpr std::uint32_t kMostCandidates = 32;
  // Maximum numbers of packets between data that pass and their acknowledgement, and of those that
  // are requested at once.
  static constexpr std::uint32_t kWindow = 1U << 16;
  static constexpr std::uint32_t kRequested = 1U << 22;

  FlowKey key;                             // of the acknowledgements, or of the requests
  FlowKind kind = FlowKind::kRequests;     // of the data
  std::atomic<std::uint32_t> possible{0};  // by candidate, a bit each
  std::atomic<std::uint32_t> seen{0};      // acknowledgements that were compared
  std::uint32_t count = 0;
  const std::atomic<std::uint64_t>* next[kMostCandidates] = {};  // PSN of each candidate

  // True if data that are so far may have been acknowledged with this PSN just now.
  static bool Fits(std::uint64_t next_psn, std::uint32_t psn, std::uint32_t window) {
    return ((next_psn - 1 - psn) & kPsnMask) < window;
  }
  // True if these packets of data may have been requested just now.
  static bool MayFollow(std::uint64_t next_psn, std::uint32_t psn) {
    return ((psn - next_psn) & kPsnMask) < kRequested;
  }
  // `answered`: the kind of the data that packets like this one acknowledge or request.
  void Compare(std::uint32_t psn, FlowKind answered);
};

// The streams whose two queue pairs are not known to belong together yet: arriving data, and
// acknowledgements with the data that they may answer. Part of DatapathFlowTable, which publishes
// it to the cores.
// Thread safety: lines and matches: the cores; everything else: the control thread.
class StreamTable {
 public:
  // Numbers of slots that cores may still see.
  struct Removed {
    std::vector<std::uint32_t> arrivals;
    std::vector<std::uint32_t> matches;
  };
  // What cores look streams up by.
  struct Index {
    FlowIndex arrivals{0};
    FlowIndex matches{0};
  };
  static constexpr std::uint32_t kMostMatches = 256;

  explicit StreamTable(std::uint32_t max_arrivals)
      : arrival_lines_(max_arrivals), arrivals_(max_arrivals), match_lines_(kMostMatches) {}

  // Add a stream that is not in the table; none if it is full.
  std::optional<std::uint32_t> AddArrival(const FlowKey& key, FlowKind kind, std::uint32_t psn);
  // Candidates: at most kMostCandidates, which live as long as the match.
  std::optional<std::uint32_t> AddMatch(const FlowKey& acknowledgements, FlowKind kind,
                                        std::span<const std::atomic<std::uint64_t>* const> next);
  void RemoveArrival(std::uint32_t slot) { arrivals_.Remove(slot); }
  void RemoveMatch(std::uint32_t slot) { matches_.Remove(slot); }

  const ArrivalLine& arrival(std::uint32_t slot) const { return arrival_lines_[slot]; }
  AckMatch& match(std::uint32_t slot) { return match_lines_[slot]; }

  Index MakeIndex() const;
  Removed TakeRemoved() { return {arrivals_.TakeRemoved(), matches_.TakeRemoved()}; }
  void Free(const Removed& removed);

  ArrivalLine* arrival_lines() { return arrival_lines_.data(); }
  AckMatch* match_lines() { return match_lines_.data(); }

 private:
  std::vector<ArrivalLine> arrival_lines_;
  SlotNumbers arrivals_;
  std::vector<AckMatch> match_lines_;
  SlotNumbers matches_{kMostMatches};
};

}  // namespace espalier::dpdk
