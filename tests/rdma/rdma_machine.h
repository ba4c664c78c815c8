#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/base/address/ip_address.h"
#include "common/base/time/event_loop.h"
#include "common/base/unique_fd.h"
#include "common/verbs/verbs.h"

namespace espalier::rdma {

// The fabric that deploy/lab/rdma/guest_fabric creates.
inline constexpr int kHosts = 4;
inline constexpr int kHostsPerLeaf = 2;
inline constexpr int kSpines = 4;

// By the clock of the daemons' loops.
TimePoint Now();

IpAddress AddressOfHost(int host, bool ipv6);
verbs::RoceAddress RoceAddressOf(int host, bool ipv6);

// Runs a shell command in the machine and returns its output. A failure fails the test.
std::string Shell(const std::string& words);

// A RoCE packet that passed an interface.
struct Packet {
  IpAddress source;
  IpAddress destination;
  std::uint16_t source_port = 0;
  std::uint32_t remote_number = 0;  // number of the destination queue pair
  std::uint8_t opcode = 0;
  std::uint32_t number = 0;   // its packet sequence number
  std::uint8_t syndrome = 0;  // of an acknowledgement
  TimePoint at{};             // when it passed

  bool IsWrite() const { return opcode >= 0x06 && opcode <= 0x0B; }
  // A part of a message of a reliable connection. Probes of agents have the number 0.
  bool IsMessage() const {
    const bool is_probe = opcode == 0x04 && number == 0;
    return !is_probe && (opcode <= 0x0B || opcode == 0x16 || opcode == 0x17);
  }
  // Says that everything up to its number has arrived.
  bool IsAcknowledgement() const { return opcode == 0x11 && syndrome >> 5U == 0; }
};

// A thread of its own takes the packets from the kernel, so that none is lost while a test waits
// for something else.
class Capture {
 public:
  // An empty `node` is the machine's own namespace, which has the hosts' interfaces.
  Capture(const std::string& node, const std::string& interface);
  // Returns the packets since the last call, in order; a missed packet fails the test.
  std::vector<Packet> Take();

 private:
  class Reader;
  struct End {
    void operator()(Reader* reader) const;
  };

  std::unique_ptr<Reader, End> reader_;
};

// Connected queue pairs on two hosts, with memory of the same size at both.
class Pair {
 public:
  struct End {
    verbs::RoceAddress address;
    verbs::Context context;
    verbs::ProtectionDomain domain;
    std::vector<std::byte> memory;
    verbs::MemoryRegion region;
    verbs::CompletionQueue queue;
    verbs::QueuePair pair;
  };

  Pair(int from, int to, bool ipv6, std::uint32_t from_label, std::uint32_t to_label,
       std::size_t bytes);

  End& from() { return from_; }
  End& to() { return to_; }
  // Posts a write of a part of the memory to the same position at the other end.
  void PostWrite(std::size_t begin, std::size_t bytes);
  // Waits for `count` completions of writes, all of which must succeed.
  void AwaitWrites(int count);

 private:
  End from_;
  End to_;
};

}  // namespace espalier::rdma
