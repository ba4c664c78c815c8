#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/base/address/ip_address.h"
#include "controller/discovery/address_traits.h"
#include "controller/discovery/probe_evidence.h"

namespace espalier::discovery {

// Which answering addresses belong to one switch.
//
// Idea: each switch is a set of elements, joined by what must be one. The elements are the first
// switch of each endpoint, each answering address, and for each interface the far end of its link:
// its mate (the other address of the network) if that is known, else an element of its own. The
// rules:
// - What answers at TTL 1 is the endpoint's first switch, and what answers last before an endpoint
//   is its first switch, too.
// - The far end of an interface is on the switch that answered one hop before. So all that answer
//   before one interface are one switch.
// Addresses that stand for no single link take part as addresses of their switch only, and those
// that are used twice not at all. The IP identification is no evidence: Linux counts it for each
// source and destination.
//
// Complexity: O(traces x hops x log). Deterministic.
class SwitchSets {
 public:
  using Element = std::size_t;

  SwitchSets(const ProbeEvidence& evidence, std::span<const CleanTrace> traces,
             const EndpointGroups& groups, const AddressTraits& traits);

  // The set of an element, as one of its elements.
  Element Find(Element element) const;
  Element FirstSwitchOf(EndpointIndex endpoint) const { return endpoint; }
  // None: the address has not answered, or it identifies no switch.
  std::optional<Element> OfAddress(const IpAddress& address) const;
  // The switch of a hop; none if it did not answer.
  std::optional<Element> OfHop(const CleanTrace& trace, std::size_t hop) const;
  void Unite(Element a, Element b);

  // Interfaces that answered at TTL 2 or beyond, each with its far end.
  struct Interface {
    IpAddress address;
    Element far_end;
    std::optional<IpAddress> mate;
  };
  const std::vector<Interface>& interfaces() const { return interfaces_; }
  // Pairs of neighbours of which one answers with one address on all links.
  const std::set<std::pair<Element, Element>>& unnumbered() const { return unnumbered_; }
  const std::map<IpAddress, Element>& addresses() const { return addresses_; }
  // The answer at TTL 1; none if there is none or it is a gateway. A NIC with several uplinks has
  // none either.
  std::optional<IpAddress> FirstAnswerOf(EndpointIndex endpoint) const;
  // Endpoints whose first switches are several.
  const std::map<EndpointIndex, std::set<IpAddress>>& with_uplinks() const { return uplinks_; }

 private:
  void JoinFirstHops(std::span<const CleanTrace> traces, const EndpointGroups& groups);
  void JoinLastHops(const CleanTrace& trace);
  void JoinNeighbours(const CleanTrace& trace);
  Element Intern(const IpAddress& address);
  Element AddElement();

  const AddressTraits& traits_;
  mutable std::vector<Element> parent_;
  std::map<IpAddress, Element> addresses_;
  std::map<IpAddress, std::size_t> interface_of_;
  std::vector<Interface> interfaces_;
  std::set<std::pair<Element, Element>> unnumbered_;
  std::map<EndpointIndex, std::set<IpAddress>> first_;
  std::map<EndpointIndex, std::set<IpAddress>> uplinks_;
};

}  // namespace espalier::discovery
