#pragma once

#include <compare>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "common/fabric/ecmp/linear_map.h"
#include "common/fabric/ecmp/path_map.h"
#include "common/fabric/ecmp/path_predictor.h"
#include "common/fabric/paths.h"
#include "controller/paths/models/leaf_hosts.h"
#include "controller/paths/models/linear_returns.h"
#include "controller/paths/models/rehash_detector.h"

namespace espalier::controller {

// Predicts the paths of ports that were not probed, by the best hash model for a pair of leaves.
// This is the hashes that the topology file names for the switches on the path, else a linear hash
// recognised in probe results (CRC and XOR hashes with unknown seeds).
//
// A model that a probe contradicts is not used again, until the fabric changes, for ports of the
// host that sent the probe. It is dropped for all hosts of the pair's source leaf if a second one
// of them contradicts it, or if the leaf has one host alone. So a host that answers falsely harms
// its own ports, and a wrong model costs each host one of its ports until two have noticed.
//
// Thread safety: the controller's loop thread. The references must outlive it.
class PortModels {
 public:
  PortModels(const fabric::Topology& topology, fabric::PathTable& paths,
             const fabric::PathMap& map);

  // The model of one key, for many ports. Valid until the next call of a function of PortModels
  // that may change something, and until the fabric changes.
  class KeyModel {
   public:
    // Another one for another model of the key; not 0.
    std::uint64_t version() const { return version_; }
    // None if the model does not cover the port.
    std::optional<fabric::PathIndex> Predict(std::uint16_t port) const;

   private:
    friend class PortModels;
    std::uint64_t version_ = 0;
    std::optional<fabric::PathPredictor::Ports> catalogue;
    const fabric::LinearPortMap* linear = nullptr;  // may be null
  };
  // None if no model covers the key.
  std::optional<KeyModel> ModelOf(const fabric::PortKey& key);
  // The path of what a TCP connection's far end sends back to this source port, among the paths of
  // the opposite direction; none unless the topology file names the hashes on the way, or a linear
  // one was recognised (LinearReturns).
  struct Return {
    std::optional<fabric::PathIndex> path;
    bool is_lost = false;     // it comes to a switch all of whose links on the path are DOWN
    bool is_learned = false;  // by a hash that was recognised
  };
  Return PredictReturn(const fabric::PortKey& key, std::uint16_t port);
  // A probe of this key, from this port, took that path. If the port is a listener's, that is what
  // comes back to the source port to which it was addressed.
  void LearnReturn(const fabric::PortKey& back, std::uint16_t port, fabric::PathIndex path);
  // Tries to recognise a linear hash, after the map has got new verified ports of this key. To be
  // called when no probe of the key is under way. Not while so many ports are silent that a path
  // without a known port could have them (path_reach.h).
  void Learn(const fabric::PortKey& key);
  // Whether more samples of this key may show that its hash is linear. One key per pair of leaves
  // is sampled.
  bool WantsSamples(const fabric::PortKey& key);
  // A probe of this key has contradicted a prediction: discards the models for its host, or for its
  // pair of leaves if that is the second host.
  void Distrust(const fabric::PortKey& key);
  // Forgets the key.
  void Forget(const fabric::PortKey& key);
  // Discards what was learned after next-hop sets have changed: linear hashes may no longer hold,
  // and contradicted models may hold again.
  void HandleFabricChange();
  // Discards the models of this part of the fabric, whose hash has changed. The hashes that the
  // topology file names are not used for it until the fabric changes; linear ones are learned
  // again. What one host alone has seen discards them for its own ports.
  void HandleRehash(const RehashScope& scope);

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
    std::set<std::string> distrusted_by;  // hosts whose probes have contradicted a model
    std::uint64_t version = 0;            // of `versions_`, as the models have changed
    std::map<fabric::PortKey, fabric::LinearPortMap> by_key;  // `linear` shifted to other keys
    LinearReturns returns;  // of connections in the opposite direction
  };

  Pair* FindPair(const fabric::PortKey& key);
  bool IsDistrusted(const Pair& pair, const fabric::PortKey& key) const;
  void Drop(Pair& pair);
  std::vector<fabric::PortSample> Samples(const fabric::PortKey& key) const;
  bool ShowAllPaths(const fabric::PortKey& key, std::span<const fabric::PortSample> samples,
                    std::size_t path_count) const;
  std::size_t PathCount(const fabric::PortKey& key);
  // The catalogue's model of the key, unless a probe has contradicted it.
  std::optional<fabric::PathPredictor::Ports> CatalogueOf(const Pair& pair,
                                                          const fabric::PortKey& key);
  // The linear hash of the key; null if none is known.
  const fabric::LinearPortMap* LinearOf(Pair& pair, const fabric::PortKey& key) const;

  const fabric::Topology& topology_;
  fabric::PathTable& paths_;
  const fabric::PathMap& map_;
  LeafHosts hosts_;
  std::optional<fabric::PathPredictor> catalogue_;  // none if a switch names an unknown hash
  std::map<PairKey, Pair> pairs_;
  std::uint64_t versions_ = 0;
  RehashScope rehashed_;  // since the fabric changed
};

}  // namespace espalier::controller
