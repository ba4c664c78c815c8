#include "controller/link_tests/link_doubts.h"

#include <algorithm>
#include <cmath>

namespace espalier::controller {

using fabric::DirectedLink;

namespace {

constexpr double kForgotten = 0.05;  // votes
constexpr double kOfSweep = 1e6;     // added to the score of links that the sweep suspects

}  // namespace

double LinkDoubts::Faded(double votes, TimePoint since, TimePoint now) {
  return votes * std::exp2(-SecondsOf(now - since) / SecondsOf(kVoteHalfLife));
}

double LinkDoubts::VotesOf(const Doubt& doubt, TimePoint now) {
  return Faded(doubt.votes, doubt.voted, now);
}

void LinkDoubts::HandleRepeats(AgentId host, const std::string& name,
                               std::span<const DirectedLink> links, TimePoint now) {
  if (links.empty()) return;
  Host& voter = hosts_[host];
  if (now - voter.second >= std::chrono::seconds(1)) {
    voter.name = name;
    voter.repeats = Faded(voter.repeats, voter.second, now) + 1;
    voter.votes = 0;
    voter.second = now;
  }
  const double vote = 1.0 - voter.votes;
  if (vote <= 0) return;
  voter.votes += vote;
  for (const DirectedLink link : links) {
    Doubt& doubt = doubts_[link.Index()];
    doubt.votes = VotesOf(doubt, now) + vote / static_cast<double>(links.size());
    doubt.voted = now;
    doubt.hosts.insert_or_assign(name, host);
  }
}

void LinkDoubts::SetSuspicion(DirectedLink link, double logarithm, TimePoint now) {
  const auto known = doubts_.find(link.Index());
  if (known == doubts_.end() && logarithm < kLeastSuspicion) return;
  Doubt& doubt = doubts_[link.Index()];
  if (doubt.voted == TimePoint{}) doubt.voted = now;
  doubt.suspicion = logarithm;
}

TimePoint LinkDoubts::EvidenceSince(DirectedLink link) const {
  const auto known = doubts_.find(link.Index());
  return known == doubts_.end() ? TimePoint{} : known->second.acquitted;
}

void LinkDoubts::Acquit(DirectedLink link, TimePoint now) {
  std::erase_if(focus_, [&](const Focus& focus) { return focus.link == link; });
  Doubt& doubt = doubts_[link.Index()];
  doubt.votes = 0;
  doubt.voted = now;
  doubt.hosts.clear();
  doubt.suspicion = 0;
  doubt.acquitted = now;
  doubt.rests_until = now + doubt.rest;
  doubt.rest = std::min<Duration>(2 * doubt.rest, std::chrono::hours(1));
}

void LinkDoubts::Accuse(DirectedLink link) {
  std::erase_if(focus_, [&](const Focus& focus) { return focus.link == link; });
  doubts_.erase(link.Index());
}

std::pair<std::size_t, double> LinkDoubts::Next(TimePoint now) {
  std::pair<std::size_t, double> best{0, 0};
  for (const auto& [index, doubt] : doubts_) {
    const auto is_it = [at = index](const Focus& focus) { return focus.link.Index() == at; };
    if (std::ranges::any_of(focus_, is_it)) continue;
    const bool by_sweep = doubt.suspicion >= kLeastSuspicion;
    const bool by_hosts = VotesOf(doubt, now) >= kLeastVotes && now >= doubt.rests_until &&
                          std::ranges::any_of(doubt.hosts, [&](const auto& host) {
                            return now >= hosts_[host.second].may_focus;
                          });
    if (!by_sweep && !by_hosts) continue;
    // What trains have shown comes before what hosts say.
    const double score = by_sweep ? kOfSweep + doubt.suspicion : VotesOf(doubt, now);
    if (score > best.second) best = {index, score};
  }
  return best;
}

void LinkDoubts::Update(TimePoint now) {
  std::erase_if(doubts_, [&](const auto& of) {
    const Doubt& doubt = of.second;
    return VotesOf(doubt, now) < kForgotten && doubt.suspicion < kLeastSuspicion &&
           now >= doubt.rests_until + 2 * doubt.rest;
  });
  for (std::size_t i = focus_.size(); i > 0; --i) {
    if (now - focus_[i - 1].since >= kLongest) Acquit(focus_[i - 1].link, now);
  }
  while (focus_.size() < kMostInFocus) {
    const auto [index, score] = Next(now);
    if (score == 0) break;
    Focus opened{.link = DirectedLink::FromIndex(index), .since = now};
    if (score >= kOfSweep) opened.suspected_by.insert("sweep");
    for (const auto& [name, host] : doubts_[index].hosts) {
      opened.suspected_by.insert(name);
      if (score < kOfSweep) hosts_[host].may_focus = now + kHostPause;
    }
    focus_.push_back(std::move(opened));
  }
  for (Focus& focus : focus_) focus.suspicion = doubts_[focus.link.Index()].suspicion;
  UpdateUnexplained(now);
}

void LinkDoubts::UpdateUnexplained(TimePoint now) {
  Unexplained found{.since = unexplained_.hosts.empty() ? now : unexplained_.since,
                    .worst = unexplained_.worst};
  // That trains have acquitted the links of its paths does not explain what a host repeats.
  for (const auto& [id, host] : hosts_) {
    if (Faded(host.repeats, host.second, now) >= kLeastVotes) found.hosts.insert(host.name);
  }
  double most = 0;
  for (const auto& [index, doubt] : doubts_) {
    const double votes = VotesOf(doubt, now);
    if (votes <= most) continue;
    most = votes;
    found.worst = DirectedLink::FromIndex(index);
  }
  unexplained_ = std::move(found);
}

}  // namespace espalier::controller
