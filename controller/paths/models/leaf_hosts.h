#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <string>

#include "common/fabric/paths.h"
#include "common/fabric/topology.h"

namespace espalier::controller {

// How many hosts must have seen the same before it counts for all hosts of a leaf: two, as one may
// lie, but one if the leaf has no other.
// Complexity: O(nodes) for the first call, then O(log leaves). Thread safety: one thread.
class LeafHosts {
 public:
  LeafHosts(const fabric::Topology& topology, fabric::PathTable& paths)
      : topology_(topology), paths_(paths) {}

  std::size_t VoicesNeeded(fabric::NodeId leaf) {
    if (hosts_.empty()) Count();
    return std::clamp<std::size_t>(hosts_[leaf].size(), 1, kVoices);
  }

 private:
  static constexpr std::size_t kVoices = 2;

  void Count() {
    for (std::size_t i = 0; i < topology_.nodes().size(); ++i) {
      const fabric::NodeId node(static_cast<std::int32_t>(i));
      const auto at = paths_.FindAttachment(node);
      if (at) hosts_[at->leaf].insert(fabric::HostOf(topology_.node(node)));
    }
  }

  const fabric::Topology& topology_;
  fabric::PathTable& paths_;
  std::map<fabric::NodeId, std::set<std::string>> hosts_;
};

}  // namespace espalier::controller
