#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "common/base/time/event_loop.h"
#include "common/fabric/topology.h"

namespace espalier::controller {

// The part of the fabric in which source ports are thought to take other paths than before.
struct RehashScope {
  using LeafPair = std::pair<fabric::NodeId, fabric::NodeId>;  // source leaf, destination leaf

  bool fabric = false;               // all of it
  std::set<fabric::NodeId> sources;  // source leaves
  std::set<LeafPair> pairs;
  // What one host alone has seen, which counts for its own ports.
  struct HostPair {
    LeafPair pair;
    std::string host;
    auto operator<=>(const HostPair&) const = default;
  };
  std::set<HostPair> host_pairs;

  bool IsEmpty() const { return !fabric && sources.empty() && pairs.empty() && host_pairs.empty(); }
  bool Contains(fabric::NodeId source_leaf, fabric::NodeId destination_leaf) const {
    return fabric || sources.contains(source_leaf) ||
           pairs.contains({source_leaf, destination_leaf});
  }
  // Whether ports of this host on the source leaf are in it.
  bool ContainsHost(fabric::NodeId source_leaf, fabric::NodeId destination_leaf,
                    const std::string& host) const {
    return Contains(source_leaf, destination_leaf) ||
           host_pairs.contains({{source_leaf, destination_leaf}, host});
  }
};

struct RehashDetectorOptions {
  // How long mismatches of different pairs count together: the time in which every port in use is
  // verified.
  Duration window = std::chrono::minutes(5);
  // As many pairs of one source leaf show that its hash has changed; fewer if it has fewer pairs.
  std::size_t pairs = 3;
  // As many source leaves show that the whole fabric has changed: half of them in a fabric with
  // fewer than twice as many, but at least two.
  std::size_t sources = 3;
  // Minimum times between two results, and between two that name the same pair, the same source
  // leaf, or the fabric. What happens in between is put off.
  Duration interval = std::chrono::seconds(1);
  Duration pair_hold = std::chrono::seconds(10);
  Duration source_hold = std::chrono::minutes(1);
  Duration fabric_hold = std::chrono::minutes(1);
};

// Concludes from ports that take another path than probes saw before how much of the fabric has
// changed its hash: one pair of leaves, a switch, or all switches. Spines only forward downwards,
// so a leaf's hash decides the paths of the flows that it sends.
//
// A host may answer probes falsely. So a pair, and a switch, need the mismatches of two hosts of
// the source leaf, if it has two; what one has seen counts for its own ports alone.
//
// The result is bounded, whatever the fabric does: see the holds in RehashDetectorOptions.
// Memory: O(pairs of leaves with mismatches x hosts that saw them). Deterministic: all times are
// arguments. Thread safety: none.
class RehashDetector {
 public:
  // `leaves`: how many the fabric has.
  explicit RehashDetector(std::size_t leaves, const RehashDetectorOptions& options = {});

  // A verified port of this pair took another path, as this host of the source leaf has seen.
  // `voices_needed`: how many hosts must have seen it before it counts for all (LeafHosts).
  void HandleMismatch(fabric::NodeId source_leaf, fabric::NodeId destination_leaf,
                      const std::string& host, std::size_t voices_needed, TimePoint now);
  // What must be learned again now; empty if nothing is due. O(pairs with mismatches).
  RehashScope Take(TimePoint now);

 private:
  struct Voice {
    TimePoint mismatched = kNever;
    TimePoint taken = kNever;  // when it was last part of a result, alone or with others
  };
  struct Suspect {
    std::map<std::string, Voice> voices;  // by host
    std::size_t voices_needed = 1;
    TimePoint mismatched = kNever;
    TimePoint taken = kNever;  // when the pair was last part of a result
    bool is_due = false;       // it has a mismatch since it or the voice was
  };
  static constexpr TimePoint kNever = TimePoint::min();

  static bool IsWithin(TimePoint since, Duration span, TimePoint now) {
    return since != kNever && now - since < span;
  }
  // Adds the hosts with a mismatch of this pair since then.
  void AddVoices(const Suspect& pair, TimePoint since, TimePoint now,
                 std::set<std::string>& hosts) const;
  // Adds the pair, which is due, or one host's part of it, unless that is held. False: it is held.
  bool TakePair(const RehashScope::LeafPair& leaves, Suspect& pair, TimePoint now,
                RehashScope& scope);
  std::set<fabric::NodeId> ChangedSources(TimePoint now) const;
  bool HasFabricChanged(TimePoint now) const;

  const RehashDetectorOptions options_;
  const std::size_t pairs_of_source_;
  const std::size_t sources_of_fabric_;
  std::map<RehashScope::LeafPair, Suspect> pairs_;
  std::map<fabric::NodeId, TimePoint> sources_taken_;
  TimePoint fabric_taken_ = kNever;
  TimePoint taken_ = kNever;
  bool is_due_ = false;  // for some pair
};

}  // namespace espalier::controller
