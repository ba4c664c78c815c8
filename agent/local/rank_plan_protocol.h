#pragma once

#include <cstdint>

// What the agent and the library in programs say of plans: private to the two, and bound together
// by kPlanVersion. The program says which rank of which job it is, on a SEQPACKET unix socket
// beside that of the local API; the agent answers with the rank's plan in a memory file
// (SCM_RIGHTS, sealed) as soon as it has one, and again with each that comes into force. The
// program may report its collectives on the way.
namespace espalier::agent {

inline constexpr std::uint32_t kPlanMagic = 0x4e4c5045;
inline constexpr std::uint32_t kPlanVersion = 2;
inline constexpr const char* kPlanSocketSuffix = ".plans";
inline constexpr const char* kOffloadSocketSuffix = ".offload";

// From the program, first.
struct PlanRequest {
  std::uint32_t magic = kPlanMagic;
  std::uint32_t version = kPlanVersion;
  std::uint32_t rank = 0;
  // For whose program the plan is: 0 for the caller's own, else a user's number and one, which only
  // the host's engine, root and the agent's own user may name.
  std::uint32_t user_and_one = 0;
  char job[256] = {};  // ends with a zero
};

// From the program, after that, as often as it likes.
struct PlanReport {
  std::uint32_t magic = kPlanMagic;
  std::uint32_t collective = 0;  // program::CollectiveKind
  std::uint64_t sequence = 0;
  std::uint64_t bytes = 0;
  std::uint64_t duration_us = 0;
  char error[256] = {};  // ends with a zero
};

// In place of a number of bytes: the rank is another user's.
inline constexpr std::uint64_t kPlanOfOtherUser = UINT64_MAX;

// From the agent; with a file of so many bytes, or without one where the rank has no plan any more
// (0 bytes) or the plan is not for this user.
struct PlanNotice {
  std::uint32_t magic = kPlanMagic;
  std::uint32_t version = kPlanVersion;
  std::uint64_t bytes = 0;
};

// The file: this, the addresses of all ranks (16 bytes each; none from an older controller), the
// ports, the bytes of the program. Addresses are IPv6 or mapped into it.
struct PlanFileHeader {
  std::uint64_t plan_version = 0;
  std::uint32_t rank = 0;
  std::uint32_t ranks = 0;
  std::uint8_t address[16] = {};        // where this rank is reached
  std::uint8_t first_address[16] = {};  // and where the first rank is
  std::uint8_t job_key[32] = {};        // a secret
  std::uint16_t listen_port = 0;
  std::uint16_t first_listen_port = 0;
  std::uint8_t offload = 0;
  std::uint8_t urgent = 0;
  std::uint8_t verbs = 0;
  std::uint8_t has_job_key = 0;
  std::uint64_t address_count = 0;
  std::uint64_t port_count = 0;
  std::uint64_t program_bytes = 0;
};
struct PlanFilePort {
  std::uint32_t peer = 0;
  std::uint32_t channel = 0;
  std::uint32_t port = 0;
};

}  // namespace espalier::agent
