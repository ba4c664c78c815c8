#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "agent/flows/flow_source.h"
#include "common/base/address/ip_address.h"

// What the kernel and the devices of this host, which no program can make say anything, know of the
// transports of its flows.
namespace espalier::agent {

// A TCP connection of this host, or what a program says is one.
struct TcpConnection {
  IpAddress source;  // of this host
  IpAddress destination;
  std::uint16_t source_port = 0;
  std::uint16_t destination_port = 0;
};

// The kernel's socket of a connection that is established.
struct TcpSocket {
  std::uint32_t user = kUnknownUser;  // that owns it
  std::uint64_t cookie = 0;           // another one for each socket
  // Segments sent again since it was connected, modulo 2^32.
  std::uint32_t repeats = 0;
  // Times that it has sent something again after its timeout since anything was acknowledged last.
  std::uint32_t timeouts = 0;
  std::uint32_t unacknowledged = 0;  // segments in flight
  std::uint32_t rtt_us = 0;          // smoothed
};

// Counters of the device of a NIC, of all its flows together, modulo 2^32.
struct DeviceCounters {
  std::uint32_t out_of_sequence = 0;  // packets that it sent and peers missed
  std::uint32_t timeouts = 0;         // acknowledgements that it waited for in vain; among these
};

// How much a count modulo 2^32 has grown; 0 if it was set back.
inline std::uint32_t GrowthOf(std::uint32_t from, std::uint32_t to) {
  const std::uint32_t growth = to - from;
  return growth < 1U << 31U ? growth : 0;
}

// What reads them. A member that is not set reads nothing.
struct TransportReaders {
  // Returns the socket of each connection; none if this host has no established one of these
  // addresses and ports that a process holds.
  std::function<std::vector<std::optional<TcpSocket>>(std::span<const TcpConnection>)> sockets;
  // Returns the counters of the device with this address; zeros if it has none.
  std::function<DeviceCounters(const IpAddress& source)> device;
  // Returns how many requests the NIC with this address has received again, modulo 2^32; 0 if that
  // is unknown.
  std::function<std::uint32_t(const IpAddress& nic)> repeated_requests;
};

// The connection of a TCP flow, or of its subflow, from this port.
inline TcpConnection ConnectionOf(const FlowSample& flow, std::uint16_t port) {
  return {flow.source, flow.destination, port, flow.destination_port};
}

// Whether the socket belongs to this user, who has announced a flow: programs may announce
// connections of others. The number that the kernel has for users outside of the reader's user
// namespace stands for many, so for none.
inline bool IsSocketOf(std::uint32_t user, const TcpSocket& socket) {
  constexpr std::uint32_t kUnmappedUser = 65'534;
  return socket.user == user && user != kUnknownUser && user != kUnmappedUser;
}

// Whose share of what all users use a flow takes.
inline BudgetOwner PayerOf(const FlowSample& flow) { return flow.user; }

// Whether the device's counters may count what happens to this flow.
inline bool IsQueuePair(const FlowSample& flow) {
  return flow.protocol == wire::kProtocolUdp && flow.local_qpn != 0;
}

}  // namespace espalier::agent
