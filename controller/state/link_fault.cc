#include "controller/state/link_fault.h"

#include <fmt/format.h>

namespace espalier::controller {
namespace {

std::string Thousands(std::int64_t count) {
  std::string digits = std::to_string(count);
  for (std::size_t at = digits.size(); at > 3;) {
    at -= 3;
    digits.insert(at, ",");
  }
  return digits;
}

std::string_view Plural(std::size_t count) { return count == 1 ? "" : "s"; }

}  // namespace

std::string ArrowOf(const fabric::Topology& topology, fabric::DirectedLink direction) {
  return fmt::format("{}>{}", topology.node(topology.From(direction)).id,
                     topology.node(topology.To(direction)).id);
}

namespace {

// "leaf1>spine1", or "leaf1>spine1 or spine1>leaf2 (no path distinguishes them)".
std::string DescribeDirections(const fabric::Topology& topology, const LinkFault& fault) {
  std::string words = ArrowOf(topology, fault.direction);
  for (const fabric::DirectedLink other : fault.alternatives) {
    words += " or " + ArrowOf(topology, other);
  }
  return fault.alternatives.empty() ? words : words + " (no path distinguishes them)";
}

}  // namespace

std::string DescribeFault(const fabric::Topology& topology, const LinkFault& fault) {
  return fmt::format(
      "{} lost {} of {} {}probes, its siblings {} of {}; {} sender{} and {} receiver{} agree",
      DescribeDirections(topology, fault), Thousands(fault.test.lost), Thousands(fault.test.sent),
      fault.traffic.empty() ? "" : fault.traffic + " ", Thousands(fault.siblings.lost),
      Thousands(fault.siblings.sent), fault.senders, Plural(fault.senders), fault.receivers,
      Plural(fault.receivers));
}

}  // namespace espalier::controller
