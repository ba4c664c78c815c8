#include "collective/synthesis/schedules/verifier.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

namespace espalier::synthesis {
namespace {

std::size_t At(std::int64_t index) { return static_cast<std::size_t>(index); }

std::string Part(const Schedule& schedule, std::int32_t begin, std::int32_t end) {
  return fmt::format("[{}, {})", Rational(begin, schedule.chunks).ToString(),
                     Rational(end, schedule.chunks).ToString());
}

tl::unexpected<Error> Violation(std::string message) {
  return Fail(ErrorCode::kFailedPrecondition, std::move(message));
}

tl::unexpected<Error> BadSend(const Schedule& schedule, const Send& send, std::string_view what) {
  return Violation(fmt::format("step {}: node {} sends {} of the shard of node {} to node {}: {}",
                               send.step, send.from, Part(schedule, send.begin, send.end),
                               send.source, send.to, what));
}

// Disjoint intervals in ascending order.
class Parts {
 public:
  bool Has(std::int32_t begin, std::int32_t end) const {
    const auto after = Find(begin);
    return after != parts_.begin() && std::prev(after)->second >= end;
  }
  // Returns the first interval of [0, whole) that is not there.
  std::optional<std::pair<std::int32_t, std::int32_t>> Missing(std::int32_t whole) const {
    if (parts_.empty()) return std::pair(0, whole);
    if (parts_.front().first > 0) return std::pair(0, parts_.front().first);
    if (parts_.front().second >= whole) return std::nullopt;
    return std::pair(parts_.front().second, parts_.size() > 1 ? parts_[1].first : whole);
  }
  // Adds an interval; returns how much of it was there before.
  std::int64_t Add(std::int32_t begin, std::int32_t end) {
    std::int64_t known = 0;
    auto first = Find(begin);
    if (first != parts_.begin() && std::prev(first)->second >= begin) --first;
    std::int32_t low = begin;
    std::int32_t high = end;
    auto last = first;
    for (; last != parts_.end() && last->first <= end; ++last) {
      known += std::max(0, std::min(end, last->second) - std::max(begin, last->first));
      low = std::min(low, last->first);
      high = std::max(high, last->second);
    }
    parts_.insert(parts_.erase(first, last), {low, high});
    return known;
  }

 private:
  using Interval = std::pair<std::int32_t, std::int32_t>;
  // The first interval that begins after `begin`.
  std::vector<Interval>::const_iterator Find(std::int32_t begin) const {
    return std::upper_bound(parts_.begin(), parts_.end(), begin,
                            [](std::int32_t at, const Interval& part) { return at < part.first; });
  }
  std::vector<Interval> parts_;
};

Result<void> CheckRanges(const Digraph& graph, const Schedule& schedule) {
  const auto is_node = [&](std::int32_t node) { return node >= 0 && node < graph.node_count(); };
  if (schedule.node_count != graph.node_count()) {
    return Violation(fmt::format("the schedule is for {} nodes, the network has {}",
                                 schedule.node_count, graph.node_count()));
  }
  if (schedule.chunks < 1 || schedule.chunks > kMaxChunks || schedule.steps < 0 ||
      schedule.reduce_steps < 0 || schedule.reduce_steps > schedule.steps) {
    return Violation("the numbers of chunks or steps are out of range");
  }
  const bool reduces = schedule.reduce_steps > 0;
  const bool gathers = schedule.reduce_steps < schedule.steps;
  if ((reduces && schedule.collective == Collective::kAllgather) ||
      (gathers && schedule.collective == Collective::kReduceScatter)) {
    return Violation(fmt::format("{} of {} steps reduce, which does not suit the collective",
                                 schedule.reduce_steps, schedule.steps));
  }
  for (const Send& send : schedule.sends) {
    if (!is_node(send.source) || !is_node(send.from) || !is_node(send.to) || send.begin < 0 ||
        send.begin >= send.end || send.end > schedule.chunks || send.step < 1 ||
        send.step > schedule.steps) {
      return BadSend(schedule, send, "a number is out of range");
    }
    if (graph.Find(send.from, send.to) < 0) return BadSend(schedule, send, "there is no such link");
  }
  return {};
}

// Follows the sends of one phase. A reduction is followed backwards in time: what the sum of node v
// is made of spreads from v over reversed links, and must reach each node exactly once.
class Phase {
 public:
  Phase(const Schedule& schedule, bool reduces) : schedule_(schedule), reduces_(reduces) {
    for (const Send& send : schedule.sends) {
      if ((send.step <= schedule.reduce_steps) == reduces) order_.push_back(&send);
    }
    std::sort(order_.begin(), order_.end(), [&](const Send* x, const Send* y) {
      return std::pair(x->source, Time(*x)) < std::pair(y->source, Time(*y));
    });
  }

  Result<void> Check() {
    auto next = order_.begin();
    for (std::int32_t source = 0; source < schedule_.node_count; ++source) {
      const auto begin = next;
      while (next != order_.end() && (*next)->source == source) ++next;
      if (auto ok = Follow(source, {begin, next}); !ok) return ok;
    }
    return {};
  }

  std::int64_t duplicates() const { return duplicates_; }

 private:
  std::int32_t Time(const Send& send) const { return reduces_ ? -send.step : send.step; }
  std::int32_t Giver(const Send& send) const { return reduces_ ? send.to : send.from; }
  std::int32_t Taker(const Send& send) const { return reduces_ ? send.from : send.to; }

  Result<void> Follow(std::int32_t source, std::span<const Send* const> sends) {
    const auto whole = static_cast<std::int32_t>(schedule_.chunks);
    std::vector<Parts> held(At(schedule_.node_count));
    held[At(source)].Add(0, whole);
    for (std::size_t begin = 0, end = 0; begin < sends.size(); begin = end) {
      while (end < sends.size() && sends[end]->step == sends[begin]->step) ++end;
      for (const Send* send : sends.subspan(begin, end - begin)) {
        if (held[At(Giver(*send))].Has(send->begin, send->end)) continue;
        return BadSend(schedule_, *send,
                       reduces_ ? "the receiver does not pass it on later"
                                : "the sender has not received it before");
      }
      for (const Send* send : sends.subspan(begin, end - begin)) {
        const std::int64_t known = held[At(Taker(*send))].Add(send->begin, send->end);
        if (known > 0 && reduces_) {
          return BadSend(
              schedule_, *send,
              Taker(*send) == source ? "that node must keep it" : "it would be added twice");
        }
        duplicates_ += known;
      }
    }
    for (std::int32_t node = 0; node < schedule_.node_count; ++node) {
      const auto missing = held[At(node)].Missing(whole);
      if (!missing) continue;
      return Violation(fmt::format("node {} never {} {} of the shard of node {}", node,
                                   reduces_ ? "sends its part" : "receives",
                                   Part(schedule_, missing->first, missing->second), source));
    }
    return {};
  }

  const Schedule& schedule_;
  bool reduces_;
  std::vector<const Send*> order_;  // by source, then in the order in which they are followed
  std::int64_t duplicates_ = 0;
};

}  // namespace

Result<ScheduleCost> ComputeCost(const Digraph& graph, const Schedule& schedule) {
  if (auto ok = CheckRanges(graph, schedule); !ok) return Propagate(ok);
  ScheduleCost cost{.steps = schedule.steps, .t_b = {}, .step_loads = {}, .duplicate_chunks = 0};
  std::vector<std::vector<const Send*>> by_step(At(schedule.steps));
  for (const Send& send : schedule.sends) by_step[At(send.step - 1)].push_back(&send);
  std::vector<std::int64_t> load(graph.arcs().size(), 0);
  std::optional<Rational> sum = Rational();
  for (const auto& sends : by_step) {
    std::vector<std::int32_t> touched;
    for (const Send* send : sends) {
      const std::int32_t arc = graph.Find(send->from, send->to);
      if (load[At(arc)] == 0) touched.push_back(arc);
      load[At(arc)] += send->end - send->begin;
    }
    StepLoad& busiest = cost.step_loads.emplace_back();
    for (const std::int32_t arc : touched) {
      const Arc& link = graph.arcs()[At(arc)];
      const Rational relative(load[At(arc)], forest::Int128{link.capacity} * schedule.chunks);
      if (relative > busiest.load) busiest = {relative, link.tail, link.head};
      load[At(arc)] = 0;
    }
    if (sum) sum = Rational::Sum(*sum, busiest.load);
  }
  if (sum) sum = Rational::Product(*sum, Rational(graph.degree(), graph.node_count()));
  if (!sum) {
    return Fail(ErrorCode::kResourceExhausted,
                "the exact cost of the schedule exceeds 127 bits (round the bandwidths)");
  }
  cost.t_b = *sum;
  return cost;
}

Result<ScheduleCost> VerifySchedule(const Digraph& graph, const Schedule& schedule) {
  auto cost = ComputeCost(graph, schedule);
  if (!cost) return cost;
  if (schedule.collective != Collective::kAllgather) {
    if (auto ok = Phase(schedule, true).Check(); !ok) return Propagate(ok);
  }
  if (schedule.collective != Collective::kReduceScatter) {
    Phase gather(schedule, false);
    if (auto ok = gather.Check(); !ok) return Propagate(ok);
    cost->duplicate_chunks = gather.duplicates();
  }
  return cost;
}

}  // namespace espalier::synthesis
