#pragma once

#include <array>
#include <cstdint>

#include "agent/dpdk/flows/datapath_flow_table.h"

namespace espalier::dpdk {

// What a packet is to a flow, by its opcode. The first two are those of FlowKind.
enum class Role : std::uint8_t {
  kRequest = static_cast<std::uint8_t>(FlowKind::kRequests),    // counts up its connection's PSN
  kResponse = static_cast<std::uint8_t>(FlowKind::kResponses),  // to READ: counts up theirs
  kAcknowledgement,                                             // of a connection
  kOther,  // datagrams, congestion notifications, what is not known
};

constexpr std::array<Role, 256> MakeRoles() {
  std::array<Role, 256> roles{};
  for (std::size_t opcode = 0; opcode < roles.size(); ++opcode) {
    const auto service = static_cast<Service>(opcode >> 5);
    const std::size_t operation = opcode & 0x1F;
    const bool is_connected = service == Service::kReliable || service == Service::kUnreliable ||
                              service == Service::kExtended;
    roles[opcode] = Role::kRequest;
    if (operation >= kReadResponseFirst && operation <= kReadResponseOnly) {
      roles[opcode] = Role::kResponse;
    }
    if (operation == kAcknowledge || operation == kAtomicAcknowledge) {
      roles[opcode] = Role::kAcknowledgement;
    }
    if (!is_connected) roles[opcode] = Role::kOther;
  }
  return roles;
}

inline constexpr std::array<Role, 256> kRoles = MakeRoles();

}  // namespace espalier::dpdk
