#pragma once

#include <gtest/gtest.h>

#include "agent/dpdk/flows/packet_steering.h"
#include "tests/agent/dpdk/roce_frames.h"

namespace espalier::dpdk {

inline const IcrcPatch& Patch() {
  static const IcrcPatch patch;
  return patch;
}

// A table with one core.
struct SteeredPath {
  explicit SteeredPath(std::uint32_t max_flows = 16) : table(max_flows, 1) {}

  // Returns the frame after steering.
  BuiltFrame Send(const RoceFrame& frame) {
    BuiltFrame built = Build(frame);
    Out(built.bytes);
    return built;
  }
  void Out(Bytes& bytes) {
    const Frame frame{bytes.data(), static_cast<std::uint32_t>(bytes.size())};
    steering.Outgoing({&frame, 1}, now_us);
  }
  void Receive(const RoceFrame& frame) {
    BuiltFrame built = Build(frame);
    const Bytes before = built.bytes;
    const Frame received{built.bytes.data(), static_cast<std::uint32_t>(built.bytes.size())};
    steering.Incoming({&received, 1}, now_us);
    EXPECT_EQ(built.bytes, before);
  }
  // Adds the flow of an event.
  std::uint32_t Open(const FlowEvent& event, std::uint16_t port = 0) {
    const std::uint32_t slot =
        table.Add(event.key, event.flow_kind, event.own_port, event.psn).value();
    table.SetPort(slot, port);
    table.Publish();
    return slot;
  }

  DatapathFlowTable table;
  PacketSteering steering{table, 0, Patch()};
  std::uint32_t now_us = 1000;
};

inline RoceFrame WriteFirst(std::uint32_t psn = 100, std::uint32_t bytes = 8 << 20) {
  return {.opcode = 0x06, .psn = psn, .payload = Reth(bytes, 1024)};
}
inline RoceFrame WriteMiddle(std::uint32_t psn) { return {.psn = psn, .payload = Bytes(1024, 1)}; }
inline FlowKey KeyOfFlow(std::uint32_t qpn) {
  RoceFrame frame = WriteFirst();
  frame.destination_qpn = qpn;
  BuiltFrame built = Build(frame);
  return KeyOf(ParseRoce(built.bytes.data(), static_cast<std::uint32_t>(built.bytes.size())));
}

inline void ExpectPort(const BuiltFrame& frame, std::uint16_t port) {
  EXPECT_EQ(Get16(frame.bytes, frame.udp), port);
  EXPECT_EQ(StoredIcrc(frame), ReferenceIcrc(frame));
}

}  // namespace espalier::dpdk
