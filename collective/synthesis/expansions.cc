#include "collective/synthesis/expansions.h"

#include <fmt/format.h>

#include <numeric>
#include <utility>
#include <vector>

namespace espalier::synthesis {
namespace {

std::size_t At(std::int64_t index) { return static_cast<std::size_t>(index); }
std::int32_t Id(std::int64_t node) { return static_cast<std::int32_t>(node); }

Result<void> CheckBase(const Digraph& base) {
  if (base.has_self_loops()) {
    return Fail(ErrorCode::kInvalidArgument, "a network with self-loops cannot be expanded");
  }
  if (base.is_regular()) return {};
  return Fail(ErrorCode::kInvalidArgument,
              "the network is not regular (an expansion needs the same degree at every node)");
}

Result<void> CheckCopies(std::int64_t n) {
  if (n >= 2 && n <= kMaxNodes) return {};
  return Fail(ErrorCode::kInvalidArgument,
              fmt::format("an expansion by {} is out of range (give 2 or more)", n));
}

Result<void> CheckNodes(std::int64_t nodes) {
  if (nodes <= kMaxNodes) return {};
  return Fail(ErrorCode::kResourceExhausted,
              fmt::format("the expanded network would have more than {} nodes", kMaxNodes));
}

// base^exponent, or kMaxSends + 1 if it is larger.
std::int64_t BoundedPower(std::int64_t base, std::int64_t exponent) {
  std::int64_t power = 1;
  for (std::int64_t i = 0; i < exponent && power <= kMaxSends; ++i) power *= base;
  return std::min(power, kMaxSends + 1);
}

// Returns an empty allgather with the schedule's chunks times `factor`, after checking that so many
// sends fit.
Result<Schedule> Begin(const Schedule& schedule, std::int64_t nodes, std::int64_t steps,
                       std::int64_t factor, std::int64_t sends) {
  if (auto ok = CheckNodes(nodes); !ok) return Propagate(ok);
  if (sends > kMaxSends || steps > kMaxScheduleSteps) {
    return Fail(ErrorCode::kResourceExhausted,
                fmt::format("the expanded schedule would have more than {} sends", kMaxSends));
  }
  Schedule empty{.collective = Collective::kAllgather,
                 .node_count = Id(nodes),
                 .chunks = schedule.chunks,
                 .steps = Id(steps),
                 .reduce_steps = 0,
                 .sends = {}};
  auto begun = Refine(std::move(empty), factor);
  if (begun) begun->sends.reserve(At(sends));
  return begun;
}

// The nodes of a line graph by the arcs of its base.
struct LineNodes {
  explicit LineNodes(const Digraph& base)
      : first{0}, into(At(base.node_count())), out(At(base.node_count())) {
    for (const Arc& arc : base.arcs()) {
      for (std::int64_t i = 0; i < arc.capacity; ++i) {
        into[At(arc.head)].push_back(first.back() + Id(i));
        out[At(arc.tail)].push_back(first.back() + Id(i));
      }
      first.push_back(first.back() + Id(arc.capacity));
    }
  }
  std::vector<std::int32_t> first;  // by arc; the last one is the number of nodes
  std::vector<std::vector<std::int32_t>> into;
  std::vector<std::vector<std::int32_t>> out;
};

std::int64_t CountLinks(const Digraph& graph) {
  std::int64_t links = 0;
  for (const Arc& arc : graph.arcs()) links += std::min<std::int64_t>(arc.capacity, kMaxNodes + 1);
  return links;
}

}  // namespace

Result<Network> BuildLineGraph(const Network& base) {
  if (auto ok = CheckBase(base.graph); !ok) return Propagate(ok);
  if (auto ok = CheckNodes(CountLinks(base.graph)); !ok) return Propagate(ok);
  const LineNodes nodes(base.graph);
  std::vector<Arc> arcs;
  for (std::int32_t middle = 0; middle < base.graph.node_count(); ++middle) {
    for (const std::int32_t in : nodes.into[At(middle)]) {
      for (const std::int32_t out : nodes.out[At(middle)]) arcs.push_back({in, out, 1});
    }
  }
  Network line{Digraph(nodes.first.back(), std::move(arcs)), {}};
  if (base.reversal.empty()) return line;
  for (const Arc& arc : base.graph.arcs()) {
    const std::int32_t image =
        base.graph.Find(base.reversal[At(arc.head)], base.reversal[At(arc.tail)]);
    for (std::int64_t i = 0; i < arc.capacity; ++i) {
      line.reversal.push_back(nodes.first[At(image)] + Id(i));
    }
  }
  return line;
}

Result<Schedule> ExpandToLineGraph(const Digraph& base, const Schedule& schedule) {
  if (auto ok = CheckBase(base); !ok) return Propagate(ok);
  if (auto ok = CheckNodes(CountLinks(base)); !ok) return Propagate(ok);
  const LineNodes nodes(base);
  std::int64_t factor = 1;  // parallel links carry equal parts
  for (const Arc& arc : base.arcs()) {
    factor = std::min(std::lcm(factor, arc.capacity), kMaxChunks + 1);
  }
  const std::int64_t d = base.degree();
  const std::int64_t sends =
      nodes.first.back() * d +
      static_cast<std::int64_t>(schedule.sends.size()) * std::min(d * d * factor, kMaxSends);
  auto line = Begin(schedule, nodes.first.back(), schedule.steps + 1, factor, sends);
  if (!line) return line;
  const std::int32_t whole = Id(line->chunks);
  for (std::int32_t v = 0; v < base.node_count(); ++v) {
    for (const std::int32_t source : nodes.into[At(v)]) {
      for (const std::int32_t to : nodes.out[At(v)]) {
        line->sends.push_back({source, source, to, 1, 0, whole});
      }
    }
  }
  for (const Send& send : schedule.sends) {
    const std::int32_t arc = base.Find(send.from, send.to);
    const std::int64_t parallel = base.arcs()[At(arc)].capacity;
    const std::int64_t part = (send.end - send.begin) * factor / parallel;
    for (const std::int32_t source : nodes.into[At(send.source)]) {
      for (const std::int32_t to : nodes.out[At(send.to)]) {
        if (source == to) continue;
        for (std::int64_t i = 0; i < parallel; ++i) {
          const std::int64_t begin = send.begin * factor + i * part;
          line->sends.push_back({source, nodes.first[At(arc)] + Id(i), to, send.step + 1, Id(begin),
                                 Id(begin + part)});
        }
      }
    }
  }
  return line;
}

Result<Network> BuildDegreeExpansion(const Network& base, std::int64_t n) {
  if (auto ok = CheckBase(base.graph); !ok) return Propagate(ok);
  if (auto ok = CheckCopies(n); !ok) return Propagate(ok);
  const std::int64_t count = base.graph.node_count() * n;
  if (auto ok = CheckNodes(count); !ok) return Propagate(ok);
  std::vector<Arc> arcs;
  for (const Arc& arc : base.graph.arcs()) {
    for (std::int64_t i = 0; i < n; ++i) {
      for (std::int64_t j = 0; j < n; ++j) {
        arcs.push_back({Id(arc.tail * n + i), Id(arc.head * n + j), arc.capacity});
      }
    }
  }
  Network expanded{Digraph(Id(count), std::move(arcs)), {}};
  for (const std::int32_t image : base.reversal) {
    for (std::int64_t i = 0; i < n; ++i) expanded.reversal.push_back(Id(image * n + i));
  }
  return expanded;
}

Result<Schedule> ExpandDegree(const Digraph& base, const Schedule& schedule, std::int64_t n) {
  if (auto ok = CheckBase(base); !ok) return Propagate(ok);
  if (auto ok = CheckCopies(n); !ok) return Propagate(ok);
  const std::int64_t parts = n * base.degree();
  const std::int64_t count = base.node_count() * n;
  const std::int64_t sends = static_cast<std::int64_t>(schedule.sends.size()) * n * n +
                             count * (n - 1) * std::min(parts, kMaxSends / count);
  auto expanded =
      Begin(schedule, count, schedule.steps + 1, parts / std::gcd(parts, schedule.chunks), sends);
  if (!expanded) return expanded;
  const std::int64_t factor = expanded->chunks / schedule.chunks;
  for (const Send& send : schedule.sends) {
    for (std::int64_t i = 0; i < n; ++i) {
      for (std::int64_t j = 0; j < n; ++j) {
        expanded->sends.push_back({Id(send.source * n + j), Id(send.from * n + j),
                                   Id(send.to * n + i), send.step, Id(send.begin * factor),
                                   Id(send.end * factor)});
      }
    }
  }
  // Every in-neighbour of a copy sends an equal part of the other copies' shards.
  const std::int64_t part = expanded->chunks / parts;
  for (const Arc& arc : base.arcs()) {
    const auto [begin, end] = base.Into(arc.head);
    std::int64_t before = 0;
    for (std::int32_t a = begin; a < end && base.arcs()[At(a)].tail != arc.tail; ++a) {
      before += base.arcs()[At(a)].capacity * n;
    }
    for (std::int64_t k = 0; k < n; ++k) {
      const std::int64_t from = (before + k * arc.capacity) * part;
      for (std::int64_t i = 0; i < n; ++i) {
        for (std::int64_t j = 0; j < n; ++j) {
          if (i == j) continue;
          expanded->sends.push_back({Id(arc.head * n + i), Id(arc.tail * n + k),
                                     Id(arc.head * n + j), expanded->steps, Id(from),
                                     Id(from + arc.capacity * part)});
        }
      }
    }
  }
  return expanded;
}

Result<Network> BuildPower(const Network& base, std::int64_t n) {
  if (auto ok = CheckBase(base.graph); !ok) return Propagate(ok);
  if (auto ok = CheckCopies(n); !ok) return Propagate(ok);
  if (auto ok = CheckNodes(BoundedPower(base.graph.node_count(), n)); !ok) return Propagate(ok);
  Result<Network> power = base;
  for (std::int64_t i = 1; i < n && power; ++i) power = BuildProduct(*power, base);
  return power;
}

Result<Schedule> ExpandToPower(const Digraph& base, const Schedule& schedule, std::int64_t n) {
  if (auto ok = CheckBase(base); !ok) return Propagate(ok);
  if (auto ok = CheckCopies(n); !ok) return Propagate(ok);
  const std::int64_t size = base.node_count();
  const std::int64_t count = BoundedPower(size, n);
  if (auto ok = CheckNodes(count); !ok) return Propagate(ok);
  const auto base_sends = static_cast<std::int64_t>(schedule.sends.size());
  // The last of the n phases moves what is gathered in n - 1 coordinates; the earlier ones less.
  const std::int64_t most = n * n * BoundedPower(size, n - 1) * BoundedPower(size, n - 1);
  const std::int64_t sends = base_sends > kMaxSends / most ? kMaxSends + 1 : 0;
  auto power = Begin(schedule, count, n * schedule.steps, n, sends);
  if (!power) return power;
  std::vector<std::int64_t> stride(At(n), 1);  // of the coordinates
  for (std::int64_t p = n - 2; p >= 0; --p) stride[At(p)] = stride[At(p) + 1] * size;
  for (std::int64_t rotation = 0; rotation < n; ++rotation) {
    const std::int64_t shift = rotation * schedule.chunks;
    for (std::int64_t phase = 0; phase < n; ++phase) {
      const std::int64_t along = stride[At((rotation + phase) % n)];
      // What the source may differ by from the sender in the coordinates of earlier phases: each
      // sum of multiples of their strides.
      std::vector<std::int64_t> earlier;
      for (std::int64_t p = 0; p < phase; ++p) earlier.push_back(stride[At((rotation + p) % n)]);
      const std::int64_t sources = BoundedPower(size, phase);
      for (std::int64_t node = 0; node < count; ++node) {
        if (node / along % size != 0) continue;
        std::int64_t cleared = node;
        for (const std::int64_t one : earlier) cleared -= node / one % size * one;
        for (std::int64_t choice = 0; choice < sources; ++choice) {
          std::int64_t source = cleared;
          std::int64_t rest = choice;
          for (const std::int64_t one : earlier) {
            source += rest % size * one;
            rest /= size;
          }
          for (const Send& send : schedule.sends) {
            power->sends.push_back({Id(source + send.source * along), Id(node + send.from * along),
                                    Id(node + send.to * along),
                                    Id(send.step + phase * schedule.steps), Id(send.begin + shift),
                                    Id(send.end + shift)});
          }
        }
      }
    }
  }
  return power;
}

Result<Network> BuildBidirectional(const Network& base) {
  if (base.reversal.empty()) {
    return Fail(ErrorCode::kInvalidArgument,
                "no isomorphism between the network and its reverse is known");
  }
  if (auto ok = CheckBase(base.graph); !ok) return Propagate(ok);
  std::vector<Arc> arcs(base.graph.arcs().begin(), base.graph.arcs().end());
  for (const Arc& arc : base.graph.arcs()) arcs.push_back({arc.head, arc.tail, arc.capacity});
  Network both{Digraph(base.graph.node_count(), std::move(arcs)), {}};
  both.reversal.resize(At(base.graph.node_count()));
  std::iota(both.reversal.begin(), both.reversal.end(), 0);
  return both;
}

Result<Schedule> ExpandToBidirectional(const Network& base, const Schedule& schedule) {
  if (auto built = BuildBidirectional(base); !built) return Propagate(built);
  const auto sends = static_cast<std::int64_t>(2 * schedule.sends.size());
  auto both = Begin(schedule, schedule.node_count, schedule.steps, 2, sends);
  if (!both) return both;
  const std::int32_t half = Id(schedule.chunks);
  for (const Send& send : schedule.sends) {
    both->sends.push_back(send);
    both->sends.push_back({base.reversal[At(send.source)], base.reversal[At(send.from)],
                           base.reversal[At(send.to)], send.step, send.begin + half,
                           send.end + half});
  }
  return both;
}

}  // namespace espalier::synthesis
