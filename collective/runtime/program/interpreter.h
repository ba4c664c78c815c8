#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <memory_resource>
#include <span>
#include <vector>

#include "collective/program/program.h"
#include "collective/reduce/reduce.h"
#include "collective/runtime/calls/call_signature.h"
#include "collective/runtime/calls/operands.h"
#include "collective/runtime/program/tiles.h"
#include "collective/transport/base/transport.h"
#include "collective/transport/base/wait_limit.h"
#include "common/base/result.h"

namespace espalier::runtime {

// Runs one rank's part of a program over a transport, on the calling thread.
//
// Problem: a program has many thread blocks, but a call has one thread, and no step may block it.
// Idea: the thread blocks take turns, and each runs until its next step has to wait for a message,
// a free slot or another block. The data is cut into tiles that fit the transport's slots, and a
// block starts its next tile without waiting for the other blocks, which pipelines long programs.
// Messages are read and written in the transport's slots, so a step that receives, reduces and
// sends is one pass over memory. If the transport can, data that needs no reduction is sent from
// the caller's memory and received in it.
// Invariant: a step runs only after the steps on which it depends have completed in the same tile
// and their memory is not being sent in place any more; each block runs its steps in order. Thus
// every execution is an interleaving that the verifier has proven.
// Cost: a step makes at most one pass over its data; each round of progress looks at every block.
//
// Elements that do not fill whole chunks form a last tile in buffers of the interpreter (tiles.h).
// Unequal parts need a program with one chunk for each rank's part, and rank r's data in scratch
// chunk r if scratch is used; the ring algorithms are such. A tile then has less of a shorter part,
// or nothing.
//
// Results depend on the program, the number of ranks and the values only. Sums of 16-bit floats are
// rounded at each step that stores or sends one; averages are divided at the end.
// Memory beyond the caller's: the scratch of the program, and the transport's slots. Run throws
// std::bad_alloc if the memory resource is exhausted.
// Errors of Run: kFailedPrecondition if ranks make different calls (both get the error);
// kUnavailable and other errors of the transport, with the ranks that were waited for. After an
// error or an exception the group must not be used again, and every rank gets the cause.
// Thread safety: one thread at a time.
class Interpreter {
 public:
  // Opens the connections that the program needs. All ranks call it with the same program, which
  // must have passed the verifier with as many slots as the transport has.
  // Errors: kInvalidArgument for a program of another number of ranks, or if its largest message
  // does not fit a slot; those of Transport::Connect.
  static Result<std::unique_ptr<Interpreter>> Prepare(
      std::shared_ptr<const program::Program> program, transport::Transport& transport,
      transport::Deadline deadline,
      std::pmr::memory_resource* memory = std::pmr::get_default_resource());

  Result<void> Run(const Operands& operands, const CallSignature& call,
                   const transport::WaitLimit& limit);
  std::uint64_t fingerprint() const { return fingerprint_; }

 private:
  struct Block {
    const program::ThreadBlock* code = nullptr;
    transport::Outbox* outbox = nullptr;
    transport::Inbox* inbox = nullptr;
    std::int64_t done = 0;  // steps completed, over all tiles
    // The memory that the outbox sends in place, and the steps completed before that.
    std::span<const std::byte> lent;
    std::int64_t done_before = 0;

    bool IsSendingInPlace() const { return outbox != nullptr && outbox->IsSendingInPlace(); }
    // The number of completed steps whose memory may be used.
    std::int64_t Settled() const { return IsSendingInPlace() ? done_before : done; }
  };

  Interpreter(std::shared_ptr<const program::Program> program, transport::Transport& transport,
              std::pmr::memory_resource* memory);

  const program::RankProgram& code() const;
  bool Averages() const;
  void Average(std::byte* output, std::size_t elements);
  bool IsFinished() const;
  Result<bool> Advance();
  Result<bool> TryStep(Block& block);
  bool MayWrite(const Block& block, const program::Step& step, const Tile& tile) const;
  // The bytes of a message to which a step is applied: all, or a piece of it.
  struct Part {
    const std::byte* message = nullptr;  // the byte at `begin`; null: no message
    std::size_t begin = 0;
    std::size_t end = 0;
  };
  Result<bool> TakeMessage(Block& block, const program::Step& step, const Tile& tile,
                           std::byte* slot) const;
  bool IsReady(const program::Step& step, std::int64_t tile) const;
  void Execute(const program::Step& step, const Tile& tile, const Part& part,
               std::byte* slot) const;
  Result<void> CheckMessage(const transport::MessageTag& tag, std::size_t size, int peer,
                            std::size_t bytes) const;
  std::string DescribeWaits() const;
  Result<void> RunTiles(const transport::WaitLimit& limit);

  std::shared_ptr<const program::Program> program_;
  transport::Transport& transport_;
  std::uint64_t fingerprint_ = 0;
  Tiling tiling_;
  std::vector<Block> blocks_;
  std::vector<std::size_t> turns_;  // the order of blocks; those that send come first
  reduce::Reduction reduction_;
  CallSignature call_;
};

}  // namespace espalier::runtime
