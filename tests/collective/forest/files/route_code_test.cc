#include "collective/forest/files/route_code.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "tests/seeds.h"

namespace espalier::forest {
namespace {

using Hops = std::vector<std::int32_t>;

// Draws arcs in the order of a table, whose routes often begin and end like others.
RoutingTable MakeTable(std::size_t ranks, std::mt19937_64& random) {
  RoutingTable table;
  std::vector<Hops> before = {{}};
  for (std::size_t to = 0; to < ranks; ++to) {
    for (std::size_t from = 0; from < ranks; ++from) {
      if (from == to || random() % 2 == 0) continue;
      table.AddArc(static_cast<Rank>(from), static_cast<Rank>(to));
      for (std::size_t route = 1 + random() % 3; route > 0; --route) {
        const Hops& start = before[random() % before.size()];
        const Hops& end = before[random() % before.size()];
        Hops hops(start.begin(), start.begin() + static_cast<std::ptrdiff_t>(std::min<std::size_t>(
                                                     start.size(), random() % 3)));
        for (std::size_t more = random() % 3; more > 0; --more) {
          hops.push_back(static_cast<std::int32_t>(random() % 1000));
        }
        hops.insert(hops.end(),
                    end.end() - static_cast<std::ptrdiff_t>(
                                    std::min<std::size_t>(end.size(), random() % 3)),
                    end.end());
        table.AddRoute(static_cast<std::int64_t>(random() >> (1 + random() % 62) >> 1), hops);
        before.push_back(std::move(hops));
      }
    }
  }
  table.Index(static_cast<std::int32_t>(ranks));
  return table;
}

void ExpectSame(const RoutingTable& read, const RoutingTable& table) {
  ASSERT_EQ(read.ArcCount(), table.ArcCount());
  ASSERT_EQ(read.RouteCount(), table.RouteCount());
  for (std::size_t arc = 0; arc < table.ArcCount(); ++arc) {
    EXPECT_EQ(read.From(arc), table.From(arc));
    EXPECT_EQ(read.To(arc), table.To(arc));
    EXPECT_EQ(read.Find(table.From(arc), table.To(arc)), static_cast<std::int32_t>(arc));
    const std::span<const Route> routes = read.Routes(arc);
    ASSERT_EQ(routes.size(), table.Routes(arc).size());
    for (std::size_t r = 0; r < routes.size(); ++r) {
      const Route& expected = table.Routes(arc)[r];
      EXPECT_EQ(routes[r].count, expected.count);
      EXPECT_TRUE(std::ranges::equal(read.Hops(routes[r]), table.Hops(expected)));
    }
  }
}

TEST(RouteCode, KeepsTablesAndRefusesPartsOfThem) {
  for (const std::uint64_t seed : SeedsToTry(1, 200)) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    const std::size_t ranks = 1 + random() % 8;
    const RoutingTable table = MakeTable(ranks, random);
    ByteWriter writer;
    WriteRoutes(table, writer);
    const std::string bytes = writer.Take();
    ByteReader reader(bytes);
    const std::optional<RoutingTable> read = ReadRoutes(reader, ranks);
    ASSERT_TRUE(read.has_value());
    EXPECT_EQ(reader.Left(), 0U);
    ExpectSame(*read, table);
    for (std::size_t size = 0; size < bytes.size(); ++size) {
      ByteReader cut(std::string_view(bytes).substr(0, size));
      EXPECT_FALSE(ReadRoutes(cut, ranks).has_value()) << size << " of " << bytes.size();
    }
    // One rank less than needed: some arc joins a rank that does not exist.
    std::size_t used = 0;
    for (std::size_t arc = 0; arc < table.ArcCount(); ++arc) {
      used = std::max({used, table.From(arc) + std::size_t{1}, table.To(arc) + std::size_t{1}});
    }
    if (used == 0) continue;
    ByteReader narrow(bytes);
    EXPECT_FALSE(ReadRoutes(narrow, used - 1).has_value());
  }
}

TEST(RouteCode, TakesFewBytesForWhatRoutesShare) {
  // Counts the bytes for a route that differs in one hop from the last one of the same rank, and
  // one that differs in one hop from the last route of all.
  RoutingTable table;
  const auto add = [&](Rank from, Rank to, const Hops& hops) {
    table.AddArc(from, to);
    table.AddRoute(1, hops);
  };
  add(1, 0, {200, 201, 202, 203, 204, 205, 206, 207});
  add(2, 0, {300, 201, 202, 203, 204, 205, 206, 207});
  add(1, 2, {200, 201, 202, 203, 204, 205, 206, 400});
  table.Index(3);
  ByteWriter writer;
  WriteRoutes(table, writer);
  // 1 byte for the number of arcs, 7 numbers per arc, hops of two bytes: all of the first route,
  // one of each other.
  EXPECT_EQ(writer.Take().size(), 1U + 3 * 7 + 2 * (8 + 1 + 1));
}

// Shared ends repeat: a short file must not describe routes that fill the memory.
TEST(RouteCode, RefusesRoutesThatGrowOutOfNothing) {
  ByteWriter writer;
  constexpr std::uint64_t kRoutes = 40;
  writer.Number(1);  // arcs
  writer.Number(1);  // to
  writer.Number(0);  // from
  writer.Number(kRoutes);
  std::uint64_t size = 0;
  for (std::uint64_t route = 0; route < kRoutes; ++route) {
    writer.Number(1);
    writer.Number(size);  // all of the route before
    writer.Number(size);  // and once more
    writer.Number(1);
    writer.Number(7);
    size = std::min<std::uint64_t>(2 * size + 1, 1 << 20);
  }
  const std::string bytes = writer.Take();
  ByteReader reader(bytes);
  EXPECT_FALSE(ReadRoutes(reader, 2).has_value());
}

}  // namespace
}  // namespace espalier::forest
