#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "agent/flows/transport_state.h"

namespace espalier::agent {

inline constexpr std::uint32_t kUser = 1'000;
inline constexpr std::uint32_t kOtherUser = 1'001;

// Sockets by their source port, and devices by their address. Counts how often they are read.
struct FakeTransports {
  TransportReaders Readers() {
    return {.sockets =
                [this](std::span<const TcpConnection> connections) {
                  ++calls;
                  std::vector<std::optional<TcpSocket>> found;
                  for (const TcpConnection& connection : connections) {
                    read.push_back(connection);
                    const auto socket = sockets.find(connection.source_port);
                    found.push_back(socket == sockets.end() ? std::nullopt
                                                            : std::optional(socket->second));
                  }
                  return found;
                },
            .device =
                [this](const IpAddress& source) {
                  ++device_reads;
                  return devices[source];
                },
            .repeated_requests = {}};
  }

  std::map<std::uint16_t, TcpSocket> sockets;
  std::map<IpAddress, DeviceCounters> devices;
  std::vector<TcpConnection> read;
  int calls = 0;
  int device_reads = 0;
};

}  // namespace espalier::agent
