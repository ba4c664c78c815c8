#include "collective/synthesis/finder.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <utility>

#include "collective/synthesis/graphs/distance_regular.h"
#include "collective/synthesis/schedules/bfb.h"

namespace espalier::synthesis {
namespace {

using forest::Rational;

constexpr std::int64_t kMaxDegree = 64;

struct Option {
  Construction construction;
  Prediction prediction;
};

// Whether `a` can replace `b` in everything that it may be used for.
bool Replaces(const Prediction& a, const Prediction& b) {
  return a.steps <= b.steps && a.t_b <= b.t_b && (a.is_bfb || !b.is_bfb) &&
         (a.is_exact || !b.is_exact) && (a.is_simple || !b.is_simple) &&
         (!a.has_self_loops || b.has_self_loops) && (a.branches || !b.branches) &&
         (a.is_bidirectional || !b.is_bidirectional) && (a.is_reversible || !b.is_reversible);
}

// The closure of the families under the expansions, by nodes and degree.
class Closure {
 public:
  // With `reductions`, only networks that are isomorphic to their reverse.
  explicit Closure(bool reductions) : reductions_(reductions) {}

  const std::vector<Option>& Find(std::int64_t nodes, std::int64_t degree) {
    const auto key = std::pair(nodes, degree);
    if (const auto known = known_.find(key); known != known_.end()) return known->second;
    std::vector<Option> options;
    AddFamilies(nodes, degree, options);
    AddLines(nodes, degree, options);
    AddDegrees(nodes, degree, options);
    AddPowers(nodes, degree, options);
    AddProducts(nodes, degree, options);
    return known_[key] = std::move(options);
  }

 private:
  void Add(Construction construction, const std::vector<Prediction>& parts,
           std::vector<Option>& options) {
    const auto prediction = Predict(construction, parts);
    if (!prediction || (reductions_ && !prediction->is_reversible)) return;
    for (const Option& option : options) {
      if (Replaces(option.prediction, *prediction)) return;
    }
    std::erase_if(options,
                  [&](const Option& option) { return Replaces(*prediction, option.prediction); });
    options.push_back({std::move(construction), *prediction});
  }

  void AddFamilies(std::int64_t n, std::int64_t d, std::vector<Option>& options) {
    const auto add = [&](Form form, std::vector<std::int64_t> numbers) {
      Add({form, {}, std::move(numbers)}, {}, options);
    };
    if (n == d + 1) add(Form::kComplete, {n});
    if (n == 2 * d && d >= 2) add(Form::kBipartite, {d});
    if (d % 2 == 0 && n >= 3) add(Form::kBiRing, {d, n});
    if (n == d + 2) add(Form::kDirectedCirculant, {d});
    if (d == 4 && n >= 7) add(Form::kCirculant, {n});
    if (d > 4 && d % 2 == 0) AddCirculant(n, d / 2, options);
    if (d == 4 && std::ranges::count(DistanceRegularSizes(), n) > 0) {
      add(Form::kDistanceRegular, {n});
    }
    for (std::int64_t q = 2, factors = 0; q <= d + 1; ++q) {
      factors = d % (q - 1) == 0 ? d / (q - 1) : 0;
      if (factors >= 2 && Power(q, factors) == n) add(Form::kHamming, {factors, q});
    }
    for (std::int64_t length = 1; d >= 2 && Power(d, length) <= n; ++length) {
      if (Power(d, length) == n && n > d) add(Form::kDeBruijn, {d, length});
    }
    if (!reductions_ && d >= 2 && n >= d + 1) add(Form::kGeneralizedKautz, {d, n});
    add(Form::kUniRing, {d, n});
  }

  // A circulant whose offsets are powers of one number, so that its diameter is near to the least.
  void AddCirculant(std::int64_t n, std::int64_t offsets, std::vector<Option>& options) {
    std::int64_t base = 2;
    while (Power(base, offsets) < n) ++base;
    Construction circulant{Form::kCirculant, {}, {n}};
    for (std::int64_t i = 0; i < offsets; ++i) circulant.numbers.push_back(Power(base, i));
    Add(std::move(circulant), {}, options);
  }

  static std::int64_t Power(std::int64_t base, std::int64_t exponent) {
    std::int64_t power = 1;
    for (std::int64_t i = 0; i < exponent && power <= kMaxNodes; ++i) power *= base;
    return power;
  }

  void AddLines(std::int64_t n, std::int64_t d, std::vector<Option>& options) {
    if (d < 2 || n % d != 0 || n / d < 2) return;
    for (const Option& base : Find(n / d, d)) {
      if (base.prediction.has_self_loops || !base.prediction.branches) continue;
      Construction line{Form::kLine, {base.construction}, {1}};
      std::vector<Prediction> parts{base.prediction};
      if (base.construction.form == Form::kLine) {
        line = base.construction;
        ++line.numbers.front();
        // Predicted from the line graph below it, whose cost is known.
        const Construction once{Form::kLine, {base.construction}, {1}};
        AddAs(once, parts, std::move(line), options);
        continue;
      }
      Add(std::move(line), parts, options);
    }
  }

  // Adds `construction` with the cost of `same`.
  void AddAs(const Construction& same, const std::vector<Prediction>& parts,
             Construction construction, std::vector<Option>& options) {
    Add(same, parts, options);
    if (!options.empty() && options.back().construction == same) {
      options.back().construction = std::move(construction);
    }
  }

  void AddDegrees(std::int64_t n, std::int64_t d, std::vector<Option>& options) {
    for (std::int64_t copies = 2; copies <= d; ++copies) {
      if (d % copies != 0 || n % copies != 0 || n / copies < 2) continue;
      for (const Option& base : Find(n / copies, d / copies)) {
        if (base.prediction.has_self_loops) continue;
        AddExpanded({Form::kDegree, {base.construction}, {copies}}, base.prediction, options);
      }
    }
  }

  void AddPowers(std::int64_t n, std::int64_t d, std::vector<Option>& options) {
    for (std::int64_t exponent = 2; exponent <= d && Power(2, exponent) <= n; ++exponent) {
      if (d % exponent != 0) continue;
      for (std::int64_t size = 2; Power(size, exponent) <= n; ++size) {
        if (Power(size, exponent) != n) continue;
        for (const Option& base : Find(size, d / exponent)) {
          if (base.prediction.has_self_loops) continue;
          AddExpanded({Form::kPower, {base.construction}, {exponent}}, base.prediction, options);
        }
      }
    }
  }

  // Adds an expansion with its own schedule and, where it may be better, with the best BFB one.
  void AddExpanded(Construction expanded, const Prediction& base, std::vector<Option>& options) {
    const auto own = Predict(expanded, {base});
    Construction with_bfb{Form::kBfb, {expanded}, {}};
    Add(std::move(expanded), {base}, options);
    if (!own || own->is_bfb) return;
    Add(std::move(with_bfb), {*own}, options);
  }

  void AddProducts(std::int64_t n, std::int64_t d, std::vector<Option>& options) {
    for (std::int64_t a = 2; a * 2 <= n; ++a) {
      if (n % a != 0) continue;
      for (std::int64_t e = 1; e < d; ++e) {
        // Each pair of factors once.
        if (std::pair(a, e) > std::pair(n / a, d - e)) continue;
        const std::vector<Option> left = Find(a, e);
        for (const Option& x : left) {
          for (const Option& y : Find(n / a, d - e)) {
            if (IsFactor(x.prediction) && IsFactor(y.prediction)) AddProduct(x, y, options);
          }
        }
      }
    }
  }

  static bool IsFactor(const Prediction& prediction) {
    return prediction.is_bfb && prediction.is_simple && prediction.IsBandwidthOptimal();
  }

  void AddProduct(const Option& x, const Option& y, std::vector<Option>& options) {
    Construction product{Form::kProduct, {}, {}};
    for (const Option* factor : {&x, &y}) {
      const Construction& part = factor->construction;
      if (part.form == Form::kProduct) {
        product.parts.insert(product.parts.end(), part.parts.begin(), part.parts.end());
      } else {
        product.parts.push_back(part);
      }
    }
    Add(std::move(product), {x.prediction, y.prediction}, options);
  }

  bool reductions_;
  std::map<std::pair<std::int64_t, std::int64_t>, std::vector<Option>> known_;
};

// Removes what another candidate beats; the first of equals stays.
std::vector<Candidate> ParetoFront(std::vector<Candidate> all) {
  std::stable_sort(all.begin(), all.end(), [](const Candidate& x, const Candidate& y) {
    return std::tie(x.steps, x.t_b) < std::tie(y.steps, y.t_b);
  });
  std::vector<Candidate> front;
  for (Candidate& candidate : all) {
    if (front.empty() || candidate.t_b < front.back().t_b) front.push_back(std::move(candidate));
  }
  return front;
}

}  // namespace

Bounds ComputeBounds(const FinderOptions& options) {
  const std::int64_t phases = options.collective == Collective::kAllreduce ? 2 : 1;
  std::int64_t diameter = 0;
  std::int64_t reached = 1;
  std::int64_t level = 1;
  while (reached < options.nodes) {
    level *= diameter > 0 && options.bidirectional ? std::max<std::int64_t>(options.degree - 1, 1)
                                                   : options.degree;
    reached += level;
    ++diameter;
  }
  return {phases * diameter, Rational(phases * (options.nodes - 1), options.nodes)};
}

Result<std::vector<Candidate>> FindNetworks(const FinderOptions& options) {
  const auto [nodes, degree, bidirectional, collective] = options;
  if (nodes < 2 || nodes > kMaxFinderNodes || degree < 1 || degree > kMaxDegree) {
    return Fail(
        ErrorCode::kInvalidArgument,
        fmt::format("{} nodes of degree {} are out of range (give 2 to {} nodes and a degree "
                    "of 1 to {})",
                    nodes, degree, kMaxFinderNodes, kMaxDegree));
  }
  if (auto served = CheckCollective(collective); !served) return Propagate(served);
  const bool reduces = collective != Collective::kAllgather;
  const std::int64_t phases = collective == Collective::kAllreduce ? 2 : 1;
  std::vector<Candidate> all;
  const auto add = [&](const Construction& construction, const Prediction& prediction) {
    const auto t_b = Rational::Product(prediction.t_b, Rational(phases, 1));
    if (!t_b || (bidirectional && !prediction.is_bidirectional)) return;
    all.push_back({construction, prediction, phases * prediction.steps, *t_b});
  };
  Closure closure(reduces || bidirectional);
  for (const Option& one : closure.Find(nodes, degree)) add(one.construction, one.prediction);
  if (bidirectional && degree % 2 == 0) {
    for (const Option& one : closure.Find(nodes, degree / 2)) {
      if (one.prediction.is_bidirectional || one.prediction.has_self_loops) continue;
      const Construction both{Form::kBidirectional, {one.construction}, {}};
      for (const Construction& way : {both, Construction{Form::kBfb, {both}, {}}}) {
        if (const auto prediction = Predict(way, {one.prediction})) add(way, *prediction);
      }
    }
  }
  if (reduces && !bidirectional && degree >= 2 && nodes >= degree + 1) {
    const Construction kautz{Form::kGeneralizedKautz, {}, {degree, nodes}};
    const auto forwards = Predict(kautz, {});
    const auto network = BuildNetwork(kautz);
    if (forwards && network) {
      const auto backwards = ComputeBfbCost(network->graph.Transpose());
      std::optional<Rational> t_b;
      if (backwards) t_b = backwards->t_b;
      if (t_b && phases == 2) t_b = Rational::Sum(*t_b, forwards->t_b);
      if (t_b) all.push_back({kautz, *forwards, phases * forwards->steps, *t_b});
    }
  }
  std::vector<Candidate> front = ParetoFront(std::move(all));
  if (front.empty()) {
    return Fail(
        ErrorCode::kNotFound,
        fmt::format("no construction of {} nodes of degree {} is known{}", nodes, degree,
                    bidirectional ? " with links in both directions (try another degree, or "
                                    "without --bidirectional)"
                                  : " (try another degree)"));
  }
  return front;
}

}  // namespace espalier::synthesis
