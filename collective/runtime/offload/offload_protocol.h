#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "collective/transport/shm/shared_group.h"

namespace espalier::runtime {

// The protocol between a program and the offload service that runs its collectives. Requests and
// replies travel over a Unix socket (SEQPACKET), one reply for each request; calls go through a
// ring in memory of the program. The service does not trust the program: it copies what it reads
// before it checks it.

constexpr std::uint32_t kOffloadMagic = 0x454f4631;
constexpr std::uint32_t kOffloadVersion = 4;
constexpr std::size_t kRingCalls = 16;
constexpr std::size_t kWordBytes = 480;

enum class OffloadRequestKind : std::uint32_t {
  kJoin = 1,      // joins a group that the program names; passes the memory file of the ring
  kRegister = 2,  // passes a memory file; the reply's value is its number
  kRelease = 3,   // value: the file's number
  kUse = 4,       // passes a memory file that holds a plan (OffloadPlanHeader)
  kJoinJob = 5,   // joins a group of a job; passes the memory file of the ring
};

// Strings are zero-terminated.
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
  std::uint8_t key[32];  // the group's key
  std::uint32_t has_key;
  std::uint32_t trusts_network;
};

// The rank of a job that this program is; the offload service asks the agent for everything else.
struct OffloadJob {
  char name[256];
  std::int32_t rank;
  std::uint32_t number;  // tells apart the groups that the job forms one after another
  std::uint32_t timeout_ms;
  std::uint32_t reserved;
};

// In every version, magic and version come first.
struct OffloadRequest {
  std::uint32_t magic = kOffloadMagic;
  std::uint32_t version = kOffloadVersion;
  OffloadRequestKind kind = OffloadRequestKind::kJoin;
  std::uint32_t reserved = 0;
  std::uint64_t value = 0;  // of a join: its limit in ms, if less than the timeout; 0: the timeout
  OffloadGroup group = {};
  OffloadJob job = {};
};

struct OffloadReply {
  std::uint32_t magic = kOffloadMagic;
  std::int32_t code = 0;  // 0: done; else 1 + ErrorCode
  std::uint64_t value = 0;
  char words[kWordBytes] = {};
};

// A plan: this header, then the ports, then the program's bytes.
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

// A call between places in registered buffers; buffer 0 stands for no memory. If counts_buffer is
// set, there is a 64-bit count for each rank there, and `count` is ignored.
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

// Call number n and its result use place n modulo kRingCalls, which is reused after the result has
// been read. The program leaves by closing the socket, which ends the call in progress.
struct OffloadRing {
  transport::Signal bell;                // raised for each call and each request
  std::atomic<std::uint32_t> posted{0};  // number of calls, written by the program
  transport::Signal done;                // number of results, written by the offload service
  OffloadCall calls[kRingCalls];
  OffloadResult results[kRingCalls];
};

}  // namespace espalier::runtime
