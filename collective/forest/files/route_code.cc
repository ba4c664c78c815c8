#include "collective/forest/files/route_code.h"

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace espalier::forest {
namespace {

using Hops = std::vector<std::int32_t>;

// What the encoder and the decoder both remember: the last route of all and the last route of each
// rank.
struct Memory {
  explicit Memory(std::size_t ranks) : last_from(ranks) {}
  Hops last;
  std::vector<Hops> last_from;
};

}  // namespace

void WriteRoutes(const RoutingTable& routes, ByteWriter& writer) {
  std::size_t ranks = 0;
  for (std::size_t arc = 0; arc < routes.ArcCount(); ++arc) {
    ranks = std::max({ranks, routes.From(arc) + std::size_t{1}, routes.To(arc) + std::size_t{1}});
  }
  Memory memory(ranks);
  writer.Number(routes.ArcCount());
  std::size_t to = 0;
  std::size_t next_from = 0;
  for (std::size_t arc = 0; arc < routes.ArcCount(); ++arc) {
    // The distance from the previous head, then the ranks skipped since the previous tail.
    writer.Number(routes.To(arc) - to);
    if (routes.To(arc) != to) next_from = 0;
    to = routes.To(arc);
    writer.Number(routes.From(arc) - next_from);
    next_from = routes.From(arc) + std::size_t{1};
    writer.Number(routes.Routes(arc).size());
    for (const Route& route : routes.Routes(arc)) {
      const std::span<const std::int32_t> hops = routes.Hops(route);
      Hops& own = memory.last_from[routes.From(arc)];
      const auto prefix = static_cast<std::size_t>(
          std::mismatch(hops.begin(), hops.end(), own.begin(), own.end()).first - hops.begin());
      const auto tail = static_cast<std::size_t>(
          std::mismatch(hops.rbegin(), hops.rend() - static_cast<std::ptrdiff_t>(prefix),
                        memory.last.rbegin(), memory.last.rend())
              .first -
          hops.rbegin());
      writer.Number(static_cast<std::uint64_t>(route.count));
      writer.Number(prefix);
      writer.Number(tail);
      writer.Number(hops.size() - prefix - tail);
      for (std::size_t h = prefix; h + tail < hops.size(); ++h) {
        writer.Number(static_cast<std::uint64_t>(hops[h]));
      }
      own.assign(hops.begin(), hops.end());
      memory.last = own;
    }
  }
}

std::optional<RoutingTable> ReadRoutes(ByteReader& reader, std::size_t rank_count) {
  constexpr std::uint64_t kMaxCount = std::uint64_t{1} << 62;
  constexpr std::uint64_t kMaxHop = std::uint64_t{1} << 30;
  constexpr std::size_t kMaxHopsPerByte = 16;
  Memory memory(rank_count);
  RoutingTable routes;
  const std::uint64_t arcs = reader.NumberUpTo(reader.Left());
  std::uint64_t to = 0;
  std::uint64_t next_from = 0;
  Hops hops;
  std::size_t total_hops = 0;
  for (std::uint64_t arc = 0; arc < arcs; ++arc) {
    const std::uint64_t step = reader.NumberUpTo(rank_count);
    if (step > 0) next_from = 0;
    to += step;
    const std::uint64_t from = next_from + reader.NumberUpTo(rank_count);
    next_from = from + 1;
    if (reader.Failed() || to >= rank_count || from >= rank_count) return std::nullopt;
    routes.AddArc(static_cast<Rank>(from), static_cast<Rank>(to));
    const std::uint64_t count = reader.NumberUpTo(reader.Left());
    for (std::uint64_t route = 0; route < count; ++route) {
      const std::uint64_t trees = reader.NumberUpTo(kMaxCount);
      Hops& own = memory.last_from[static_cast<std::size_t>(from)];
      const auto prefix = static_cast<std::ptrdiff_t>(reader.NumberUpTo(own.size()));
      const auto tail = static_cast<std::ptrdiff_t>(reader.NumberUpTo(memory.last.size()));
      const std::uint64_t middle = reader.NumberUpTo(reader.Left());
      hops.assign(own.begin(), own.begin() + prefix);
      for (std::uint64_t h = 0; h < middle && !reader.Failed(); ++h) {
        hops.push_back(static_cast<std::int32_t>(reader.NumberUpTo(kMaxHop)));
      }
      if (reader.Failed()) return std::nullopt;
      hops.insert(hops.end(), memory.last.end() - tail, memory.last.end());
      // A route with shared ends takes five bytes, so a short file could describe very long routes.
      total_hops += hops.size();
      if (total_hops > kMaxHopsPerByte * reader.Offset()) return std::nullopt;
      routes.AddRoute(static_cast<std::int64_t>(trees), hops);
      own = hops;
      memory.last = hops;
    }
  }
  if (reader.Failed()) return std::nullopt;
  routes.Index(static_cast<std::int32_t>(rank_count));
  return routes;
}

}  // namespace espalier::forest
