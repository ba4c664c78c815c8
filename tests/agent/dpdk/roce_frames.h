#pragma once

#include <zlib.h>

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "common/base/address/ip_address.h"

namespace espalier::dpdk {

using Bytes = std::vector<std::uint8_t>;

// The parts of a RoCEv2 frame.
struct RoceFrame {
  std::vector<std::uint16_t> vlan_types;  // 0x8100, 0x88A8, outermost first
  std::string source = "10.0.0.1";
  std::string destination = "10.0.1.1";
  std::uint32_t option_bytes = 0;          // IPv4: a multiple of 4, at most 40
  std::vector<std::uint8_t> extensions{};  // IPv6: numbers of the headers, 8 bytes each
  std::uint8_t hop_limit = 64;
  std::uint16_t source_port = 50'000;
  std::uint16_t destination_port = 4791;
  bool udp_checksum = false;
  std::uint8_t opcode = 0x07;  // RC WRITE MIDDLE
  bool asks_for_acknowledgement = false;
  std::uint32_t destination_qpn = 0x11;
  std::uint32_t psn = 0;
  Bytes payload = Bytes(64, 0x5A);  // extended headers first; a multiple of 4
  std::uint32_t padding = 0;        // behind the IP packet
};

struct BuiltFrame {
  Bytes bytes;
  std::size_t ip = 0;
  std::size_t udp = 0;
  std::size_t end = 0;  // of the IP packet
};

inline void Append(Bytes& to, std::uint64_t value, int bytes) {
  for (int i = bytes - 1; i >= 0; --i) to.push_back(static_cast<std::uint8_t>(value >> (8 * i)));
}
inline void Put16(Bytes& to, std::size_t at, std::size_t value) {
  to[at] = static_cast<std::uint8_t>(value >> 8);
  to[at + 1] = static_cast<std::uint8_t>(value);
}
inline std::uint16_t Get16(const Bytes& from, std::size_t at) {
  return static_cast<std::uint16_t>(from[at] << 8 | from[at + 1]);
}

// A RETH (16 bytes): address, key and length of an RDMA message.
inline Bytes Reth(std::uint32_t dma_bytes, std::size_t payload_bytes = 0) {
  Bytes bytes;
  Append(bytes, 0x7F00'0000'1000, 8);
  Append(bytes, 0xABCD, 4);
  Append(bytes, dma_bytes, 4);
  bytes.resize(bytes.size() + payload_bytes, 0x33);
  return bytes;
}
// An AETH (4 bytes): 0 acknowledges, 0x60 asks to send again.
inline Bytes Aeth(std::uint8_t syndrome) { return {syndrome, 0, 0, 1}; }

// Computes the invariant CRC of annex A17.3.3 with zlib, for any position of the UDP header.
// Written from the specification, independently of the product's code.
inline std::uint32_t ReferenceIcrc(const BuiltFrame& frame) {
  Bytes masked(8, 0xFF);
  masked.insert(masked.end(), frame.bytes.begin() + static_cast<std::ptrdiff_t>(frame.ip),
                frame.bytes.begin() + static_cast<std::ptrdiff_t>(frame.end) - 4);
  const std::size_t udp = 8 + frame.udp - frame.ip;
  if (masked[8] >> 4 == 4) {
    for (const std::size_t at : {1U, 8U, 10U, 11U}) masked[8 + at] = 0xFF;
  } else {
    masked[8] |= 0x0F;
    for (const std::size_t at : {1U, 2U, 3U, 7U}) masked[8 + at] = 0xFF;
  }
  for (const std::size_t at : {6U, 7U, 8U + 4U}) masked[udp + at] = 0xFF;
  return static_cast<std::uint32_t>(crc32(0, masked.data(), static_cast<uInt>(masked.size())));
}

inline std::uint32_t StoredIcrc(const BuiltFrame& frame) {
  std::uint32_t icrc = 0;
  for (std::size_t i = 0; i < 4; ++i) {
    icrc |= std::uint32_t{frame.bytes[frame.end - 4 + i]} << (8 * i);
  }
  return icrc;
}

// Computes the UDP checksum that the packet should have, independently of the one it has.
inline std::uint16_t ReferenceUdpChecksum(const BuiltFrame& frame) {
  const Bytes& bytes = frame.bytes;
  const bool is_v4 = bytes[frame.ip] >> 4 == 4;
  const std::size_t addresses = frame.ip + (is_v4 ? 12 : 8);
  std::uint32_t sum = 17 + static_cast<std::uint32_t>(frame.end - frame.udp);
  for (std::size_t at = addresses; at < addresses + (is_v4 ? 8 : 32); at += 2) {
    sum += Get16(bytes, at);
  }
  for (std::size_t at = frame.udp; at < frame.end; at += 2) {
    if (at != frame.udp + 6) sum += Get16(bytes, at);
  }
  while (sum >> 16 != 0) sum = (sum & 0xFFFF) + (sum >> 16);
  const auto checksum = static_cast<std::uint16_t>(~sum);
  return checksum == 0 ? std::uint16_t{0xFFFF} : checksum;
}

inline BuiltFrame Build(const RoceFrame& frame) {
  BuiltFrame built;
  Bytes& bytes = built.bytes;
  const IpAddress source = IpAddress::Parse(frame.source).value();
  const IpAddress destination = IpAddress::Parse(frame.destination).value();
  const std::size_t udp_bytes = 8 + 12 + frame.payload.size() + 4;
  bytes = {0x02, 0, 0, 0, 0, 2, 0x02, 0, 0, 0, 0, 1};
  for (const std::uint16_t type : frame.vlan_types) Append(bytes, std::uint64_t{type} << 16 | 7, 4);
  Append(bytes, source.IsV4() ? 0x0800 : 0x86DD, 2);
  built.ip = bytes.size();
  if (source.IsV4()) {
    const std::size_t header = 20 + frame.option_bytes;
    Append(bytes, 0x40 | header / 4, 1);
    Append(bytes, 0, 1);
    Append(bytes, header + udp_bytes, 2);
    Append(bytes, 0x1234'4000, 4);
    Append(bytes, frame.hop_limit, 1);
    Append(bytes, 17, 1);
    Append(bytes, 0, 2);
    Append(bytes, source.V4(), 4);
    Append(bytes, destination.V4(), 4);
    bytes.resize(bytes.size() + frame.option_bytes, 1);
  } else {
    const auto& numbers = frame.extensions;
    Append(bytes, 0x6000'0000, 4);
    Append(bytes, 8 * numbers.size() + udp_bytes, 2);
    Append(bytes, numbers.empty() ? 17 : numbers.front(), 1);
    Append(bytes, frame.hop_limit, 1);
    bytes.insert(bytes.end(), source.bytes().begin(), source.bytes().end());
    bytes.insert(bytes.end(), destination.bytes().begin(), destination.bytes().end());
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      Append(bytes, i + 1 < numbers.size() ? numbers[i + 1] : 17, 1);
      Append(bytes, 0x0001'0400'0000'00, 7);
    }
  }
  built.udp = bytes.size();
  Append(bytes, frame.source_port, 2);
  Append(bytes, frame.destination_port, 2);
  Append(bytes, udp_bytes, 2);
  Append(bytes, 0, 2);
  Append(bytes, frame.opcode, 1);
  Append(bytes, 0x00FFFF, 3);
  Append(bytes, frame.destination_qpn, 4);
  Append(bytes, frame.psn | (frame.asks_for_acknowledgement ? 0x8000'0000U : 0U), 4);
  bytes.insert(bytes.end(), frame.payload.begin(), frame.payload.end());
  bytes.resize(bytes.size() + 4);
  built.end = bytes.size();
  const std::uint32_t icrc = ReferenceIcrc(built);
  for (std::size_t i = 0; i < 4; ++i) {
    bytes[built.end - 4 + i] = static_cast<std::uint8_t>(icrc >> (8 * i));
  }
  if (frame.udp_checksum) Put16(bytes, built.udp + 6, ReferenceUdpChecksum(built));
  bytes.resize(bytes.size() + frame.padding, 0xEE);
  return built;
}

}  // namespace espalier::dpdk
