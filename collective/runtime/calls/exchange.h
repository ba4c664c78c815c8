#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "collective/program/collective_spec.h"
#include "collective/reduce/data_type.h"
#include "collective/runtime/calls/call_signature.h"
#include "common/base/result.h"

namespace espalier::runtime {

// What one rank gives to another one in an exchange, and what it gets. The tag tells messages
// between the same two ranks apart; collective exchanges have one block for each peer and no tags.
struct OutgoingBlock {
  int peer = 0;
  std::span<const std::byte> bytes;
  std::uint64_t tag = 0;
};
struct IncomingBlock {
  int peer = 0;
  std::span<std::byte> bytes;
  std::uint64_t tag = 0;
};

// A call whose data goes straight from rank to rank: messages, a gather, a scatter, an alltoall in
// unequal parts, or a step of a reduction by a function of the program. All kinds but kMessages are
// collective: every rank of the group makes the same call, and every block that a rank sends is
// expected by its peer, with the same size, also if it is empty.
struct Exchange {
  ExchangeKind kind = ExchangeKind::kMessages;
  // What ranks must agree on, beside the kind: the element type, the root, the elements of a part
  // if all parts are equal (else 0), and the size of an element of kReduction.
  reduce::DataType type = reduce::DataType::kU8;
  int root = program::kNoRoot;
  std::uint64_t count = 0;
  std::uint32_t element_bytes = 0;
  std::vector<OutgoingBlock> sends;
  std::vector<IncomingBlock> receives;
};

// This rank's parts of a collective with one part for each rank, which lie one after another.
struct Parts {
  std::span<const std::size_t> counts;  // in elements; empty: `count` for each rank
  std::size_t count = 0;
};

// The exchange of a gather: the root gets the part of every rank, in the order of the ranks. `own`:
// the elements of this rank. `parts` and `output` are read at the root only. The root's input may
// be its own part of the output.
// Errors, of all functions below: kInvalidArgument for a root that is not a rank, for other than
// one count per rank, for sizes beyond the address space (as a negative count is), for a null
// buffer, and at a root whose own part has another size than its input.
Result<Exchange> MakeGather(int rank, int size, const void* input, std::size_t own, void* output,
                            const Parts& parts, reduce::DataType type, int root);
// The exchange of a scatter: every rank gets its part of the root's input. `parts` and `input` are
// read at the root only. The root's output may be its own part of the input.
Result<Exchange> MakeScatter(int rank, int size, const void* input, const Parts& parts,
                             void* output, std::size_t own, reduce::DataType type, int root);
// The exchange of an alltoall in unequal parts: this rank gives `sends.counts[r]` elements to rank
// r, and gets `receives.counts[r]` from it. The two buffers do not overlap.
Result<Exchange> MakeAllToAll(int rank, int size, const void* input, const Parts& sends,
                              void* output, const Parts& receives, reduce::DataType type);

// Checks what one rank can check alone: peers are ranks, buffers are not null, no two receives of a
// peer have the same tag, nor do two sends, and no receive overlaps other buffers of the exchange
// (except what a rank gives to itself, at the same address). Complexity: O(blocks log blocks).
// Errors: kInvalidArgument, with the peer and the tag.
Result<void> CheckExchange(const Exchange& exchange, int size, int rank);

// What all ranks of a collective exchange must agree on.
CallSignature SignatureOf(const Exchange& exchange, std::uint32_t sequence);

}  // namespace espalier::runtime
