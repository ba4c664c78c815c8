#pragma once

#include <cstdint>
#include <functional>

#include "common/base/address/ip_address.h"
#include "common/base/result.h"

namespace espalier::agent {

// One probe: a RoCEv2 packet with a valid BTH and ICRC that no queue pair accepts, sent with a
// chosen source port and TTL.
struct Probe {
  IpAddress source;
  IpAddress destination;
  std::uint16_t source_port = 0;
  std::uint16_t destination_port = 4791;
  std::uint32_t destination_qpn = 0;
  std::uint8_t ttl = 64;
  std::uint8_t flow_protocol = 17;  // of the packets whose path the probe, which is UDP, shows
};

// What an answer quotes of a probe, and what only those can know who have seen the probe on its
// path. The kernel's random numbers decide both words of each probe.
struct ProbeMark {
  // What every quote contains: over IPv4 the identification (16 bits) and the UDP checksum; over
  // IPv6, which has no identification, the UDP checksum.
  std::uint32_t head = 0;
  std::uint32_t nonce = 0;  // the first word behind the BTH; never 0
};

// The answer to a probe: ICMP time exceeded (from a switch on its path) or port unreachable (from
// the host).
struct ProbeReply {
  IpAddress source;  // of the probe
  IpAddress destination;
  std::uint16_t source_port = 0;
  std::uint16_t destination_port = 0;
  std::uint8_t ttl = 0;
  IpAddress responder;
  bool from_destination = false;
  ProbeMark mark;  // what it quotes; a nonce of 0: the quote ends before it
};

// Sends probes and receives the answers: raw sockets (agent/probe) or a simulated fabric.
// A switch quotes only the probe's UDP header, so its length encodes the TTL: the payload is padded
// by 4 * TTL bytes.
// Thread safety: the agent's loop thread.
class ProbeSocket {
 public:
  virtual ~ProbeSocket() = default;
  // Returns the mark that answers quote. Errors: kUnavailable when the send buffer is full (try
  // again later), kUnsupported, kInvalidArgument for a source address that is not this host's.
  virtual Result<ProbeMark> Send(const Probe& probe) = 0;
  virtual void OnReply(std::function<void(const ProbeReply&)> callback) = 0;
};

}  // namespace espalier::agent
