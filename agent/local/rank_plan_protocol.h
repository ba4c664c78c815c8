#pragma once

#include <cstddef>
#include <cstdint>

// The private protocol for rank plans between the agent and the library in programs, versioned by
// kPlanVersion. The program says which rank of which job it is, on a SEQPACKET unix socket beside
// that of the local API. The agent answers with the rank plan in a memory file (SCM_RIGHTS, sealed)
// as soon as it has one, and again with each later one that comes into force. The program may
// report its collectives at any time.
namespace espalier::agent {

inline constexpr std::uint32_t kPlanMagic = 0x4e4c5045;
inline constexpr std::uint32_t kPlanVersion = 3;
inline constexpr const char* kPlanSocketSuffix = ".plans";
inline constexpr const char* kOffloadSocketSuffix = ".offload";

// The program's first message.
struct PlanRequest {
  std::uint32_t magic = kPlanMagic;
  std::uint32_t version = kPlanVersion;
  std::uint32_t rank = 0;
  // The user whose program asks: 0 for the caller's own, else a user id plus one. Only the offload
  // service, root and the agent's own user may name another user.
  std::uint32_t user_and_one = 0;
  char job[256] = {};  // ends with a zero
  // The program for which the caller asks, if it names a user: the rank belongs to its container.
  // May be left out.
  std::int32_t process = 0;
};
inline constexpr std::size_t kShortPlanRequest = offsetof(PlanRequest, process);

// A later message of the program, any number of times.
struct PlanReport {
  std::uint32_t magic = kPlanMagic;
  std::uint32_t collective = 0;  // program::CollectiveKind
  std::uint64_t sequence = 0;
  std::uint64_t bytes = 0;
  std::uint64_t duration_us = 0;
  char error[256] = {};  // ends with a zero
};

// Replaces the number of bytes if the rank is another user's, or another container's of that user.
inline constexpr std::uint64_t kPlanOfOtherUser = UINT64_MAX;
// The same if the offload service asks, but the job does not use it.
inline constexpr std::uint64_t kPlanWithoutOffload = UINT64_MAX - 1;

// A message of the agent, with a file of that many bytes. There is no file if the rank has no rank
// plan any more (0 bytes), or for the numbers above.
struct PlanNotice {
  std::uint32_t magic = kPlanMagic;
  std::uint32_t version = kPlanVersion;
  std::uint64_t bytes = 0;
};

// The start of the file. The addresses of all ranks follow (16 bytes each; none from an older
// controller), then the further addresses where this rank listens, then the connections that this
// rank opens, then the bytes of the program. Addresses are IPv6, or IPv4 mapped to IPv6.
struct PlanFileHeader {
  std::uint64_t plan_version = 0;
  std::uint32_t rank = 0;
  std::uint32_t ranks = 0;
  std::uint8_t address[16] = {};        // address of this rank
  std::uint8_t first_address[16] = {};  // address of rank 0
  std::uint8_t job_key[32] = {};        // a secret
  std::uint16_t listen_port = 0;
  std::uint16_t first_listen_port = 0;
  std::uint8_t offload = 0;
  std::uint8_t urgent = 0;
  std::uint8_t verbs = 0;
  std::uint8_t has_job_key = 0;
  std::uint64_t address_count = 0;
  std::uint64_t listen_address_count = 0;
  std::uint64_t port_count = 0;
  std::uint64_t program_bytes = 0;
};
struct PlanFilePort {
  std::uint32_t peer = 0;
  std::uint32_t channel = 0;
  std::uint32_t port = 0;  // 0: any
  std::uint32_t has_nics = 0;
  std::uint8_t source[16] = {};  // the addresses at both ends, if they are not those of the ranks
  std::uint8_t destination[16] = {};
};

}  // namespace espalier::agent
