#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "collective/program/collective_spec.h"
#include "collective/program/program_digest.h"

namespace espalier::program {

// A collective program as an interpreter runs it (GC3-IR): thread blocks for every rank, and for
// every thread block a list of steps that run in order. Blocks run concurrently on every rank; they
// wait for one another only through messages and through dependencies of steps.
//
// A connection is (sending rank, receiving rank, channel): a FIFO of messages with a number of
// slots that the interpreter chooses. Exactly one block sends on it and one receives. The k-th
// message sent is the k-th received; a send waits while all slots are full. All chunks have one
// size. The interpreter may cut that size into tiles and run the whole program once for each tile.

enum class Buffer : std::uint8_t { kInput, kOutput, kScratch };

struct Location {
  Buffer buffer = Buffer::kInput;
  std::int32_t index = 0;  // in chunks
  auto operator<=>(const Location&) const = default;
};

// With m for the message received, and src and dst for `count` chunks from source and destination
// on:
enum class OpCode : std::uint8_t {
  kNop,                    // only waits for its dependencies
  kSend,                   // send src
  kReceive,                // dst = m
  kReceiveCopySend,        // dst = m; send m
  kReceiveReduceSend,      // send m + src; stores nothing
  kReceiveReduceCopy,      // dst = m + src
  kReceiveReduceCopySend,  // dst = m + src; send it
  kCopy,                   // dst = src
  kReduce,                 // dst = dst + src
};

// MSCCL's names: nop, s, r, rcs, rrs, rrc, rrcs, cpy, re.
std::string_view OpCodeName(OpCode op);
std::optional<OpCode> FindOpCode(std::string_view name);
// "i", "o", "s".
std::string_view BufferName(Buffer buffer);
std::optional<Buffer> FindBuffer(std::string_view name);

bool Sends(OpCode op);
bool Receives(OpCode op);
bool ReadsSource(OpCode op);
bool ReadsDestination(OpCode op);  // kReduce alone
bool WritesDestination(OpCode op);

// Waits until that step of that block (of the same rank) is done.
struct Dependency {
  std::int32_t block = 0;
  std::int32_t step = 0;
  auto operator<=>(const Dependency&) const = default;
};

struct Step {
  OpCode op = OpCode::kNop;
  Location source;
  Location destination;
  std::int32_t count = 1;
  std::vector<Dependency> after;
  bool operator==(const Step&) const = default;
};

constexpr int kNoPeer = -1;

struct ThreadBlock {
  std::int32_t send_peer = kNoPeer;
  std::int32_t receive_peer = kNoPeer;
  std::int32_t channel = 0;
  std::vector<Step> steps;
  bool operator==(const ThreadBlock&) const = default;
};

struct RankProgram {
  // The sizes of the buffers that this program uses; 0 for an unused buffer.
  std::int32_t input_chunks = 0;
  std::int32_t output_chunks = 0;
  std::int32_t scratch_chunks = 0;
  std::vector<ThreadBlock> blocks;
  bool operator==(const RankProgram&) const = default;
};

enum class Protocol : std::uint8_t { kSimple, kLl, kLl128 };

// Which calls a program can serve. In place the output is the input (allgather: the input is the
// rank's part of the output; reduce_scatter: the output is the rank's part of the input).
struct BufferPlacement {
  bool in_place = true;
  bool out_of_place = true;
  bool operator==(const BufferPlacement&) const = default;
};

// The chunks of messages; of a program that sends nothing: 1 at most and in the mean.
struct MessageCounts {
  std::int32_t largest = 1;
  std::int64_t messages = 0;
  std::int64_t chunks = 0;  // in all messages
  double mean() const {
    return messages == 0 ? 1 : static_cast<double>(chunks) / static_cast<double>(messages);
  }
  bool operator==(const MessageCounts&) const = default;
};

// What a rank knows of the whole program if it holds only its own part: the blocks of the other
// ranks are missing. The digest covers everything, so ranks whose digests are equal hold parts of
// one program.
struct ProgramPart {
  std::int32_t rank = 0;
  std::int32_t channels = 0;  // of the whole program, as are the messages
  MessageCounts messages;
  ProgramDigest digest = {};
  std::vector<ProgramDigest> path;  // from the part's own digest to that of the whole
  bool operator==(const ProgramPart&) const = default;
};

struct Program {
  std::string name;
  CollectiveSpec collective;
  BufferPlacement placement;
  Protocol protocol = Protocol::kSimple;
  // The data sizes that it is meant for.
  std::int64_t min_bytes = 0;
  std::int64_t max_bytes = std::numeric_limits<std::int64_t>::max();
  std::vector<RankProgram> ranks;
  std::optional<ProgramPart> part;  // none: the whole program is here
  bool operator==(const Program&) const = default;
};

// Returns the number of channels, the highest channel plus one; of a part, that of the whole.
int CountChannels(const Program& program);
// Of the blocks that are here.
std::int64_t CountSteps(const Program& program);
// Of a part, those of the whole program.
MessageCounts CountMessages(const Program& program);

}  // namespace espalier::program
