#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "controller/routing/assignment.h"
#include "controller/routing/online_assigner.h"

namespace espalier::offline {

// Rotation of paths on a 2-tier Clos: where flows of one path share a link of a leaf although
// others have one alone, they change places in time, so that each is slow for a part of the time
// only.
//
// An exchange (ExchangeSpines) is one of the flow on the shared link that is furthest behind and
// the leaf's flow that is furthest ahead. An exchange after which more links would be shared is not
// made. The controller chooses by jobs instead (controller/placement/rotation.h).
// Thread safety: one thread. The view must outlive it.
class PathRotation {
 public:
  // Flows of one subflow and their paths (kNoPath: within one leaf).
  PathRotation(controller::FabricView& view, std::span<const controller::Commodity> flows,
               std::span<const std::int32_t> paths);

  // The flow has ended.
  void End(std::uint32_t flow);
  // Makes one exchange for each link of a leaf that is shared, by how much each flow has sent.
  // Returns the flows whose path has changed, ascending.
  std::vector<std::uint32_t> Exchange(std::span<const double> sent);
  std::int32_t PathOf(std::uint32_t flow) const;

 private:
  struct Shared {
    std::uint32_t leaf = 0;
    std::uint32_t link = 0;  // directed
    bool leaves_it = false;
  };
  bool IsShared(std::uint32_t link) const;
  std::size_t CountShared() const;
  std::vector<Shared> ListShared() const;
  bool IsOf(std::uint32_t flow, const Shared& shared) const;
  void ExchangeOn(const Shared& shared, std::span<const double> sent);
  bool Swap(std::uint32_t behind, std::uint32_t ahead, const Shared& side);
  std::vector<std::int32_t> Paths() const;

  controller::FabricView& view_;
  controller::OnlineAssigner assigner_;
  std::vector<controller::Commodity> flows_;
  std::vector<std::optional<controller::SubflowId>> ids_;  // by flow; none: local, or ended
};

}  // namespace espalier::offline
