#include "controller/discovery/next_hop_samples.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "controller/discovery/stop_rule.h"

namespace espalier::discovery {

std::vector<NextHopChoice> CountNextHops(std::span<const CleanTrace> traces,
                                         const DiscoveredFabric& fabric,
                                         const SwitchOfHop& switch_of) {
  std::map<SwitchIndex, NextHopChoice> choices;
  std::map<SwitchIndex, std::set<IpAddress>> next_hops;
  for (const CleanTrace& trace : traces) {
    const auto leaf = switch_of(trace, 0);
    for (std::size_t hop = 0; hop + 1 < kMostHops; ++hop) {
      if (!trace.Has(hop + 1)) continue;
      const auto from = switch_of(trace, hop);
      const auto to = switch_of(trace, hop + 1);
      if (!from || !to || fabric.switches[*to].tier <= fabric.switches[*from].tier) continue;
      NextHopChoice& choice = choices[*from];
      choice.at = *from;
      ++choice.answers;
      if (leaf) choice.leaves.insert(*leaf);
      next_hops[*from].insert(trace.At(hop + 1));
    }
  }
  std::vector<NextHopChoice> counted;
  for (auto& [at, choice] : choices) {
    choice.next_hops = next_hops[at].size();
    counted.push_back(std::move(choice));
  }
  return counted;
}

double ConfidenceOf(std::span<const NextHopChoice> choices) {
  if (choices.empty()) return 0;
  double missing = 0;
  for (const NextHopChoice& choice : choices) {
    missing += ChanceOfOneMore(choice.next_hops, choice.answers);
  }
  return std::max(0.0, 1 - missing);
}

}  // namespace espalier::discovery
