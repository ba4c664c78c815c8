#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "common/base/result.h"
#include "common/fabric/ecmp/ecmp_hash.h"
#include "common/fabric/ecmp/path_map.h"
#include "common/fabric/paths.h"
#include "common/fabric/topology.h"

namespace espalier::fabric {

// Predicts the path of a packet from the hash models that the topology gives for its switches. The
// path map takes its predictions for known hashes from here.
//
// At each switch the members are its links to the next hops on shortest paths to the destination's
// switch, in the order of the topology file, each as many times as its weight, without those that
// are DOWN. A switch sees the state of its own links only, and a DRAINED link still carries
// traffic.
//
// Idea: many ports are tried for the same two hosts. So the choices of all switches between two
// leaves are kept as a tree, from which a packet's path follows by one hash for each switch that
// chooses, whatever the number of paths. A linear hash of a port is that of another one and a
// difference that depends on the two ports only, which a table has.
// Thread safety: one thread (it fills the path table's cache and keeps the latest choices).
class PathPredictor {
 private:
  struct Choices;
  class ChoiceMaker;

 public:
  // `paths` must be built from `topology`, and both must outlive this; link states may change
  // between calls.
  // Errors: those of MakeEcmpHash, naming the switch.
  static Result<PathPredictor> Build(const Topology& topology, PathTable& paths);
  PathPredictor(PathPredictor&&) noexcept;
  ~PathPredictor();

  // The paths of packets that differ in their source port only.
  class Ports {
   public:
    // The path, among PathTable::Between of the two NICs' switches, of a source port. None if a
    // switch without a model must choose, or if all of a switch's links on the path are DOWN.
    // Complexity: O(switches that choose), of which each with a linear hash takes some 4 ns for a
    // RoCEv2 source port (at least kFirstRocePort), others 30 (BM_PredictAllPorts).
    std::optional<PathIndex> Predict(std::uint16_t port) const;
    // Whether packets of this source port come to a switch all of whose links on the path are DOWN.
    bool LeadsToDeadEnd(std::uint16_t port) const;

   private:
    friend class PathPredictor;
    // Where the choices of all switches lead.
    std::int32_t Follow(std::uint16_t port) const;

    const Choices* choices_ = nullptr;
    FlowTuple tuple_;
    std::vector<std::uint32_t> first_values_;  // of linear hashes: by choice, for the first port
  };
  // Valid until the next call, and until a link's state changes; none if no path can be predicted,
  // or if a NIC has no switch. Complexity: O(switches that choose) if the NICs' switches are those
  // of the last call and no link has changed, else O(paths x hops) and some sorting.
  std::optional<Ports> PortsOf(const FlowTuple& tuple, NodeId source_nic, NodeId destination_nic);

  // The path of one packet, as Ports::Predict.
  std::optional<PathIndex> Predict(const FlowTuple& tuple, NodeId source_nic,
                                   NodeId destination_nic);

 private:
  // By how much the value of a linear hash differs from that of the first RoCEv2 port: the
  // exclusive or of one part for the high and one for the low bits of the port.
  struct Differences {
    std::array<std::uint32_t, 128> high{};
    std::array<std::uint32_t, 128> low{};
  };
  struct Switch {
    std::unique_ptr<EcmpHash> hash;  // null if it has no model
    // By the lengths of the hashed fields (LayoutOf), made when needed; null if not linear.
    std::array<std::unique_ptr<Differences>, 4> differences;
  };
  // Where a choice leads to: the next choice, or a path that is then the only one left, or neither.
  static constexpr std::int32_t kUnknown = -1;  // a switch without a model must choose
  static constexpr std::int32_t kDeadEnd = -2;
  struct Target {
    std::int32_t choice = -1;
    std::int32_t path = kUnknown;
  };

  PathPredictor(const Topology& topology, PathTable& paths);

  const Choices& ChoicesBetween(NodeId source_leaf, NodeId destination_leaf);
  const Differences* DifferencesOf(Switch& node, FlowTuple tuple);

  const Topology& topology_;
  PathTable& paths_;
  std::vector<Switch> switches_;      // by node
  std::unique_ptr<Choices> choices_;  // of the latest call of ChoicesBetween
};

}  // namespace espalier::fabric
