#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "common/fabric/ecmp/linear_map.h"
#include "common/fabric/ecmp/path_map.h"

namespace espalier::controller {

// Predicts the return paths of TCP's source ports between two leaves by their linear hash, which it
// recognises in what probes from far ends have shown.
//
// What comes back to a source port has it as its destination port. A linear hash is linear in each
// field, so the return paths of the ports of one key are a linear map, though not that of the data
// (LinearPortMap). Keys of the same leaves differ by a constant, which one answered probe tells. So
// the few ports that are probed for each key are taken together for all of them, and no probe is
// sent to recognise the hash.
//
// Pitfall: a port that a key has not shown is only as sure as the hash is constant. Ports in use
// are probed all the same, and one that comes back elsewhere ends the predictions. Thread safety:
// the controller's loop thread.
class LinearReturns {
 public:
  // A probe has shown over which of so many paths acknowledgements come back to a port. Tries to
  // recognise the hash with every kStep samples: O(samples).
  void Add(const fabric::PortKey& key, fabric::PortSample seen, std::size_t path_count);
  // None if no hash is recognised, or nothing was seen of this key. O(log keys).
  std::optional<fabric::PathIndex> Predict(const fabric::PortKey& key, std::uint16_t port) const;
  void Forget(const fabric::PortKey& key);

  static constexpr std::size_t kStep = 8;
  // With this many samples, a hash that is not recognised counts as not linear.
  static constexpr std::size_t kMostSamples = 512;

 private:
  // The samples of all keys, as if they were of one.
  std::vector<fabric::PortSample> AsOneKey() const;
  void Recognise(std::size_t path_count);
  // No hash is recognised any more.
  void GiveUp();

  bool has_given_up_ = false;
  std::size_t sample_count_ = 0;
  std::map<fabric::PortKey, std::vector<fabric::PortSample>> samples_;  // until it is recognised
  std::optional<fabric::LinearPortMap> map_;
  std::map<fabric::PortKey, fabric::LinearPortMap> by_key_;  // `map_` shifted to each key
};

}  // namespace espalier::controller
