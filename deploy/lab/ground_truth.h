#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/base/ip_address.h"
#include "common/base/result.h"
#include "common/fabric/topology.h"
#include "deploy/lab/lab.h"

// The judges: what really happened in a lab, seen where no controller or agent has a hand.
namespace espalier::lab {

// Packets to the RoCEv2 port that arrived at one spine: counted by the spine's own nftables rule.
// A "packet" is one of the kernel's buffers: up to 64 KiB of TCP. Bytes are those of IP packets.
struct FlowCount {
  std::string spine;
  std::uint8_t protocol = 0;
  IpAddress source;
  IpAddress destination;
  std::uint16_t source_port = 0;
  std::int64_t packets = 0;
  std::int64_t bytes = 0;
};

// An interface of a switch; `out` is what it sent, `dropped` what its queue or the kernel dropped.
struct InterfaceCount {
  std::string node;
  std::string interface;
  std::string link;  // its id in the topology
  std::int64_t in_packets = 0;
  std::int64_t in_bytes = 0;
  std::int64_t out_packets = 0;
  std::int64_t out_bytes = 0;
  std::int64_t dropped = 0;
};

// Ascending by spine, then in no promised order. All since the lab came up.
Result<std::vector<FlowCount>> ReadFlowCounts(const Lab& lab);
Result<std::vector<InterfaceCount>> ReadInterfaceCounts(const Lab& lab);

// What was counted between two readings; flows with no new packet are left out.
std::vector<FlowCount> Difference(std::span<const FlowCount> before,
                                  std::span<const FlowCount> after);

// How many flows (source, destination, source port, protocol) with at least min_bytes crossed
// each direction of a switch-to-switch link ("leaf0--spine1>spine1"), by the spines' counts.
// Directions that none crossed are left out.
std::map<std::string, int> CountFlowsPerDirection(const fabric::Topology& topology,
                                                  std::span<const FlowCount> counts,
                                                  std::int64_t min_bytes);

// A packet of whom the kernel is asked where its first leaf would send it.
struct RouteQuery {
  IpAddress source;  // of a host
  IpAddress destination;
  std::uint16_t source_port = 0;
  std::uint8_t protocol = 17;
  std::uint16_t destination_port = 4791;
};

// The spine that each packet goes up to, by the leaf's own route look-up (`ip route get`); none
// where the leaf has no route or the destination is under the same leaf.
// Complexity: one process a leaf; about 17 us a query.
// Errors: kNotFound for unknown sources; kUnsupported for an IPv6 lab, where the kernel answers
// look-ups with another hash than the one it forwards by.
Result<std::vector<std::optional<std::string>>> LookUpSpines(const Lab& lab,
                                                             std::span<const RouteQuery> queries);

}  // namespace espalier::lab
