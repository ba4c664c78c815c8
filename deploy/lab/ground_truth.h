#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/base/address/ip_address.h"
#include "common/base/result.h"
#include "common/fabric/topology.h"
#include "deploy/lab/lab.h"

// The ground truth of a lab: counters of the switches, independent of controller and agents.
namespace espalier::lab {

// Packets to the RoCEv2 port that arrived at one switch above the leaves, counted by the switch's
// own nftables rule. With pods these are aggregation switches and cores, so that a flow between
// pods is counted by three switches.
// A packet is one buffer of the kernel, with up to 64 KiB of TCP. Bytes are those of IP packets.
struct FlowCount {
  std::string spine;  // or the aggregation switch or core
  std::uint8_t protocol = 0;
  IpAddress source;
  IpAddress destination;
  std::uint16_t source_port = 0;
  std::int64_t packets = 0;
  std::int64_t bytes = 0;
};

// The counters of one interface of a switch: what it sent, and what its queue or the kernel
// dropped.
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

// Reads all flow counts since the lab came up, ascending by spine; their order within a spine is
// unspecified.
Result<std::vector<FlowCount>> ReadFlowCounts(const Lab& lab);
Result<std::vector<InterfaceCount>> ReadInterfaceCounts(const Lab& lab);

// The counts between two readings, without flows that sent no packet in between.
std::vector<FlowCount> Difference(std::span<const FlowCount> before,
                                  std::span<const FlowCount> after);

// Counts the flows (source, destination, source port, protocol) of at least min_bytes that crossed
// each direction of a switch-to-switch link ("leaf0--spine1>spine1"), by the counts of the switches
// above the leaves; of a core's links to a pod, the one to the switch that has the leaf.
// Directions without flows are left out.
std::map<std::string, int> CountFlowsPerDirection(const fabric::Topology& topology,
                                                  std::span<const FlowCount> counts,
                                                  std::int64_t min_bytes);

// A packet for which the kernel is asked where its first leaf would send it.
struct RouteQuery {
  IpAddress source;  // address of a host
  IpAddress destination;
  std::uint16_t source_port = 0;
  std::uint8_t protocol = 17;
  std::uint16_t destination_port = 4791;
};

// Returns the highest switch of each packet's path, which in a lab names the whole path (the spine;
// with pods, the core between pods and else the aggregation switch), by the switches' own route
// look-ups (`ip route get`); none if a switch has no route or the destination is under the same
// leaf.
// Complexity: one process per leaf, and per aggregation switch; about 17 us per query.
// Errors: kNotFound for unknown sources; kUnsupported for an IPv6 lab, because the kernel's
// look-ups use another hash than its forwarding.
Result<std::vector<std::optional<std::string>>> LookUpSpines(const Lab& lab,
                                                             std::span<const RouteQuery> queries);

}  // namespace espalier::lab
