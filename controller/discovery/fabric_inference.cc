#include "controller/discovery/fabric_inference.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "controller/discovery/address_traits.h"
#include "controller/discovery/next_hop_samples.h"
#include "controller/discovery/switch_sets.h"

namespace espalier::discovery {
namespace {

using Element = SwitchSets::Element;

// With so many probes unanswered at a hop whose next one answered, and none answered, its switch
// counts as silent. By losses alone, of a third of the answers, that happens once in 100, and its
// other addresses would have to be lost, too.
constexpr std::size_t kSilences = 4;

class Inference {
 public:
  explicit Inference(const ProbeEvidence& evidence)
      : evidence_(evidence),
        traces_(CleanTraces(evidence, fabric_.contradictions)),
        groups_(evidence.endpoints().size(), traces_),
        traits_(evidence, traces_, groups_),
        sets_(evidence, traces_, groups_, traits_) {}

  DiscoveredFabric Infer() {
    JoinSilentSwitches();
    AddSwitches();
    AddLinks();
    AttachNics();
    ArrangeTiers(fabric_, leaves_);
    fabric_.choices = CountNextHops(traces_, fabric_, [this](const CleanTrace& trace, auto hop) {
      const auto element = sets_.OfHop(trace, hop);
      return element ? FindSwitch(*element) : std::nullopt;
    });
    fabric_.confidence = ConfidenceOf(fabric_.choices);
    CountAnswering();
    Report();
    return std::move(fabric_);
  }

 private:
  // Elements whose switch some probe has shown: by an answer, or as the first one of an endpoint of
  // which anything is known.
  void FindAnswered() {
    for (const CleanTrace& trace : traces_) {
      for (std::size_t hop = 0; hop < kMostHops; ++hop) {
        if (!trace.Has(hop)) continue;
        if (const auto at = sets_.OfHop(trace, hop)) answered_.insert(sets_.Find(*at));
        if (hop == 1) located_.insert(trace.trace->source);
      }
      if (sets_.FirstAnswerOf(trace.trace->source)) located_.insert(trace.trace->source);
      if (trace.arrived && trace.hops == 1) {
        located_.insert(trace.trace->source);
        located_.insert(trace.trace->destination);
      }
      if (trace.arrived && trace.hops > 1 && trace.Has(trace.hops - 1)) {
        located_.insert(trace.trace->destination);
      }
    }
    for (const EndpointIndex endpoint : located_) {
      if (sets_.with_uplinks().contains(endpoint)) continue;
      answered_.insert(sets_.Find(sets_.FirstSwitchOf(endpoint)));
    }
  }

  // Far ends of interfaces that never answer though they were asked often enough.
  std::set<Element> FindSilent() const {
    std::map<IpAddress, std::size_t> unanswered;  // one hop before this address
    for (const CleanTrace& trace : traces_) {
      for (std::size_t hop = 1; hop < kMostHops; ++hop) {
        if (!trace.Has(hop)) continue;
        if (trace.trace->hops[hop - 1] == Trace::Hop::kSilent) ++unanswered[trace.At(hop)];
      }
    }
    std::map<Element, std::size_t> of_set;
    for (const auto& each : sets_.interfaces()) {
      const auto count = unanswered.find(each.address);
      if (count != unanswered.end()) of_set[sets_.Find(each.far_end)] += count->second;
    }
    std::set<Element> silent;
    for (const auto& [set, count] : of_set) {
      if (count >= kSilences && !answered_.contains(set)) silent.insert(set);
    }
    return silent;
  }

  // A path from a switch with one silent neighbour through a silent switch leads through that
  // neighbour. Where a switch has several, nothing says which of their links belong together.
  void JoinSilentSwitches() {
    FindAnswered();
    const std::set<Element> silent = FindSilent();
    std::map<Element, std::set<Element>> neighbours;  // silent ones, by a switch that answers
    std::map<IpAddress, Element> far_ends;
    for (const auto& each : sets_.interfaces()) {
      far_ends[each.address] = each.far_end;
      const Element far = sets_.Find(each.far_end);
      if (silent.contains(far)) neighbours[sets_.Find(*sets_.OfAddress(each.address))].insert(far);
    }
    std::vector<std::pair<Element, Element>> same;
    for (const CleanTrace& trace : traces_) {
      for (std::size_t hop = 2; hop < kMostHops; ++hop) {
        if (!trace.Has(hop) || trace.Has(hop - 1)) continue;
        const auto far = far_ends.find(trace.At(hop));
        const auto before = sets_.OfHop(trace, hop - 2);
        if (far == far_ends.end() || !before || !silent.contains(sets_.Find(far->second))) continue;
        const auto found = neighbours.find(sets_.Find(*before));
        if (found == neighbours.end() || found->second.size() != 1) continue;
        same.emplace_back(*found->second.begin(), far->second);
      }
    }
    std::size_t most = 0;
    for (const auto& [at, far] : neighbours) most = std::max(most, far.size());
    if (most > 1) {
      fabric_.missing.push_back(fmt::format(
          "{} switches answer no probe, and which links belong to which of them stays unknown (let "
          "them answer, or add a file that has their links)",
          most));
      return;
    }
    for (const auto& [a, b] : same) sets_.Unite(a, b);
    for (const Element set : silent) silent_.insert(sets_.Find(set));
  }

  std::optional<SwitchIndex> FindSwitch(Element element) const {
    const auto found = index_.find(sets_.Find(element));
    if (found == index_.end()) return std::nullopt;
    return found->second;
  }

  void AddSwitches() {
    // Joins of silent switches may have changed which element stands for a set.
    std::set<Element> sets;
    for (const Element element : answered_) sets.insert(sets_.Find(element));
    sets.insert(silent_.begin(), silent_.end());
    for (const Element set : sets) {
      index_.emplace(set, fabric_.switches.size());
      fabric_.switches.push_back({.is_silent = silent_.contains(set)});
    }
    for (const auto& [address, element] : sets_.addresses()) {
      if (const auto at = FindSwitch(element)) fabric_.switches[*at].addresses.push_back(address);
    }
    for (std::size_t i = 0; i < evidence_.endpoints().size(); ++i) {
      const auto endpoint = static_cast<EndpointIndex>(i);
      if (!located_.contains(endpoint)) continue;
      if (const auto at = FindSwitch(sets_.FirstSwitchOf(endpoint))) leaves_.insert(*at);
    }
    for (const auto& [endpoint, answers] : sets_.with_uplinks()) {
      for (const IpAddress& answer : answers) {
        const auto element = sets_.OfAddress(answer);
        if (const auto at = element ? FindSwitch(*element) : std::nullopt) leaves_.insert(*at);
      }
    }
  }

  void AddLinks() {
    std::map<std::pair<IpAddress, IpAddress>, bool> known;  // numbered links by both ends
    std::map<std::pair<SwitchIndex, SwitchIndex>, std::vector<IpAddress>> without_mate;
    std::vector<std::string> loops;
    for (const auto& each : sets_.interfaces()) {
      const auto near = FindSwitch(*sets_.OfAddress(each.address));
      const auto far = FindSwitch(each.far_end);
      if (!near) continue;
      if (!far) {
        unplaced_.push_back(each.address.ToString());
        continue;
      }
      if (*near == *far) {
        loops.push_back(each.address.ToString());
        continue;
      }
      if (!each.mate) {
        without_mate[{*near, *far}].push_back(each.address);
        continue;
      }
      if (!known.emplace(std::minmax(each.address, *each.mate), true).second) continue;
      fabric_.links.push_back({{*near, each.address}, {*far, *each.mate}});
    }
    if (!loops.empty()) {
      fabric_.contradictions.push_back(fmt::format(
          "both ends of the links at {} belong to one switch: an address is used twice, or an "
          "agent reports answers that nobody gave (compare `espalier probe` from two hosts)",
          NameSome(loops)));
    }
    PairWithoutMates(without_mate);
    std::set<std::pair<SwitchIndex, SwitchIndex>> unnumbered;
    for (const auto& [a, b] : sets_.unnumbered()) {
      const auto x = FindSwitch(a);
      const auto y = FindSwitch(b);
      if (!x || !y || *x == *y || !unnumbered.insert(std::minmax(*x, *y)).second) continue;
      fabric_.links.push_back({{*x, {}}, {*y, {}}});
    }
  }

  // Interfaces whose far end has no known address: each link shows by one or both of its ends.
  void PairWithoutMates(
      const std::map<std::pair<SwitchIndex, SwitchIndex>, std::vector<IpAddress>>& found) {
    std::vector<std::string> unpaired;
    for (const auto& [ends, near] : found) {
      const auto back = found.find({ends.second, ends.first});
      const bool has_back = back != found.end();
      if (has_back && ends.second < ends.first) continue;
      const std::size_t far_count = has_back ? back->second.size() : 0;
      const bool is_one = near.size() == 1 && far_count == 1;
      if (!is_one && near.size() + far_count > 1) unpaired.push_back(near.front().ToString());
      for (std::size_t i = 0; i < std::max(near.size(), far_count); ++i) {
        DiscoveredLink link{{ends.first, {}}, {ends.second, {}}};
        if (i < near.size() && (is_one || far_count == 0)) link.a.address = near[i];
        if (is_one) link.b.address = back->second.front();
        fabric_.links.push_back(link);
      }
    }
    if (unpaired.empty()) return;
    fabric_.missing.push_back(fmt::format(
        "which addresses are the two ends of one of several parallel links stays unknown, as no "
        "length of prefix pairs them (add a file that has the links): those of {}",
        NameSome(unpaired)));
  }

  void CountAnswering() {
    std::array<std::set<SwitchIndex>, kMostHops> switches;
    std::array<std::set<EndpointIndex>, kMostHops> hosts;
    for (const CleanTrace& trace : traces_) {
      if (trace.arrived) hosts[trace.hops].insert(trace.trace->destination);
      for (std::size_t hop = 0; hop < kMostHops; ++hop) {
        const auto element = trace.Has(hop) ? sets_.OfHop(trace, hop) : std::nullopt;
        if (const auto at = element ? FindSwitch(*element) : std::nullopt)
          switches[hop].insert(*at);
      }
    }
    for (std::size_t hop = 0; hop < kMostHops; ++hop) {
      fabric_.answering[hop] = switches[hop].size() + hosts[hop].size();
    }
  }

  void AttachNics() {
    fabric_.nics.resize(evidence_.endpoints().size());
    for (EndpointIndex i = 0; i < fabric_.nics.size(); ++i)
      fabric_.nics[i].group = groups_.GroupOf(i);
    for (EndpointIndex i = 0; i < fabric_.nics.size(); ++i) {
      if (!located_.contains(i) || sets_.with_uplinks().contains(i)) continue;
      fabric_.nics[i].at = FindSwitch(sets_.FirstSwitchOf(i));
    }
    // An address that answers to several endpoints is the switch's, not that of a link to a NIC.
    std::map<IpAddress, std::size_t> count;
    for (EndpointIndex i = 0; i < fabric_.nics.size(); ++i) {
      if (const auto answer = sets_.FirstAnswerOf(i)) ++count[*answer];
    }
    for (EndpointIndex i = 0; i < fabric_.nics.size(); ++i) {
      const auto answer = sets_.FirstAnswerOf(i);
      const bool is_own =
          answer && count[*answer] == 1 && traits_.KindOf(*answer) == AddressKind::kInterface;
      if (fabric_.nics[i].at && is_own) fabric_.nics[i].switch_address = *answer;
    }
  }

  std::string NicText(EndpointIndex endpoint) const {
    const Endpoint& nic = evidence_.endpoints()[endpoint];
    return fmt::format("{} ({})", nic.host, nic.address.ToString());
  }

  void Report() {
    traits_.Report(fabric_.missing, fabric_.contradictions);
    std::vector<std::string> unknown;
    for (EndpointIndex i = 0; i < fabric_.nics.size(); ++i) {
      if (!fabric_.nics[i].at && !sets_.with_uplinks().contains(i)) unknown.push_back(NicText(i));
    }
    if (!unknown.empty()) {
      fabric_.missing.push_back(
          fmt::format("the switch of {} NICs stays unknown, as no switch answers their probes: {}",
                      unknown.size(), NameSome(unknown)));
    }
    for (const auto& [endpoint, answers] : sets_.with_uplinks()) {
      std::vector<std::string> names;
      for (const IpAddress& answer : answers) names.push_back(answer.ToString());
      fabric_.missing.push_back(
          fmt::format("{} has several uplinks, to {}: add its cables by a file", NicText(endpoint),
                      NameSome(names)));
    }
    if (!unplaced_.empty()) {
      fabric_.missing.push_back(fmt::format(
          "the far end of {} links stays unknown, as no switch answered before them: those of {}",
          unplaced_.size(), NameSome(unplaced_)));
    }
    for (const DiscoveredSwitch& each : fabric_.switches) {
      if (!each.is_silent) continue;
      fabric_.missing.push_back(fmt::format(
          "{} is a switch that answers no probe: its name, and its own answers", each.name));
    }
    for (const NextHopChoice& choice : fabric_.choices) {
      if (choice.next_hops <= kMostNextHops) continue;
      fabric_.contradictions.push_back(
          fmt::format("{} seems to have {} next hops: agents report answers that nobody gave, or "
                      "addresses are translated",
                      fabric_.switches[choice.at].name, choice.next_hops));
    }
    for (const auto& [a, b] : groups_.apart()) {
      const auto x = fabric_.nics[a].at;
      const bool is_same = x && fabric_.nics[b].at == x;
      if (is_same) AddDoubt(a, b, "their addresses put them behind one");
    }
    for (const auto& [a, b] : groups_.doubtful())
      AddDoubt(a, b, "other probes show them behind one");
    if (doubts_ > kMostDoubts) {
      fabric_.contradictions.push_back(fmt::format("{} more of this kind", doubts_ - kMostDoubts));
    }
    if (fabric_.switches.size() == 1) {
      fabric_.missing.push_back("all hosts are behind one switch: there is no path to choose");
    }
  }

  void AddDoubt(EndpointIndex a, EndpointIndex b, std::string_view but) {
    if (++doubts_ > kMostDoubts) return;
    fabric_.contradictions.push_back(
        fmt::format("probes show {} and {} behind different switches, but {}: an address is used "
                    "twice, or an agent reports answers that nobody gave",
                    NicText(a), NicText(b), but));
  }

  static constexpr std::size_t kMostDoubts = 8;

  const ProbeEvidence& evidence_;
  DiscoveredFabric fabric_;
  std::vector<CleanTrace> traces_;
  EndpointGroups groups_;
  AddressTraits traits_;
  SwitchSets sets_;
  std::set<Element> answered_;  // sets of switches that are known
  std::set<EndpointIndex> located_;
  std::set<Element> silent_;
  std::map<Element, SwitchIndex> index_;  // by set
  std::set<SwitchIndex> leaves_;
  std::vector<std::string> unplaced_;  // interfaces without a known far end
  std::size_t doubts_ = 0;
};

}  // namespace

DiscoveredFabric InferFabric(const ProbeEvidence& evidence) { return Inference(evidence).Infer(); }

}  // namespace espalier::discovery
