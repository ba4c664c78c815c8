#include "collective/synthesis/prediction.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "collective/synthesis/construction.h"
#include "collective/synthesis/schedules/bfb.h"

namespace espalier::synthesis {
namespace {

using forest::Rational;

// Predicts from the network itself, with the cost of its best BFB schedule.
Result<Prediction> Measure(const Construction& of) {
  auto network = BuildNetwork(of);
  if (!network) return Propagate(network);
  const Digraph& graph = network->graph;
  auto cost = ComputeBfbCost(graph);
  if (!cost) return Propagate(cost);
  Prediction prediction{.nodes = graph.node_count(), .degree = graph.degree()};
  prediction.steps = cost->steps;
  prediction.t_b = cost->t_b;
  prediction.is_bfb = true;
  prediction.is_simple = graph.IsSimple();
  prediction.has_self_loops = graph.has_self_loops();
  prediction.is_bidirectional = graph.IsBidirectional();
  prediction.is_reversible = prediction.is_bidirectional || !network->reversal.empty();
  std::vector<int> targets(static_cast<std::size_t>(graph.node_count()), 0);
  for (const Arc& arc : graph.arcs()) ++targets[static_cast<std::size_t>(arc.tail)];
  prediction.branches = *std::ranges::min_element(targets) > 1;
  return prediction;
}

// A family all of whose networks have optimal BFB schedules.
Prediction Optimal(std::int64_t nodes, std::int64_t degree, std::int64_t steps) {
  Prediction prediction{.nodes = nodes, .degree = degree};
  prediction.steps = static_cast<std::int32_t>(steps);
  prediction.t_b = Rational(nodes - 1, nodes);
  prediction.is_bfb = true;
  prediction.is_simple = true;
  prediction.branches = degree > 1;
  prediction.is_bidirectional = true;
  prediction.is_reversible = true;
  return prediction;
}

std::optional<Prediction> PredictFamily(const Construction& of) {
  const std::vector<std::int64_t>& n = of.numbers;
  switch (of.form) {
    case Form::kComplete:
      return Optimal(n[0], n[0] - 1, 1);
    case Form::kBipartite:
      return Optimal(2 * n[0], n[0], 2);
    case Form::kDistanceRegular:
      return std::nullopt;
    case Form::kBiRing: {
      Prediction ring = Optimal(n[1], n[0], n[1] / 2);
      ring.is_simple = n[0] == 2;
      return ring;
    }
    case Form::kUniRing: {
      Prediction ring = Optimal(n[1], n[0], n[1] - 1);
      ring.is_simple = n[0] == 1;
      ring.branches = false;
      ring.is_bidirectional = n[1] == 2;
      return ring;
    }
    case Form::kDirectedCirculant: {
      Prediction circulant = Optimal(n[0] + 2, n[0], 2);
      circulant.is_bidirectional = false;
      return circulant;
    }
    case Form::kHamming: {
      std::int64_t nodes = 1;
      for (std::int64_t i = 0; i < n[0]; ++i) nodes *= n[1];
      return Optimal(nodes, n[0] * (n[1] - 1), n[0]);
    }
    case Form::kTorus: {
      Prediction torus = Optimal(1, 0, 0);
      for (const std::int64_t size : n) {
        torus =
            Optimal(torus.nodes * size, torus.degree + (size == 2 ? 1 : 2), torus.steps + size / 2);
      }
      return torus;
    }
    default:
      return std::nullopt;
  }
}

std::optional<Rational> Add(const std::optional<Rational>& a, const Rational& b) {
  return a ? Rational::Sum(*a, b) : a;
}

Result<Prediction> Checked(Prediction prediction, const std::optional<Rational>& t_b) {
  if (!t_b) {
    return Fail(ErrorCode::kResourceExhausted, "the exact cost of an expansion exceeds 127 bits");
  }
  if (prediction.nodes > kMaxNodes) {
    return Fail(ErrorCode::kResourceExhausted, "the expanded network is too large");
  }
  prediction.t_b = *t_b;
  return prediction;
}

Result<Prediction> PredictLine(Prediction line, std::int64_t times) {
  std::optional<Rational> t_b = line.t_b;
  for (std::int64_t i = 0; i < times && line.nodes <= kMaxNodes; ++i) {
    t_b = Add(t_b, Rational(1, line.nodes));
    line.is_exact = line.is_exact && line.is_bfb && line.branches;
    line.is_bfb = line.is_exact;
    line.nodes *= line.degree;
    line.branches = line.degree > 1;
    line.is_simple = true;
    line.is_bidirectional = false;
    ++line.steps;
  }
  return Checked(line, t_b);
}

Result<Prediction> PredictDegree(Prediction expanded, std::int64_t n) {
  const auto t_b = Add(expanded.t_b, Rational(n - 1, n * expanded.nodes));
  expanded.nodes *= n;
  expanded.degree *= n;
  expanded.steps += 1;
  expanded.is_bfb = false;
  expanded.branches = true;
  return Checked(expanded, t_b);
}

Result<Prediction> PredictPower(Prediction power, std::int64_t n) {
  const std::int64_t base = power.nodes;
  std::int64_t nodes = 1;
  for (std::int64_t i = 0; i < n && nodes <= kMaxNodes; ++i) nodes *= base;
  std::optional<Rational> t_b = Rational::Product(power.t_b, Rational(base, base - 1));
  if (t_b) t_b = Rational::Product(*t_b, Rational(nodes - 1, nodes));
  // For an optimal base, Theorem 13 says that the best BFB schedule is as good.
  power.is_bfb = power.is_bfb && power.is_simple && power.IsBandwidthOptimal();
  power.nodes = nodes;
  power.degree *= n;
  power.steps *= static_cast<std::int32_t>(n);
  power.branches = true;
  return Checked(power, t_b);
}

Result<Prediction> PredictProduct(const Construction& of, const std::vector<Prediction>& parts) {
  const bool is_optimal = std::ranges::all_of(parts, [](const Prediction& part) {
    return part.is_bfb && part.is_simple && part.IsBandwidthOptimal();
  });
  if (!is_optimal) return Measure(of);
  Prediction product = Optimal(1, 0, 0);
  for (const Prediction& part : parts) {
    if (product.nodes * part.nodes > kMaxNodes)
      return BuildNetwork(of).map([](const auto&) { return Prediction(); });
    Prediction next = Optimal(product.nodes * part.nodes, product.degree + part.degree,
                              product.steps + part.steps);
    next.is_bidirectional = product.is_bidirectional && part.is_bidirectional;
    next.is_reversible = product.is_reversible && part.is_reversible;
    product = next;
  }
  return product;
}

}  // namespace

Result<Prediction> Predict(const Construction& of, const std::vector<Prediction>& parts) {
  switch (of.form) {
    case Form::kKautz: {
      const std::vector<Prediction> complete{Optimal(of.numbers[0] + 1, of.numbers[0], 1)};
      return PredictLine(complete.front(), of.numbers[1]);
    }
    case Form::kLine:
      return PredictLine(parts[0], of.numbers.empty() ? 1 : of.numbers[0]);
    case Form::kDegree:
      return PredictDegree(parts[0], of.numbers[0]);
    case Form::kPower:
      return PredictPower(parts[0], of.numbers[0]);
    case Form::kProduct:
      return PredictProduct(of, parts);
    case Form::kBidirectional: {
      Prediction both = parts[0];
      both.degree *= 2;
      both.is_exact = false;
      both.is_bfb = false;
      both.is_simple = false;
      both.branches = true;
      both.is_bidirectional = true;
      return both;
    }
    default:
      break;
  }
  if (auto family = PredictFamily(of)) return *family;
  return Measure(of);
}

Result<Prediction> Predict(const Construction& construction) {
  // Building it first refuses parameters out of range.
  if (auto network = BuildNetwork(construction); !network) return Propagate(network);
  std::vector<Prediction> parts;
  for (const Construction& part : construction.parts) {
    auto prediction = Predict(part);
    if (!prediction) return prediction;
    parts.push_back(*prediction);
  }
  return Predict(construction, parts);
}

}  // namespace espalier::synthesis
