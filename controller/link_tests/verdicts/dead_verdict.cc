#include "controller/link_tests/verdicts/dead_verdict.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

namespace espalier::controller {

using fabric::DirectedLink;

namespace {

// Trains between the same hosts that were sent within this time compare with each other.
constexpr Duration kSameTime = std::chrono::milliseconds(1'500);
// Trains that were sent within this time of silent ones show how busy their hosts were.
constexpr Duration kMeanwhile = std::chrono::milliseconds(250);

std::size_t LeftWithout(const std::vector<const TrainOutcome*>& trains,
                        const std::set<AgentId>& hosts) {
  return static_cast<std::size_t>(std::ranges::count_if(trains, [&](const TrainOutcome* train) {
    return !hosts.contains(train->sender) && !hosts.contains(train->receiver);
  }));
}

// The smallest number of trains that are left without any one host or without the f worst.
std::size_t LeastLeft(const std::vector<const TrainOutcome*>& trains, std::size_t liars) {
  std::map<AgentId, std::size_t> of_host;
  for (const TrainOutcome* train : trains) {
    ++of_host[train->sender];
    ++of_host[train->receiver];
  }
  std::vector<std::pair<std::size_t, AgentId>> order;
  for (const auto& [host, count] : of_host) order.emplace_back(count, host);
  std::ranges::sort(order, std::greater<>(), [](const auto& of) { return of.first; });
  std::size_t least = trains.size();
  std::set<AgentId> worst;
  for (const auto& [count, host] : order) {
    least = std::min(least, LeftWithout(trains, {host}));
    if (worst.size() < liars) worst.insert(host);
  }
  return std::min(least, LeftWithout(trains, worst));
}

}  // namespace

bool DeadVerdict::HasPassedElsewhere(const TrainOutcome& silent) const {
  bool has_passed = false;
  evidence_.ForEach(silent.uplink, silent.at - kSameTime, [&](const TrainOutcome& other) {
    has_passed = has_passed || (other.receiver == silent.receiver && !other.IsSilent() &&
                                other.at <= silent.at + kSameTime);
  });
  return has_passed;
}

bool DeadVerdict::HasPassed(DirectedLink link, TimePoint since) const {
  bool has_passed = false;
  evidence_.ForEach(link, since, [&](const TrainOutcome& other) {
    has_passed = has_passed || !other.IsSilent();
  });
  return has_passed;
}

std::size_t DeadVerdict::CountMoments(const std::vector<const TrainOutcome*>& trains) const {
  std::vector<TimePoint> times;
  for (const TrainOutcome* train : trains) times.push_back(train->at);
  std::ranges::sort(times);
  std::size_t moments = 0;
  TimePoint began{};
  for (const TimePoint at : times) {
    if (moments > 0 && at - began < full_queue_) continue;
    began = at;
    ++moments;
  }
  return moments;
}

bool DeadVerdict::IsBeyondChance(DirectedLink link, const std::vector<const TrainOutcome*>& silent,
                                 const KnownFaults& known) const {
  std::set<std::size_t> uplinks;
  std::set<std::size_t> downlinks;
  TimePoint first = TimePoint::max();
  TimePoint last = TimePoint::min();
  for (const TrainOutcome* train : silent) {
    uplinks.insert(train->uplink.Index());
    downlinks.insert(train->downlink.Index());
    first = std::min(first, train->at);
    last = std::max(last, train->at);
  }
  std::map<std::size_t, bool> passed;  // by DirectedLink::Index; silent ones may be dead, too
  const auto may_be_dead = [&](DirectedLink hop) {
    const auto [known_of, is_new] = passed.try_emplace(hop.Index());
    if (is_new) known_of->second = HasPassed(hop, first - kMeanwhile);
    return !known_of->second;
  };
  std::size_t all = 0;
  std::size_t lost = 0;
  const auto count = [&](const TrainOutcome& other) {
    const bool compares = other.at <= last + kMeanwhile && !other.Crosses(link) &&
                          !known.Explains(other) && std::ranges::none_of(other.hops, may_be_dead);
    if (!compares) return;
    ++all;
    lost += other.IsSilent() ? 1 : 0;
  };
  for (const std::size_t index : uplinks) {
    evidence_.ForEach(DirectedLink::FromIndex(index), first - kMeanwhile, count);
  }
  for (const std::size_t index : downlinks) {
    evidence_.ForEach(DirectedLink::FromIndex(index), first - kMeanwhile,
                      [&](const TrainOutcome& other) {
                        if (!uplinks.contains(other.uplink.Index())) count(other);
                      });
  }
  const double part = static_cast<double>(lost + 1) / static_cast<double>(all + 2);
  const double certain = std::log(1e6 * static_cast<double>(evidence_.directions()));
  return -std::log(part) * static_cast<double>(CountMoments(silent)) >= certain;
}

DeadVerdict::Answer DeadVerdict::Judge(DirectedLink link, const KnownFaults& known,
                                       TimePoint now) const {
  TimePoint passed = now - kMemory;
  std::vector<const TrainOutcome*> silent;
  evidence_.ForEach(link, now - kMemory, [&](const TrainOutcome& outcome) {
    if (!outcome.IsSilent()) {
      passed = std::max(passed, outcome.at);
    } else if (!known.Explains(outcome)) {
      silent.push_back(&outcome);
    }
  });
  std::erase_if(silent, [&](const TrainOutcome* train) {
    return train->at <= passed || !HasPassedElsewhere(*train);
  });
  Answer answer;
  if (silent.empty()) return answer;
  std::set<AgentId> senders;
  std::set<AgentId> receivers;
  TimePoint first = TimePoint::max();
  TimePoint last = TimePoint::min();
  LinkFault fault{.kind = LinkFault::Kind::kDead, .direction = link};
  std::map<std::size_t, std::size_t> crossed;
  for (const TrainOutcome* train : silent) {
    senders.insert(train->sender);
    receivers.insert(train->receiver);
    first = std::min(first, train->at);
    last = std::max(last, train->at);
    fault.test.lost += train->sent;
    fault.test.sent += train->sent;
    train->ForEachLink([&](DirectedLink other) { ++crossed[other.Index()]; });
  }
  for (const auto& [index, count] : crossed) {
    const DirectedLink other = DirectedLink::FromIndex(index);
    const bool is_rival = other != link && count == silent.size() && !HasPassed(other, first);
    if (!is_rival) continue;
    if (!are_series_(link, other)) {
      answer.rivals.insert(index);
    } else if (are_series_(other, link)) {
      fault.alternatives.push_back(other);
    }
  }
  // What passed since the last silent train may not be reported yet.
  const Duration least_span = std::max<Duration>(kLeastSpan, now - last);
  const bool is_enough =
      silent.size() >= kLeastTrains && last - first >= least_span &&
      senders.size() >= LinkVerdict::kLeastHosts && receivers.size() >= LinkVerdict::kLeastHosts &&
      LeastLeft(silent, liars_(link)) >= kLeastLeft && IsBeyondChance(link, silent, known);
  if (!is_enough || !answer.rivals.empty()) return answer;
  fault.senders = senders.size();
  fault.receivers = receivers.size();
  answer.fault = fault;
  return answer;
}

}  // namespace espalier::controller
