#include "controller/offline/damage/path_rotation.h"

#include <algorithm>

#include "common/base/check.h"
#include "controller/offline/damage/path_exchange.h"

namespace espalier::offline {

using controller::Commodity;
using controller::kLoadUnit;
using controller::kNoPath;

namespace {

constexpr std::size_t kLongestChain = 64;

}  // namespace

PathRotation::PathRotation(controller::FabricView& view, std::span<const Commodity> flows,
                           std::span<const std::int32_t> paths)
    : view_(view), assigner_(view), flows_(flows.begin(), flows.end()), ids_(flows.size()) {
  ESPALIER_CHECK(view.clos().has_value());
  for (std::uint32_t f = 0; f < flows.size(); ++f) {
    if (paths[f] == kNoPath) continue;
    ids_[f] = assigner_.Add(flows[f].source, flows[f].destination);
    assigner_.Place(*ids_[f], paths[f]);
  }
}

void PathRotation::End(std::uint32_t flow) {
  if (ids_[flow]) assigner_.Remove(*ids_[flow]);
  ids_[flow].reset();
}

std::int32_t PathRotation::PathOf(std::uint32_t flow) const {
  return ids_[flow] ? assigner_.PathOf(*ids_[flow]) : kNoPath;
}

std::vector<std::int32_t> PathRotation::Paths() const {
  std::vector<std::int32_t> paths;
  for (std::uint32_t f = 0; f < flows_.size(); ++f) paths.push_back(PathOf(f));
  return paths;
}

bool PathRotation::IsShared(std::uint32_t link) const {
  constexpr double kRounding = 1e-9;
  const double relative =
      static_cast<double>(view_.capacities()[link]) / static_cast<double>(view_.unit_bps());
  const double load = static_cast<double>(assigner_.LoadOf(link)) / static_cast<double>(kLoadUnit);
  return load > relative * (1 + kRounding);
}

std::vector<PathRotation::Shared> PathRotation::ListShared() const {
  std::vector<Shared> shared;
  view_.ForEachLeafLink([&](std::uint32_t leaf, std::uint32_t link, bool leaves_it) {
    if (IsShared(link)) shared.push_back({leaf, link, leaves_it});
  });
  return shared;
}

std::size_t PathRotation::CountShared() const { return ListShared().size(); }

bool PathRotation::IsOf(std::uint32_t flow, const Shared& shared) const {
  if (!ids_[flow]) return false;
  return (shared.leaves_it ? flows_[flow].source : flows_[flow].destination) == shared.leaf;
}

std::vector<std::uint32_t> PathRotation::Exchange(std::span<const double> sent) {
  const std::vector<std::int32_t> before = Paths();
  for (const Shared& shared : ListShared()) {
    if (IsShared(shared.link)) ExchangeOn(shared, sent);
  }
  std::vector<std::uint32_t> changed;
  for (std::uint32_t f = 0; f < flows_.size(); ++f) {
    if (PathOf(f) != before[f]) changed.push_back(f);
  }
  return changed;
}

void PathRotation::ExchangeOn(const Shared& shared, std::span<const double> sent) {
  std::vector<std::uint32_t> behind;
  std::vector<std::uint32_t> ahead;
  for (std::uint32_t f = 0; f < flows_.size(); ++f) {
    if (!IsOf(f, shared)) continue;
    const auto links = assigner_.LinksOf(*ids_[f]);
    if (std::find(links.begin(), links.end(), shared.link) != links.end()) {
      behind.push_back(f);
    } else if (std::none_of(links.begin(), links.end(),
                            [this](std::uint32_t link) { return IsShared(link); })) {
      ahead.push_back(f);
    }
  }
  const auto by_sent = [&](std::uint32_t a, std::uint32_t b) { return sent[a] < sent[b]; };
  std::ranges::stable_sort(behind, by_sent);
  std::ranges::stable_sort(ahead, [&](std::uint32_t a, std::uint32_t b) { return by_sent(b, a); });
  for (const std::uint32_t slow : behind) {
    for (const std::uint32_t fast : ahead) {
      if (sent[fast] <= sent[slow]) break;
      if (Swap(slow, fast, shared)) return;
    }
  }
}

bool PathRotation::Swap(std::uint32_t behind, std::uint32_t ahead, const Shared& side) {
  const std::size_t shared = CountShared();
  // Others on this side of the leaf would share its other links.
  std::vector<controller::SubflowId> stay;
  for (std::uint32_t f = 0; f < flows_.size(); ++f) {
    if (IsOf(f, side)) stay.push_back(*ids_[f]);
  }
  const auto moves = controller::ExchangeSpines(view_, assigner_, *ids_[behind], *ids_[ahead], stay,
                                                {.max_moves = kLongestChain});
  if (CountShared() <= shared) return !moves.empty();
  controller::TakeBack(assigner_, moves);
  return false;
}

}  // namespace espalier::offline
