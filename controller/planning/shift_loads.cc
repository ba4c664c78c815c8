#include "controller/planning/shift_loads.h"

#include <algorithm>

namespace espalier::controller {

LinkOrSwitch ShiftLoads::FailureOf(std::uint32_t index) const {
  const std::size_t nodes = topology_.nodes().size();
  const auto id = static_cast<std::int32_t>(index < nodes ? index : index - nodes);
  return index < nodes ? LinkOrSwitch::Switch(fabric::NodeId(id))
                       : LinkOrSwitch::Link(fabric::LinkId(id));
}

bool ShiftLoads::IsFailureOf(std::uint32_t failure, std::span<const std::uint32_t> path) const {
  bool is_one = false;
  ForEachFailure(path, [&](std::uint32_t other) { is_one |= other == failure; });
  return is_one;
}

void ShiftLoads::Change(std::uint32_t failure, std::span<const std::uint32_t> links, Shift by) {
  for (const std::uint32_t link : links) {
    const auto counted = shifts_.try_emplace(KeyOf(failure, link)).first;
    counted->second.added += by.added;
    counted->second.relieved += by.relieved;
    if (counted->second == Shift{}) shifts_.erase(counted);
  }
}

void ShiftLoads::Count(const Move& move, std::int64_t share) {
  const auto count = [&](std::uint32_t failure) {
    const bool is_lost = IsFailureOf(failure, move.standby);
    Change(failure, move.standby, {.added = share, .relieved = is_lost ? share : 0});
    return !is_lost;
  };
  ForEachFailure(move.path, count);
  ForEachFailure(move.back, [&](std::uint32_t failure) {
    if (IsFailureOf(failure, move.path)) return;
    if (count(failure)) Change(failure, move.path, {.relieved = share});
  });
}

std::int64_t ShiftLoads::MostOn(std::uint32_t link, std::span<const std::uint32_t> path) const {
  std::int64_t most = 0;
  ForEachFailure(path, [&](std::uint32_t failure) {
    const auto counted = shifts_.find(KeyOf(failure, link));
    if (counted != shifts_.end()) most = std::max(most, counted->second.Units());
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
