#include "controller/planning/shift_loads.h"

#include <algorithm>

namespace espalier::controller {

LinkOrSwitch ShiftLoads::FailureOf(std::uint32_t index) const {
  const std::size_t nodes = topology_.nodes().size();
  const auto id = static_cast<std::int32_t>(index < nodes ? index : index - nodes);
  return index < nodes ? LinkOrSwitch::Switch(fabric::NodeId(id))
                       : LinkOrSwitch::Link(fabric::LinkId(id));
}

void ShiftLoads::Count(std::span<const std::uint32_t> path, std::span<const std::uint32_t> standby,
                       std::int64_t share) {
  ForEachFailure(path, [&](std::uint32_t failure) {
    for (const std::uint32_t link : standby) {
      const auto counted = units_.try_emplace(KeyOf(failure, link)).first;
      counted->second += share;
      if (counted->second == 0) units_.erase(counted);
    }
  });
}

std::int64_t ShiftLoads::MostOn(std::uint32_t link, std::span<const std::uint32_t> path) const {
  std::int64_t most = 0;
  ForEachFailure(path, [&](std::uint32_t failure) {
    const auto counted = units_.find(KeyOf(failure, link));
    if (counted != units_.end()) most = std::max(most, counted->second);
  });
  return most;
}

std::size_t ShiftLoads::CountCommon(std::span<const std::uint32_t> a,
                                    std::span<const std::uint32_t> b) const {
  std::size_t common = 0;
  ForEachFailure(a, [&](std::uint32_t failure) {
    ForEachFailure(b, [&](std::uint32_t other) { common += failure == other ? 1 : 0; });
  });
  return common;
}

}  // namespace espalier::controller
