#include "controller/discovery/switch_sets.h"

#include <algorithm>
#include <numeric>

namespace espalier::discovery {

SwitchSets::SwitchSets(const ProbeEvidence& evidence, std::span<const CleanTrace> traces,
                       const EndpointGroups& groups, const AddressTraits& traits)
    : traits_(traits) {
  parent_.resize(evidence.endpoints().size());
  std::iota(parent_.begin(), parent_.end(), Element{0});
  JoinFirstHops(traces, groups);
  for (const CleanTrace& trace : traces) {
    JoinLastHops(trace);
    JoinNeighbours(trace);
  }
}

SwitchSets::Element SwitchSets::Find(Element element) const {
  while (parent_[element] != element) {
    element = parent_[element] = parent_[parent_[element]];
  }
  return element;
}

void SwitchSets::Unite(Element a, Element b) {
  const Element x = Find(a);
  const Element y = Find(b);
  parent_[std::max(x, y)] = std::min(x, y);
}

SwitchSets::Element SwitchSets::AddElement() {
  parent_.push_back(parent_.size());
  return parent_.back();
}

SwitchSets::Element SwitchSets::Intern(const IpAddress& address) {
  const auto known = addresses_.find(address);
  if (known != addresses_.end()) return known->second;
  return addresses_.emplace(address, AddElement()).first->second;
}

std::optional<SwitchSets::Element> SwitchSets::OfAddress(const IpAddress& address) const {
  const auto known = addresses_.find(address);
  if (known == addresses_.end()) return std::nullopt;
  return known->second;
}

std::optional<IpAddress> SwitchSets::FirstAnswerOf(EndpointIndex endpoint) const {
  const auto found = first_.find(endpoint);
  if (found == first_.end() || found->second.size() != 1) return std::nullopt;
  return *found->second.begin();
}

void SwitchSets::JoinFirstHops(std::span<const CleanTrace> traces, const EndpointGroups& groups) {
  for (const CleanTrace& trace : traces) {
    if (!trace.Has(0) || traits_.IsGateway(trace.At(0))) continue;
    first_[trace.trace->source].insert(trace.At(0));
  }
  for (const auto& [endpoint, answers] : first_) {
    if (answers.size() > 1) {
      uplinks_.emplace(endpoint, answers);
      for (const IpAddress& answer : answers) Intern(answer);
    } else {
      Unite(FirstSwitchOf(endpoint), Intern(*answers.begin()));
    }
  }
  for (EndpointIndex i = 0; i < parent_.size() && i < groups.size(); ++i) {
    const EndpointIndex other = groups.GroupOf(i);
    if (uplinks_.contains(i) || uplinks_.contains(other)) continue;
    Unite(FirstSwitchOf(i), FirstSwitchOf(other));
  }
}

std::optional<SwitchSets::Element> SwitchSets::OfHop(const CleanTrace& trace,
                                                     std::size_t hop) const {
  if (hop == 0 && !uplinks_.contains(trace.trace->source)) {
    return FirstSwitchOf(trace.trace->source);
  }
  if (!trace.Has(hop) || traits_.IsGateway(trace.At(hop))) return std::nullopt;
  if (traits_.KindOf(trace.At(hop)) == AddressKind::kUsedTwice) return std::nullopt;
  return OfAddress(trace.At(hop));
}

void SwitchSets::JoinLastHops(const CleanTrace& trace) {
  if (!trace.arrived || trace.hops < 2 || !trace.Has(trace.hops - 1)) return;
  const IpAddress& last = trace.At(trace.hops - 1);
  const bool is_unclear = traits_.KindOf(last) == AddressKind::kUsedTwice ||
                          traits_.IsGateway(last) || uplinks_.contains(trace.trace->destination);
  if (!is_unclear) Unite(FirstSwitchOf(trace.trace->destination), Intern(last));
}

void SwitchSets::JoinNeighbours(const CleanTrace& trace) {
  for (std::size_t hop = 1; hop < kMostHops; ++hop) {
    if (!trace.Has(hop)) continue;
    const IpAddress& address = trace.At(hop);
    const AddressKind kind = traits_.KindOf(address);
    if (kind == AddressKind::kUsedTwice) continue;
    const Element at = Intern(address);
    const auto before = OfHop(trace, hop - 1);
    if (kind == AddressKind::kWholeSwitch && before) unnumbered_.emplace(*before, at);
    if (kind != AddressKind::kInterface) continue;
    const auto [known, is_new] = interface_of_.try_emplace(address, interfaces_.size());
    if (is_new) {
      const auto mate = traits_.MateOf(address);
      interfaces_.push_back({address, mate ? Intern(*mate) : AddElement(), mate});
    }
    if (before) Unite(interfaces_[known->second].far_end, *before);
  }
}

}  // namespace espalier::discovery
