#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "collective/program/collective_spec.h"
#include "collective/reduce/data_type.h"
#include "collective/transport/base/transport.h"

namespace espalier::runtime {

// What a call does whose data goes from rank to rank as messages, without a program.
enum class ExchangeKind : std::uint8_t {
  kNone,      // the call is a collective of a CollectiveKind
  kMessages,  // sends and receives of single ranks
  kGather,
  kScatter,
  kAllToAll,   // in unequal parts
  kReduction,  // by a function of the program
};
constexpr int kExchangeKinds = 6;

// The properties of a call in which all ranks of a group must agree. Every message carries it, so
// the first rank that receives from a peer in a different call detects the mismatch.
struct CallSignature {
  std::uint32_t sequence = 0;  // number of earlier calls of this group
  program::CollectiveKind kind = program::CollectiveKind::kAllReduce;
  reduce::DataType type = reduce::DataType::kF32;
  reduce::ReduceOp op = reduce::ReduceOp::kSum;
  std::int32_t root = program::kNoRoot;
  std::uint64_t count = 0;
  std::uint64_t program = 0;  // fingerprint of the program that runs it; 0: none
  // Unequal parts: the fingerprint of their bounds, and `count` is their sum. 0: equal parts.
  std::uint32_t bounds = 0;
  // If set, `kind` and `op` mean nothing, and `bounds` is the size of an element of kReduction.
  ExchangeKind exchange = ExchangeKind::kNone;

  bool operator==(const CallSignature&) const = default;
};

// How many times a call's `count` elements each buffer of a rank holds: once, or once per rank.
struct Shares {
  std::size_t input = 1;
  std::size_t output = 1;
};
Shares SharesOf(program::CollectiveKind kind, int ranks);

// A hash of the bounds, never 0. Different bounds collide with probability 2^-32.
std::uint32_t FingerprintOfBounds(std::span<const std::size_t> bounds);

transport::MessageTag ToTag(const CallSignature& call);
CallSignature FromTag(const transport::MessageTag& tag);

// Announces the call to the transport, which compares peers' calls with it. The programs of both
// are left to the check of each message.
void EnterCall(transport::Transport& transport, const CallSignature& call);

// For error messages: "allreduce of 1024 f32 (sum), call 17". Accepts signatures of any content,
// because they come from peers.
std::string Describe(const CallSignature& call);
// The error for a peer that is in another call than this rank.
Error MismatchError(int peer, const CallSignature& theirs, int rank, const CallSignature& ours);

}  // namespace espalier::runtime
