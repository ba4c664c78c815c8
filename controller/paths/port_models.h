#pragma once

#include <compare>
#include <map>
#include <optional>
#include <set>

#include "common/fabric/linear_map.h"
#include "common/fabric/path_map.h"
#include "common/fabric/path_predictor.h"
#include "common/fabric/paths.h"

namespace espalier::controller {

// Predicts paths of ports that nobody has probed, from the best model there is for a pair of
// leaves: the hashes that the topology file names for the switches on the way, else a linear
// map recognised in what probes saw (CRC and XOR hashes with unknown seeds). A model that one
// probe contradicts is not used again for that pair until the fabric changes.
//
// Thread safety: the controller's loop thread. The references must outlive it.
class PortModels {
 public:
  PortModels(const fabric::Topology& topology, fabric::PathTable& paths,
             const fabric::PathMap& map);

  // None where no model knows.
  std::optional<fabric::PathIndex> Predict(const fabric::PortKey& key, std::uint16_t port);
  // The map has new verified ports of this key.
  void Learn(const fabric::PortKey& key);
  // More samples of this key may show that its hash is linear; one key a pair of leaves is
  // sampled for that.
  bool WantsSamples(const fabric::PortKey& key);
  // A probe contradicted a prediction for this key.
  void Distrust(const fabric::PortKey& key);
  // Nothing is known of this key any more.
  void Forget(const fabric::PortKey& key);
  // Next-hop sets have changed: linear maps may not hold any more, models may again.
  void HandleFabricChange();

 private:
  struct PairKey {
    fabric::NodeId source_leaf;
    fabric::NodeId destination_leaf;
    std::uint8_t protocol = 0;
    auto operator<=>(const PairKey&) const = default;
  };
  struct Pair {
    fabric::LinearPortMap::Verdict verdict = fabric::LinearPortMap::Verdict::kUndecided;
    std::optional<fabric::LinearPortMap> linear;
    std::optional<fabric::PortKey> sampled;
    bool catalogue_failed = false;
    std::map<fabric::PortKey, fabric::LinearPortMap> by_key;  // `linear` shifted to other keys
  };

  Pair* FindPair(const fabric::PortKey& key);
  std::vector<fabric::PortSample> Samples(const fabric::PortKey& key) const;
  std::size_t PathCount(const fabric::PortKey& key);
  std::optional<fabric::PathIndex> PredictByCatalogue(const fabric::PortKey& key,
                                                      std::uint16_t port);

  const fabric::Topology& topology_;
  fabric::PathTable& paths_;
  const fabric::PathMap& map_;
  std::optional<fabric::PathPredictor> catalogue_;  // none: a switch names an unknown hash
  std::map<PairKey, Pair> pairs_;
};

}  // namespace espalier::controller
