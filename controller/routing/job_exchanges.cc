#include "controller/routing/job_exchanges.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <tuple>

#include "common/base/check.h"
#include "controller/routing/path_exchange.h"

namespace espalier::controller {
namespace {

constexpr double kRounding = 1e-9;
constexpr std::size_t kMostPartners = 4;  // that are tried for a sender that is to leave its link

bool IsLess(double a, double b) { return a < b * (1 - kRounding); }

double MostDebt(const std::set<std::uint32_t>& jobs, std::span<const double> debts) {
  double most = 0;
  for (const std::uint32_t job : jobs) most = std::max(most, debts[job]);
  return most;
}

std::set<std::uint32_t> Without(const std::set<std::uint32_t>& jobs,
                                const std::set<std::uint32_t>& others) {
  std::set<std::uint32_t> left;
  std::ranges::set_difference(jobs, others, std::inserter(left, left.end()));
  return left;
}

}  // namespace

// How unevenly the usable links between switches are loaded.
struct JobExchanges::Spread {
  double most = 0;          // of a link, relative to its capacity
  std::size_t at_most = 0;  // links with that load
  double squares = 0;       // of loads, each relative to the capacity

  bool IsWorseThan(const Spread& other) const {
    if (IsLess(other.most, most) || IsLess(other.squares, squares)) return true;
    return !IsLess(most, other.most) && at_most > other.at_most;
  }
};

struct JobExchanges::Search {
  OnlineAssigner& assigner;
  std::span<const double> debts;
  const Limits& limits;
  std::set<std::uint32_t> before;   // slowed jobs
  std::set<std::uint32_t> to_slow;  // jobs that are slowed whatever is done, or chosen to be
  Spread spread;
  Choice choice;
};

JobExchanges::JobExchanges(const FabricView& view, const OnlineAssigner& assigner,
                           std::span<const Sender> senders,
                           std::span<const std::int64_t> idle_loads)
    : view_(view), assigner_(assigner), senders_(senders), idle_loads_(idle_loads) {
  ESPALIER_CHECK(view.clos().has_value());
}

bool JobExchanges::MayBeUneven(const FabricView& view, std::span<const std::int64_t> loads) {
  constexpr double kUnset = std::numeric_limits<double>::max();
  std::vector<std::pair<double, double>> bounds(2 * std::size_t{view.leaf_count()}, {kUnset, 0});
  view.ForEachLeafLink([&](std::uint32_t leaf, std::uint32_t link, bool leaves_it) {
    if (view.capacities()[link] == 0 || loads[link] == 0) return;
    const double relative = static_cast<double>(loads[link]) / view.capacities_bps()[link];
    auto& [least, most] = bounds[leaves_it ? leaf : view.leaf_count() + leaf];
    least = std::min(least, relative);
    most = std::max(most, relative);
  });
  return std::ranges::any_of(bounds,
                             [](const auto& bound) { return IsLess(bound.first, bound.second); });
}

std::uint32_t JobExchanges::LeafOf(const Sender& sender, bool leaves_it) const {
  return leaves_it ? assigner_.SourceOf(sender.subflow) : assigner_.DestinationOf(sender.subflow);
}

std::uint32_t JobExchanges::LinkOf(const Sender& sender, bool leaves_it) const {
  const PathLinks links = assigner_.LinksOf(sender.subflow);
  return *(leaves_it ? links.begin() : links.begin() + 1);
}

JobExchanges::Rates JobExchanges::ComputeRates() const {
  Rates rates{.of_links = std::vector<double>(view_.capacities().size()),
              .of_sides = std::vector<double>(2 * std::size_t{view_.leaf_count()})};
  for (const Sender& sender : senders_) {
    for (const bool leaves_it : {true, false}) {
      const std::uint32_t link = LinkOf(sender, leaves_it);
      double& rate = rates.of_links[link];
      if (rate == 0) {
        const std::int64_t load = assigner_.LoadOf(link) - idle_loads_[link];
        rate = view_.capacities_bps()[link] * static_cast<double>(kLoadUnit) /
               static_cast<double>(std::max<std::int64_t>(load, kLoadUnit));
      }
      const std::uint32_t leaf = LeafOf(sender, leaves_it);
      double& best = rates.of_sides[leaves_it ? leaf : view_.leaf_count() + leaf];
      best = std::max(best, rate);
    }
  }
  return rates;
}

double JobExchanges::FairOf(const Rates& rates, const Sender& sender) const {
  return std::min({sender.nic_bps, rates.of_sides[LeafOf(sender, true)],
                   rates.of_sides[view_.leaf_count() + LeafOf(sender, false)]});
}

bool JobExchanges::IsSlowed(const Rates& rates, const Sender& sender) const {
  const double fair = FairOf(rates, sender);
  return IsLess(rates.of_links[LinkOf(sender, true)], fair) ||
         IsLess(rates.of_links[LinkOf(sender, false)], fair);
}

std::set<std::uint32_t> JobExchanges::SlowedJobs() const {
  const Rates rates = ComputeRates();
  std::set<std::uint32_t> jobs;
  for (const Sender& sender : senders_) {
    if (IsSlowed(rates, sender)) jobs.insert(sender.job);
  }
  return jobs;
}

JobExchanges::Spread JobExchanges::ComputeSpread() const {
  std::vector<double> relative;
  Spread spread;
  for (std::uint32_t link = 0; link < view_.capacities().size(); ++link) {
    if (view_.capacities()[link] == 0 || !view_.IsSwitchLink(link)) continue;
    const double capacity = view_.capacities_bps()[link] / static_cast<double>(view_.unit_bps());
    const double load =
        static_cast<double>(assigner_.LoadOf(link)) / static_cast<double>(kLoadUnit);
    relative.push_back(load / capacity);
    spread.most = std::max(spread.most, load / capacity);
    spread.squares += load * load / capacity;
  }
  spread.at_most = static_cast<std::size_t>(
      std::ranges::count_if(relative, [&](double load) { return !IsLess(load, spread.most); }));
  return spread;
}

// Problem: which flows are to be on the links that slow, so that all jobs have their turn and few
// are slow at a time.
// Idea: the places on these links are given away leaf by leaf. At each leaf, the flows of jobs that
// are slowed anyway come first, then those of the least debt. A job that is not slowed now counts
// as if it had `worth` more, so nothing changes until it has that much less. What comes out is
// judged as a whole, as one flow that stays on such a link is enough to slow its job.
// Invariant: on the links of the leaf an exchange changes no load.
JobExchanges::Choice JobExchanges::Choose(OnlineAssigner& assigner, std::span<const double> debts,
                                          const Limits& limits) {
  Search search{.assigner = assigner, .debts = debts, .limits = limits, .before = SlowedJobs()};
  if (search.before.empty()) return {};
  search.spread = ComputeSpread();
  const Rates rates = ComputeRates();
  std::set<std::pair<std::uint32_t, bool>> sides;
  for (const Sender& sender : senders_) {
    if (!IsSlowed(rates, sender)) continue;
    if (!sender.may_move) search.to_slow.insert(sender.job);
    for (const bool leaves_it : {true, false}) sides.emplace(LeafOf(sender, leaves_it), leaves_it);
  }
  for (const auto& [leaf, leaves_it] : sides) ChooseAt(search, leaf, leaves_it);
  const bool is_worth_it = IsWorthIt(search);
  TakeBack(assigner, search.choice.moves);
  if (is_worth_it) return std::move(search.choice);
  return {.is_refused = search.choice.is_refused || !search.choice.moves.empty()};
}

void JobExchanges::ChooseAt(Search& search, std::uint32_t leaf, bool leaves_it) const {
  const Rates rates = ComputeRates();
  struct Candidate {
    std::uint32_t sender = 0;
    bool is_there = false;  // on a link that slows it
    double fair = 0;
  };
  std::vector<Candidate> candidates;
  std::vector<SubflowId> stay;
  double slowest = std::numeric_limits<double>::max();
  std::size_t places = 0;
  for (std::uint32_t i = 0; i < senders_.size(); ++i) {
    const Sender& sender = senders_[i];
    if (!sender.may_move || LeafOf(sender, leaves_it) != leaf) continue;
    const double rate = rates.of_links[LinkOf(sender, leaves_it)];
    const double fair = FairOf(rates, sender);
    candidates.push_back({i, IsLess(rate, fair), fair});
    stay.push_back(sender.subflow);
    if (!candidates.back().is_there) continue;
    ++places;
    slowest = std::min(slowest, rate);
  }
  const auto rank = [&](const Candidate& candidate) {
    const std::uint32_t job = senders_[candidate.sender].job;
    const double debt = search.debts[job] + (search.before.contains(job) ? 0 : search.limits.worth);
    const bool would_be_slowed = IsLess(slowest, candidate.fair);
    return std::tuple(would_be_slowed, !search.to_slow.contains(job), debt, job,
                      !candidate.is_there);
  };
  std::ranges::stable_sort(candidates, {}, rank);
  std::vector<std::uint32_t> coming;
  std::vector<std::uint32_t> leaving;  // the one of most debt first
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const bool gets_a_place = i < places;
    const Candidate& candidate = candidates[i];
    if (gets_a_place && !candidate.is_there) coming.push_back(candidate.sender);
    if (!gets_a_place && candidate.is_there) leaving.insert(leaving.begin(), candidate.sender);
  }
  Exchange(search, leaving, coming, stay);
  const Rates after = ComputeRates();
  for (const Candidate& candidate : candidates) {
    const Sender& sender = senders_[candidate.sender];
    if (IsSlowed(after, sender) &&
        IsLess(after.of_links[LinkOf(sender, leaves_it)], candidate.fair))
      search.to_slow.insert(sender.job);
  }
}

void JobExchanges::Exchange(Search& search, std::span<const std::uint32_t> leaving,
                            std::span<const std::uint32_t> coming,
                            std::span<const SubflowId> stay) const {
  std::vector<std::uint32_t> left(coming.begin(), coming.end());
  for (const std::uint32_t slow : leaving) {
    std::size_t tries = 0;
    for (std::size_t i = 0; i < left.size() && tries < kMostPartners; ++i) {
      if (senders_[left[i]].job == senders_[slow].job) continue;
      ++tries;
      if (!TryExchange(search, slow, left[i], stay)) continue;
      left.erase(left.begin() + static_cast<std::ptrdiff_t>(i));
      break;
    }
  }
}

bool JobExchanges::TryExchange(Search& search, std::uint32_t leaving, std::uint32_t coming,
                               std::span<const SubflowId> stay) const {
  std::vector<OnlineAssigner::Move>& moves = search.choice.moves;
  if (moves.size() + 2 > search.limits.most_moves) {
    search.choice.is_refused = true;
    return false;
  }
  OnlineAssigner::Options chain = search.limits.chain;
  const std::size_t room = search.limits.most_moves - moves.size() - 2;
  chain.max_moves = std::min(chain.max_moves, room);
  const auto made = ExchangeSpines(view_, search.assigner, senders_[leaving].subflow,
                                   senders_[coming].subflow, stay, chain);
  const Spread spread = ComputeSpread();
  if (made.empty() || spread.IsWorseThan(search.spread)) {
    TakeBack(search.assigner, made);
    search.choice.is_refused = true;
    return false;
  }
  search.spread = spread;
  moves.insert(moves.end(), made.begin(), made.end());
  search.choice.exchanged.emplace_back(leaving, coming);
  return true;
}

bool JobExchanges::IsWorthIt(const Search& search) const {
  if (search.choice.exchanged.empty()) return false;
  const std::set<std::uint32_t> after = SlowedJobs();
  const auto freed = Without(search.before, after);
  const auto slowed = Without(after, search.before);
  if (freed.empty()) return false;
  return slowed.empty() || MostDebt(slowed, search.debts) + search.limits.worth <=
                               MostDebt(freed, search.debts) * (1 + kRounding);
}

}  // namespace espalier::controller
