#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "collective/program/collective_spec.h"
#include "collective/program/program.h"

namespace espalier::program {

// An execution plan of MSCCL++ (the JSON of its executor), from any author. It is one-sided: blocks
// of every rank copy and reduce between their own memory and that of peers, and order this by
// counting signals, by semaphores, barriers and packets. Nothing in a plan states which access
// waits for which; plan_run.h finds out.
//
// An operation is performed by all threads of its block, which meet only in kMeet and kBarrier. A
// pipeline is unrolled into kPipelinePieces pieces of its data, as the number of pieces depends on
// the size of a call.

constexpr int kPipelinePieces = 3;

enum class PlanAction : std::uint8_t {
  kMeet,      // "nop": the threads of the block meet
  kBarrier,   // blocks of the rank meet
  kTransfer,  // moves data, then may signal and flush
  kSignal,    // counts up at the other ends of its channels
  kWait,      // waits for one more signal on each channel
  kFlush,     // waits until the network has done the block's transfers on its channels
  kAcquire,   // counts semaphores down, and waits where they are 0
  kRelease,   // counts semaphores up
};

// Chunks of one rank's memory. Packets carry a flag with every word, so that a reader can wait for
// them. They exist in scratch memory only, where packet k takes the room of chunks 2k and 2k + 1.
struct PlanPlace {
  std::int32_t rank = 0;
  Location at;
  bool is_packet = false;
};

// Every destination gets the sum of the sources: `count` chunks each.
struct PlanTransfer {
  std::vector<PlanPlace> sources;
  std::vector<PlanPlace> destinations;
  std::int32_t count = 1;
  std::int32_t channel = -1;  // the port channel of its rank that performs it; -1: threads do
  bool waits_for_packets = false;
};

struct PlanOperation {
  PlanAction action = PlanAction::kMeet;
  std::int32_t number = 0;  // in the file's list of the block
  bool is_relaxed = false;  // a signal or wait that does not order data
  // The part of all its chunks that the operation touches: `part` of `parts` equal ones.
  std::int32_t part = 0;
  std::int32_t parts = 1;
  std::vector<PlanTransfer> transfers;
  std::vector<std::int32_t> channels;    // of the rank, for kSignal, kWait and kFlush
  std::vector<std::int32_t> semaphores;  // of the rank
  std::int32_t barrier = -1;
  std::int32_t barrier_blocks = 0;
};

// One end of a channel. The k-th channel of a type from rank a to rank b and the k-th of this type
// from b to a are its two ends.
struct PlanChannel {
  bool is_port = false;  // the network's; else a memory channel
  std::int32_t peer = 0;
  std::int32_t other_end = -1;  // channel of the peer; -1: the peer does not use it
};

struct PlanRank {
  std::int32_t scratch_chunks = 0;
  std::vector<PlanChannel> channels;
  std::vector<std::int32_t> semaphores;  // their initial values
  std::vector<std::vector<PlanOperation>> blocks;
};

struct ExecutionPlan {
  std::string name;
  CollectiveSpec collective;
  bool in_place = false;
  Protocol protocol = Protocol::kSimple;
  // Successive runs use one half of the scratch memory each.
  bool alternates_scratch = false;
  std::int64_t min_bytes = 0;
  std::int64_t max_bytes = std::numeric_limits<std::int64_t>::max();
  std::vector<PlanRank> ranks;
};

}  // namespace espalier::program
