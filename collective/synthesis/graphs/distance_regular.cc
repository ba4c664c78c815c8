#include "collective/synthesis/graphs/distance_regular.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <numeric>
#include <utility>
#include <vector>

#include "collective/synthesis/graphs/families.h"

namespace espalier::synthesis {
namespace {

using Edges = std::vector<std::pair<int, int>>;  // undirected

constexpr std::array<std::int64_t, 15> kSizes{6,  9,  10, 14, 15, 16,  21, 26,
                                              32, 35, 45, 70, 80, 189, 728};

Network FromEdges(const Edges& edges) {
  int nodes = 0;
  std::vector<Arc> arcs;
  for (const auto& [a, b] : edges) {
    arcs.push_back({a, b, 1});
    arcs.push_back({b, a, 1});
    nodes = std::max({nodes, a + 1, b + 1});
  }
  Network network{Digraph(nodes, std::move(arcs)), {}};
  network.reversal.resize(static_cast<std::size_t>(nodes));
  std::iota(network.reversal.begin(), network.reversal.end(), 0);
  return network;
}

// The edges become nodes, which are joined if they share an end.
Edges LineGraph(const Edges& edges) {
  Edges line;
  for (std::size_t i = 0; i < edges.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      const auto [a, b] = edges[i];
      const auto [c, d] = edges[j];
      if (a == c || a == d || b == c || b == d) {
        line.emplace_back(static_cast<int>(j), static_cast<int>(i));
      }
    }
  }
  return line;
}

// Joins x < count and y < count, as nodes x and count + y, where `joined(x, y)`.
template <typename Joined>
Edges Bipartite(int count, Joined joined) {
  Edges edges;
  for (int x = 0; x < count; ++x) {
    for (int y = 0; y < count; ++y) {
      if (joined(x, y)) edges.emplace_back(x, count + y);
    }
  }
  return edges;
}

// The incidence of points and lines of a projective plane, from a difference set.
Edges FromDifferences(int count, std::uint32_t set, bool complement) {
  return Bipartite(count, [&](int point, int line) {
    return ((set >> ((point - line + count) % count) & 1) != 0) != complement;
  });
}

// The subsets of {0, ..., n - 1} with k elements, as bits.
std::vector<unsigned> Subsets(int n, int k) {
  std::vector<unsigned> sets;
  for (unsigned set = 0; set < 1U << n; ++set) {
    if (std::popcount(set) == k) sets.push_back(set);
  }
  return sets;
}

// Joins disjoint subsets: Petersen's graph is Kneser(5, 2), the odd graph O_4 is Kneser(7, 3).
Edges Kneser(int n, int k) {
  const auto sets = Subsets(n, k);
  Edges edges;
  for (std::size_t i = 0; i < sets.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if ((sets[i] & sets[j]) == 0) edges.emplace_back(static_cast<int>(j), static_cast<int>(i));
    }
  }
  return edges;
}

Edges DoubledOdd() {
  const auto threes = Subsets(7, 3);
  const auto fours = Subsets(7, 4);
  return Bipartite(static_cast<int>(threes.size()), [&](int x, int y) {
    return (threes[static_cast<std::size_t>(x)] & ~fours[static_cast<std::size_t>(y)]) == 0;
  });
}

// Points (x, y) and lines y = m x + b over the field of 4 elements, whose sum is the exclusive or.
Edges AffinePlane() {
  constexpr std::array<std::array<int, 4>, 4> kProduct{
      {{0, 0, 0, 0}, {0, 1, 2, 3}, {0, 2, 3, 1}, {0, 3, 1, 2}}};
  return Bipartite(16, [&](int point, int line) {
    const auto m = static_cast<std::size_t>(line / 4);
    const auto x = static_cast<std::size_t>(point / 4);
    return (kProduct[m][x] ^ (line % 4)) == point % 4;
  });
}

// The incidence of 15 pairs of 6 elements with the 15 ways to divide these into pairs: Tutte's
// 8-cage.
Edges Tutte8Cage() {
  const auto pairs = Subsets(6, 2);
  Edges edges;
  int line = 15;
  for (std::size_t a = 0; a < pairs.size(); ++a) {
    for (std::size_t b = 0; b < a; ++b) {
      for (std::size_t c = 0; c < b; ++c) {
        if ((pairs[a] | pairs[b] | pairs[c]) != 63) continue;
        for (const std::size_t pair : {a, b, c}) edges.emplace_back(static_cast<int>(pair), line);
        ++line;
      }
    }
  }
  return edges;
}

using Point = std::vector<int>;  // homogeneous coordinates, the first that is not 0 is 1

std::vector<Point> ProjectivePoints(int dimension, int q) {
  std::vector<Point> points;
  std::int64_t all = 1;
  for (int i = 0; i <= dimension; ++i) all *= q;
  for (std::int64_t n = 1; n < all; ++n) {
    Point point;
    std::int64_t rest = n;
    for (int i = 0; i <= dimension; ++i, rest /= q) point.push_back(static_cast<int>(rest % q));
    if (*std::ranges::find_if(point, [](int x) { return x != 0; }) == 1) points.push_back(point);
  }
  return points;
}

// The incidence of points with those lines of them for which `chosen(p)`, where p(i, j) are the
// Grassmann coordinates x_i y_j - x_j y_i (mod q) of any two of the line's points x and y.
template <typename Chosen>
Edges Geometry(const std::vector<Point>& points, int q, Chosen chosen) {
  Edges edges;
  auto line = static_cast<int>(points.size());
  const auto find = [&](const Point& x, const Point& y, int times) {
    Point sum = x;
    for (std::size_t i = 0; i < x.size(); ++i) sum[i] = (times * x[i] + y[i]) % q;
    const int lead = *std::ranges::find_if(sum, [](int c) { return c != 0; });
    for (int& c : sum) c = c * (lead == 1 ? 1 : 2) % q;  // q is 2 or 3: 2 * 2 = 1
    return static_cast<int>(std::ranges::find(points, sum) - points.begin());
  };
  for (int a = 0; a < static_cast<int>(points.size()); ++a) {
    for (int b = a + 1; b < static_cast<int>(points.size()); ++b) {
      const Point& x = points[static_cast<std::size_t>(a)];
      const Point& y = points[static_cast<std::size_t>(b)];
      const auto p = [&](std::size_t i, std::size_t j) {
        return (x[i] * y[j] + (q - x[j]) * y[i]) % q;
      };
      if (!chosen(p)) continue;
      std::vector<int> on{a, b};
      for (int times = 1; times < q; ++times) on.push_back(find(x, y, times));
      // The two lowest points of a line write it, if all its points belong to the geometry.
      const auto is_other = [&](int c) { return c < b || c == static_cast<int>(points.size()); };
      if (std::any_of(on.begin() + 2, on.end(), is_other)) continue;
      for (const int point : on) edges.emplace_back(point, line);
      ++line;
    }
  }
  return edges;
}

// W(3): the points of PG(3, 3) and the lines that are isotropic for a symplectic form.
Edges SymplecticQuadrangle() {
  return Geometry(ProjectivePoints(3, 3), 3,
                  [](const auto& p) { return (p(0, 1) + p(2, 3)) % 3 == 0; });
}

// The split Cayley hexagon H(q) (Tits): the points of the quadric X0 X4 + X1 X5 + X2 X6 = X3^2 and
// the lines on it whose coordinates satisfy six equations.
Edges CayleyHexagon(int q) {
  std::vector<Point> points;
  for (Point& x : ProjectivePoints(6, q)) {
    if ((x[0] * x[4] + x[1] * x[5] + x[2] * x[6] + (q - x[3]) * x[3]) % q == 0) points.push_back(x);
  }
  return Geometry(points, q, [](const auto& p) {
    return p(1, 2) == p(3, 4) && p(5, 6) == p(0, 3) && p(4, 5) == p(2, 3) && p(0, 1) == p(3, 6) &&
           p(2, 0) == p(3, 5) && p(6, 4) == p(1, 3);
  });
}

}  // namespace

std::span<const std::int64_t> DistanceRegularSizes() { return kSizes; }

Result<Network> BuildDistanceRegular(std::int64_t nodes) {
  constexpr std::uint32_t kFano = 0b1011;           // {0, 1, 3} modulo 7
  constexpr std::uint32_t kPlane = 0b10'0000'1011;  // {0, 1, 3, 9} modulo 13
  switch (nodes) {
    case 6:
      return BuildCirculant(6, std::vector<std::int64_t>{1, 2});  // the octahedron
    case 9:
      return BuildHamming(2, 3);
    case 10:
      return FromEdges(Bipartite(5, [](int x, int y) { return x != y; }));
    case 14:
      return FromEdges(FromDifferences(7, kFano, true));
    case 15:
      return FromEdges(LineGraph(Kneser(5, 2)));
    case 16:
      return BuildHamming(4, 2);
    case 21:
      return FromEdges(LineGraph(FromDifferences(7, kFano, false)));
    case 26:
      return FromEdges(FromDifferences(13, kPlane, false));
    case 32:
      return FromEdges(AffinePlane());
    case 35:
      return FromEdges(Kneser(7, 3));
    case 45:
      return FromEdges(LineGraph(Tutte8Cage()));
    case 70:
      return FromEdges(DoubledOdd());
    case 80:
      return FromEdges(SymplecticQuadrangle());
    case 189:
      return FromEdges(LineGraph(CayleyHexagon(2)));
    case 728:
      return FromEdges(CayleyHexagon(3));
    default:
      break;
  }
  return Fail(ErrorCode::kInvalidArgument,
              fmt::format("no distance-regular network of degree 4 with {} nodes is known here "
                          "(give {})",
                          nodes, fmt::join(kSizes, ", ")));
}

}  // namespace espalier::synthesis
