#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/fabric/paths.h"

namespace espalier::controller {

// How many flows are assigned to each direction of each switch-to-switch link: L(e) of
// Algorithm 1 (Routing for Large ML Models, section 3.4.1).
// Thread safety: a value.
class LinkLoads {
 public:
  explicit LinkLoads(std::size_t link_count) : flows_(2 * link_count) {}

  void Add(const fabric::Path& path) { Change(path, 1); }
  // The path must have been added before.
  void Remove(const fabric::Path& path) { Change(path, -1); }

  std::int32_t Flows(fabric::DirectedLink link) const { return flows_[link.Index()]; }
  // The load of the busiest hop of a path; 0 for a path without hops.
  std::int32_t Busiest(const fabric::Path& path) const;
  // The load of the busiest direction of all.
  std::int32_t Max() const;

 private:
  void Change(const fabric::Path& path, std::int32_t by);

  std::vector<std::int32_t> flows_;  // by DirectedLink::Index
};

}  // namespace espalier::controller
