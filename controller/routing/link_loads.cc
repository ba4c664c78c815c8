#include "controller/routing/link_loads.h"

#include <algorithm>

#include "common/base/check.h"

namespace espalier::controller {

std::int32_t LinkLoads::Busiest(const fabric::Path& path) const {
  std::int32_t busiest = 0;
  for (const fabric::DirectedLink hop : path.hops) busiest = std::max(busiest, Flows(hop));
  return busiest;
}

std::int32_t LinkLoads::Max() const {
  return flows_.empty() ? 0 : *std::max_element(flows_.begin(), flows_.end());
}

void LinkLoads::Change(const fabric::Path& path, std::int32_t by) {
  for (const fabric::DirectedLink hop : path.hops) {
    std::int32_t& flows = flows_[hop.Index()];
    flows += by;
    ESPALIER_CHECK(flows >= 0, "link={} flows={}", hop.link.value(), flows);
  }
}

}  // namespace espalier::controller
