#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/base/time/event_loop.h"
#include "common/fabric/topology.h"
#include "controller/telemetry/packet_key.h"

namespace espalier::telemetry {

// The flows of which packets were sampled in the last three to six seconds, and the links that
// carried them.
//
// Memory: some 500 bytes for each of `most_flows` flows, twice that while windows change; further
// ones are counted and left out until earlier ones have ended. Complexity: O(1) for a sample,
// O(most_flows) each three seconds. Thread safety: none.
class SampledFlows {
 public:
  static constexpr Duration kWindow = std::chrono::seconds(3);
  static constexpr std::size_t kMostLinks = 6;  // of a flow; a path has fewer

  SampledFlows(std::size_t most_flows, std::uint64_t seed);

  // `weight`: how many packets the sample stands for.
  void Add(const SampledPacket& packet, fabric::DirectedLink link, double weight, TimePoint now);
  // Forgets what is older than two windows. To be called at least once a second.
  void Tick(TimePoint now);

  struct OnLink {
    fabric::DirectedLink link;
    std::uint32_t samples = 0;
    double bytes = 0;          // that the samples stand for
    double squared_bytes = 0;  // the sum of the squares of what each stands for
  };
  struct Flow {
    PacketKey key;
    std::vector<OnLink> links;  // most samples first
    double bps = 0;             // on the link with most samples
    double error = 0;  // relative, 95 % confidence; 1 or more: only that it exists is known
  };
  // The flows with at least this many samples on some link, the fastest first. O(flows log flows).
  std::vector<Flow> Top(std::size_t most, std::uint32_t least_samples, TimePoint now) const;

  // The time in which the packets were sampled that Top counts.
  Duration WindowAt(TimePoint now) const { return now - first_; }
  std::size_t size() const { return used_; }
  std::uint64_t left_out() const { return left_out_; }  // samples of flows without room

 private:
  struct Counts {
    std::uint32_t link = 0;  // DirectedLink::Index
    std::uint32_t samples = 0;
    float bytes = 0;
    float squared_bytes = 0;
  };
  struct Slot {
    PacketKey key;
    bool is_used = false;
    // Of the present window and of the one before; entries without samples are free.
    std::array<std::array<Counts, kMostLinks>, 2> counts{};
  };

  Slot* Find(const PacketKey& key);
  void Rotate();

  const std::size_t most_flows_;
  const std::uint64_t seed_;
  std::vector<Slot> slots_;  // open addressing, linear probing; a power of two
  std::size_t used_ = 0;
  std::size_t current_ = 0;  // which of Slot::counts is the present window
  TimePoint window_start_{};
  TimePoint first_{};  // of the window before
  bool has_started_ = false;
  std::uint64_t left_out_ = 0;
};

}  // namespace espalier::telemetry
