#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "common/fabric/paths.h"
#include "common/fabric/topology.h"
#include "controller/routing/fabric/fabric_view.h"

namespace espalier::controller {

// The fabric as another thread sees it, which computes something long. The owner of the original
// only takes over the states of links, while that thread computes nothing.
class FabricCopy {
 public:
  explicit FabricCopy(const fabric::Topology& original) : topology_(original) {}
  FabricCopy(const FabricCopy&) = delete;  // its members refer to each other
  FabricCopy& operator=(const FabricCopy&) = delete;

  // O(links). On the thread of the original.
  void TakeStates(const fabric::Topology& original) {
    for (std::size_t i = 0; i < original.links().size(); ++i) {
      const fabric::LinkId link(static_cast<std::int32_t>(i));
      topology_.SetLinkState(link, original.link(link).state);
    }
  }
  // On the computing thread, which builds it at its first call. O(links) afterwards.
  FabricView& View() {
    if (view_) {
      view_->Refresh();
    } else {
      paths_.emplace(topology_);
      view_.emplace(topology_, *paths_);
    }
    return *view_;
  }

 private:
  fabric::Topology topology_;
  std::optional<fabric::PathTable> paths_;
  std::optional<FabricView> view_;
};

}  // namespace espalier::controller
