#pragma once

#include <string>
#include <vector>

#include "common/base/units.h"
#include "deploy/lab/lab_layout.h"

namespace espalier::lab {

// What a lab runs to become what its layout says: settings, links, addresses, routes and limits, as
// input for `ip -batch`, `tc -batch` and `nft -f`. Pure.

struct Sysctl {
  std::string key;  // "net/ipv4/ip_forward"
  std::string value;
};

// The settings to write in a node's namespace before it has any link.
std::vector<Sysctl> SysctlsOf(const LabLayout& layout, const LabNode& node);
// Creates all links; runs in the controller's namespace. Node names are those of `ip netns`.
std::string LinkScript(const LabLayout& layout);
// Sets up the addresses, links and routes of one node.
std::string NodeScript(const LabLayout& layout, const LabNode& node);
// Sets a switch's routes (LabLayout::NextHops), without next hops over the interfaces in `down`;
// empty if daemons do it.
std::string RouteScript(const LabLayout& layout, const LabNode& node,
                        const std::vector<std::string>& down);
// Sets a host's routes, without those over the interfaces in `down`.
std::string HostRouteScript(const LabLayout& layout, const LabNode& node,
                            const std::vector<std::string>& down);
// Sets the rate limits of one switch, or of a host with several uplinks; empty if there are none.
std::string ShaperScript(const LabLayout& layout, const LabNode& node);
// Limits what an interface sends, in place of any limit before.
std::string ShaperCommand(const std::string& interface, BitsPerSecond rate);
// The rules that count a switch's packets: the ground truth (docs/lab.md).
std::string CounterRules();

}  // namespace espalier::lab
