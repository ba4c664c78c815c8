#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "collective/program/collective_spec.h"
#include "collective/reduce/data_type.h"
#include "collective/transport/base/transport.h"

namespace espalier::runtime {

// What all ranks of a group have to agree on in one call. Travels with every message, so that
// calls that differ are found by whoever meets first.
struct CallSignature {
  std::uint32_t sequence = 0;  // calls of this group before it
  program::CollectiveKind kind = program::CollectiveKind::kAllReduce;
  reduce::DataType type = reduce::DataType::kF32;
  reduce::ReduceOp op = reduce::ReduceOp::kSum;
  std::int32_t root = program::kNoRoot;
  std::uint64_t count = 0;
  std::uint64_t program = 0;  // a fingerprint of the program that runs it; 0: none
  // Of unequal parts: a fingerprint of their bounds, and `count` is that of all parts; 0: equal.
  std::uint32_t bounds = 0;

  bool operator==(const CallSignature&) const = default;
};

// How many shares of a call's `count` elements each buffer of a rank has: 1, or one for each rank.
struct Shares {
  std::size_t input = 1;
  std::size_t output = 1;
};
Shares SharesOf(program::CollectiveKind kind, int ranks);

// Never 0. Bounds that differ have the same one by a chance of one in 2^32.
std::uint32_t FingerprintOfBounds(std::span<const std::size_t> bounds);

transport::MessageTag ToTag(const CallSignature& call);
CallSignature FromTag(const transport::MessageTag& tag);

// "allreduce of 1024 f32 (sum), call 17". Of any tag, even of nonsense.
std::string Describe(const CallSignature& call);
// What is wrong where a peer's call is not this rank's own.
Error MismatchError(int peer, const CallSignature& theirs, int rank, const CallSignature& ours);

}  // namespace espalier::runtime
