#include "controller/paths/path_answers.h"

#include <algorithm>
#include <set>

namespace espalier::controller {

using fabric::DirectedLink;
using fabric::Path;
using fabric::PathIndex;

namespace {

constexpr std::uint8_t kFirstTtl = 2;  // TTL 1 ends at the source's own leaf

bool SameUpTo(const Path& a, const Path& b, std::size_t hops) {
  return std::equal(a.hops.begin(), a.hops.begin() + static_cast<std::ptrdiff_t>(hops),
                    b.hops.begin());
}

// Whether this answer can come from a probe on this path.
bool Fits(const fabric::Topology& topology, const Path& path, const wire::ProbeAnswer& answer,
          const fabric::Topology::Interface& interface) {
  if (answer.ttl < kFirstTtl) return false;
  const std::size_t hop = static_cast<std::size_t>(answer.ttl - kFirstTtl);
  if (hop >= path.hops.size()) return false;
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

}  // namespace

std::vector<std::uint8_t> DistinguishingTtls(std::span<const Path> paths) {
  std::vector<std::uint8_t> ttls;
  if (paths.size() < 2) return ttls;
  const std::size_t length = paths[0].hops.size();
  for (std::size_t hops = 1; hops <= length; ++hops) {
    ttls.push_back(static_cast<std::uint8_t>(hops - 1 + kFirstTtl));
    bool distinct = true;
    for (std::size_t i = 0; i < paths.size() && distinct; ++i) {
      for (std::size_t j = i + 1; j < paths.size() && distinct; ++j) {
        distinct = !SameUpTo(paths[i], paths[j], hops);
      }
    }
    if (distinct) break;
  }
  return ttls;
}

std::vector<std::uint8_t> FewestTtls(const fabric::Topology& topology,
                                     std::span<const Path> paths) {
  std::vector<std::uint8_t> ttls = DistinguishingTtls(paths);
  if (ttls.size() < 2) return ttls;
  const std::size_t hop = ttls.size() - 1;
  std::set<fabric::NodeId> entered;
  for (const Path& path : paths) entered.insert(topology.To(path.hops[hop]));
  if (entered.size() == paths.size()) ttls.erase(ttls.begin(), ttls.end() - 1);
  return ttls;
}

std::optional<PathIndex> PathOfAnswers(const fabric::Topology& topology,
                                       std::span<const Path> paths,
                                       std::span<const wire::ProbeAnswer> answers) {
  std::optional<PathIndex> only;
  for (std::size_t i = 0; i < paths.size(); ++i) {
    const bool fits = std::all_of(answers.begin(), answers.end(), [&](const auto& answer) {
      const auto interface = topology.FindInterface(answer.responder);
      return interface && Fits(topology, paths[i], answer, *interface);
    });
    if (!fits) continue;
    if (only) return std::nullopt;
    only = PathIndex(static_cast<std::int32_t>(i));
  }
  return only;
}

}  // namespace espalier::controller
