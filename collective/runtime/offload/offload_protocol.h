#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "collective/transport/shm/shared_group.h"

namespace espalier::runtime {

// Between a program and the engine that does its collectives: requests and replies over a unix
// socket (SEQPACKET), one reply for each request; calls through a ring in memory of the program.
// Neither side trusts the other: the engine copies what it reads before it looks at it.

constexpr std::uint32_t kOffloadMagic = 0x454f4631;
constexpr std::uint32_t kOffloadVersion = 4;
constexpr std::size_t kRingCalls = 16;
constexpr std::size_t kWordBytes = 480;

enum class OffloadRequestKind : std::uint32_t {
  kJoin = 1,      // with the memory of the ring: a group that the program names itself
  kRegister = 2,  // with a memory file; the reply's value is its number
  kRelease = 3,   // value: the number
  kUse = 4,       // with a memory file that holds a plan (OffloadPlanHeader)
  kJoinJob = 5,   // with the memory of the ring: a group of a job
};

// Texts end with a zero.
struct OffloadGroup {
  char store[256];
  char name[128];
  char address[64];
  std::int32_t rank;
  std::int32_t size;
  std::uint32_t medium;
  std::uint32_t timeout_ms;
  std::uint32_t connections;
  std::uint32_t plan_port;
  std::uint8_t key[32];  // by which its ranks know one another
  std::uint32_t has_key;
  std::uint32_t trusts_network;
};

// Which rank of a job this program is; the engine asks the agent for all else.
struct OffloadJob {
  char name[256];
  std::int32_t rank;
  std::uint32_t number;  // of the group, as the job forms one after another
  std::uint32_t timeout_ms;
  std::uint32_t reserved;
};

// Magic and version come first in every version.
struct OffloadRequest {
  std::uint32_t magic = kOffloadMagic;
  std::uint32_t version = kOffloadVersion;
  OffloadRequestKind kind = OffloadRequestKind::kJoin;
  std::uint32_t reserved = 0;
  std::uint64_t value = 0;
  OffloadGroup group = {};
  OffloadJob job = {};
};

struct OffloadReply {
  std::uint32_t magic = kOffloadMagic;
  std::int32_t code = 0;  // 0: done; else 1 + ErrorCode
  std::uint64_t value = 0;
  char words[kWordBytes] = {};
};

// Then the ports, then the program's bytes.
struct OffloadPlanHeader {
  std::uint64_t generation = 0;
  std::uint64_t port_count = 0;
  std::uint64_t program_bytes = 0;
};
struct OffloadPort {
  std::int32_t peer = 0;
  std::int32_t channel = 0;
  std::uint32_t port = 0;
  std::uint32_t reserved = 0;
};

// A call, between places in registered buffers; buffer 0 is no memory at all. Where it has counts,
// there is one for each rank (64 bits), and `count` says nothing.
struct OffloadCall {
  std::uint32_t collective = 0;
  std::uint32_t type = 0;
  std::uint32_t op = 0;
  std::int32_t root = 0;
  std::uint64_t count = 0;
  std::uint64_t input_buffer = 0;
  std::uint64_t input_offset = 0;
  std::uint64_t output_buffer = 0;
  std::uint64_t output_offset = 0;
  std::uint64_t counts_buffer = 0;
  std::uint64_t counts_offset = 0;
};

struct OffloadResult {
  std::int32_t code = 0;
  char words[kWordBytes] = {};
};

// Calls and results by their number modulo kRingCalls; a place is used again when its result has
// been taken. The program leaves by closing the socket, which ends the call under way.
struct OffloadRing {
  transport::Signal bell;                // raised for each call and each request
  std::atomic<std::uint32_t> posted{0};  // how many calls; by the program
  transport::Signal done;                // how many results; by the engine
  OffloadCall calls[kRingCalls];
  OffloadResult results[kRingCalls];
};

}  // namespace espalier::runtime
