#pragma once

#include <array>
#include <cstdint>

#include "agent/dpdk/flows/datapath_flow_table.h"

namespace espalier::dpdk {

// The role of a packet in a flow, by its opcode. The first two are those of FlowKind.
enum class Role : std::uint8_t {
  kRequest = static_cast<std::uint8_t>(FlowKind::kRequests),    // advances the requester's PSN
  kResponse = static_cast<std::uint8_t>(FlowKind::kResponses),  // to READ: advances its own PSN
  kAcknowledgement,                                             // of a connection
  kOther,  // datagrams, congestion notifications, unknown opcodes
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
