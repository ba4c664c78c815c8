#include "agent/flows/guard/link_evidence.h"

#include <algorithm>

namespace espalier::agent {
namespace {

using Links = std::span<const std::uint32_t>;

bool Has(Links links, std::uint32_t link) { return std::ranges::find(links, link) != links.end(); }

bool HasAll(Links links, Links wanted) {
  return std::ranges::all_of(wanted, [&](std::uint32_t link) { return Has(links, link); });
}

bool HasAny(Links links, Links wanted) {
  return std::ranges::any_of(wanted, [&](std::uint32_t link) { return Has(links, link); });
}

}  // namespace

void LinkEvidence::HandleDead(TimePoint now, const wire::FlowPath& path) {
  const Links links = path.links;
  if (links.empty()) return;
  // Paths that have all these suspects say nothing more than this one does.
  std::erase_if(dead_paths_, [&](const DeadPath& dead) { return HasAll(dead.suspects, links); });
  const auto known = std::ranges::find_if(
      dead_paths_, [&](const DeadPath& dead) { return HasAll(links, dead.suspects); });
  DeadPath found{.at = now, .suspects = {links.begin(), links.end()}};
  if (known != dead_paths_.end()) {  // its suspects explain this path, too
    found.suspects = std::move(known->suspects);
    dead_paths_.erase(known);
  }
  if (dead_paths_.size() >= kMostPaths) dead_paths_.erase(dead_paths_.begin());
  dead_paths_.push_back(std::move(found));
}

void LinkEvidence::HandleAnswered(const wire::FlowPath& path) {
  const Links links = path.links;
  for (DeadPath& dead : dead_paths_) {
    std::erase_if(dead.suspects, [&](std::uint32_t link) { return Has(links, link); });
  }
  std::erase_if(dead_paths_, [](const DeadPath& dead) { return dead.suspects.empty(); });
}

void LinkEvidence::HandleProbes(TimePoint now, std::span<const wire::FlowPath> paths,
                                std::span<const std::uint16_t> answered,
                                std::span<const std::uint16_t> dead) {
  if (answered.empty()) return;  // silence of all proves nothing
  const auto has_answered = [&](const wire::FlowPath& path) {
    return std::ranges::find(answered, path.source_port) != answered.end();
  };
  for (const wire::FlowPath& path : paths) {
    if (std::ranges::find(dead, path.source_port) != dead.end()) HandleDead(now, path);
  }
  for (const wire::FlowPath& path : paths) {
    if (has_answered(path)) HandleAnswered(path);
  }
}

void LinkEvidence::HandleLook(TimePoint now, std::uint64_t epoch) {
  const bool is_other_epoch = epoch != epoch_;
  epoch_ = epoch;
  std::erase_if(dead_paths_,
                [&](const DeadPath& dead) { return is_other_epoch || now - dead.at >= kMemory; });
}

bool LinkEvidence::IsDead(const wire::FlowPath& path) const {
  return std::ranges::any_of(
      dead_paths_, [&](const DeadPath& dead) { return HasAll(path.links, dead.suspects); });
}

bool LinkEvidence::IsDead(std::span<const wire::FlowPath> paths, std::uint16_t port) const {
  const auto path = std::ranges::find(paths, port, &wire::FlowPath::source_port);
  return path != paths.end() && IsDead(*path);
}

bool LinkEvidence::IsSuspect(const wire::FlowPath& path) const {
  return IsSuspectSince(path, TimePoint::min());
}

bool LinkEvidence::IsSuspectSince(const wire::FlowPath& path, TimePoint progress) const {
  return std::ranges::any_of(dead_paths_, [&](const DeadPath& dead) {
    return progress <= dead.at && HasAny(path.links, dead.suspects);
  });
}

std::vector<PortMeasure> LinkEvidence::SuspectPorts(const FlowMeasure& flow,
                                                    const wire::PathSet& set) const {
  std::vector<PortMeasure> suspects;
  for (const wire::FlowPath& path : set.paths) {
    const auto measured =
        std::ranges::find(flow.ports, path.source_port, &PortMeasure::source_port);
    PortMeasure port{.source_port = path.source_port,
                     .without_progress = flow.without_progress,
                     .retries_grew = flow.retries_grew,
                     .since_retry = flow.since_retry,
                     .progressed = flow.progressed};
    if (measured != flow.ports.end()) port = *measured;
    if (IsSuspectSince(path, port.progressed)) suspects.push_back(port);
  }
  return suspects;
}

}  // namespace espalier::agent
