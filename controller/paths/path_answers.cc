#include "controller/paths/path_answers.h"

#include <algorithm>
#include <cstddef>
#include <numeric>

namespace espalier::controller {

using fabric::DirectedLink;
using fabric::Path;
using fabric::PathIndex;

namespace {

// Whether this answer can come from a probe on this path.
bool Fits(const fabric::Topology& topology, const Path& path, const wire::ProbeAnswer& answer,
          const fabric::Topology::Interface& interface) {
  const AnsweredHops hops = HopsThatAnswer(topology, std::span(&path, 1));
  if (answer.ttl < hops.first_ttl) return false;
  const std::size_t hop = static_cast<std::size_t>(answer.ttl - hops.first_ttl);
  if (hop >= hops.count) return false;
  if (topology.To(path.hops[hop]) != interface.node) return false;
  if (!interface.link) return true;
  // An interface other than the one on which the probe came in identifies only the switch, unless
  // it belongs to a parallel link.
  const DirectedLink in = path.hops[hop];
  const fabric::Link& named = topology.link(*interface.link);
  const bool parallel = (named.a == topology.From(in) && named.b == topology.To(in)) ||
                        (named.b == topology.From(in) && named.a == topology.To(in));
  return !parallel || *interface.link == in.link;
}

// The most hops with which two of the paths begin alike.
std::size_t LongestCommonBeginning(std::span<const Path> paths) {
  std::vector<std::size_t> order(paths.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto comes_before = [&](std::size_t x, std::size_t y) {
    return std::ranges::lexicographical_compare(paths[x].hops, paths[y].hops, {},
                                                &fabric::DirectedLink::Index,
                                                &fabric::DirectedLink::Index);
  };
  // Paths that begin alike are then neighbours.
  if (!std::ranges::is_sorted(order, comes_before)) std::ranges::sort(order, comes_before);
  std::size_t longest = 0;
  for (std::size_t i = 1; i < order.size(); ++i) {
    const auto& hops = paths[order[i]].hops;
    const auto differ = std::ranges::mismatch(hops, paths[order[i - 1]].hops).in1;
    longest = std::max(longest, static_cast<std::size_t>(differ - hops.begin()));
  }
  return longest;
}

}  // namespace

AnsweredHops HopsThatAnswer(const fabric::Topology& topology, std::span<const Path> paths) {
  if (paths.empty() || paths.front().hops.empty()) return {};
  const auto& hops = paths.front().hops;
  const bool is_uplink = topology.HasSeveralUplinks(topology.From(hops.front()));
  const bool ends_at_nic = topology.HasSeveralUplinks(topology.To(hops.back()));
  // TTL 1 ends at the switch behind the source's uplink.
  return {.first_ttl = static_cast<std::uint8_t>(is_uplink ? 1 : 2),
          .count = hops.size() - (ends_at_nic ? 1U : 0U)};
}

std::vector<std::uint8_t> DistinguishingTtls(const fabric::Topology& topology,
                                             std::span<const Path> paths) {
  std::vector<std::uint8_t> ttls;
  if (paths.size() < 2) return ttls;
  const std::size_t hops = LongestCommonBeginning(paths) + 1;
  const AnsweredHops answered = HopsThatAnswer(topology, paths);
  for (std::size_t hop = 0; hop < std::min(hops, answered.count); ++hop) {
    ttls.push_back(static_cast<std::uint8_t>(hop + answered.first_ttl));
  }
  return ttls;
}

std::vector<std::uint8_t> FewestTtls(const fabric::Topology& topology,
                                     std::span<const Path> paths) {
  std::vector<std::uint8_t> ttls = DistinguishingTtls(topology, paths);
  if (ttls.size() < 2) return ttls;
  const std::size_t hop = ttls.size() - 1;
  std::vector<fabric::NodeId> entered;
  for (const Path& path : paths) entered.push_back(topology.To(path.hops[hop]));
  std::ranges::sort(entered);
  if (std::ranges::adjacent_find(entered) == entered.end()) ttls = {ttls.back()};
  return ttls;
}

std::optional<PathIndex> PathOfAnswers(const fabric::Topology& topology,
                                       std::span<const Path> paths,
                                       std::span<const wire::ProbeAnswer> answers) {
  std::vector<fabric::Topology::Interface> interfaces;
  for (const wire::ProbeAnswer& answer : answers) {
    const auto interface = topology.FindInterface(answer.responder);
    if (!interface) return std::nullopt;
    interfaces.push_back(*interface);
  }
  std::optional<PathIndex> only;
  for (std::size_t i = 0; i < paths.size(); ++i) {
    bool fits = true;
    for (std::size_t a = 0; a < answers.size() && fits; ++a) {
      fits = Fits(topology, paths[i], answers[a], interfaces[a]);
    }
    if (!fits) continue;
    if (only) return std::nullopt;
    only = PathIndex(static_cast<std::int32_t>(i));
  }
  return only;
}

}  // namespace espalier::controller
