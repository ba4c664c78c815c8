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

// Runs one rank's part of a program over a transport, on the calling thread: its thread blocks take
// turns, each as far as it gets. Data is cut into tiles that fit the transport's slots, and blocks
// go on to the next tile without waiting for one another, which is what pipelines long programs.
// Messages are read and written in the transport's slots: a step that receives, reduces and sends
// on is one pass over memory. Where the transport can, what needs no reduction is sent from and
// received in the caller's memory. Elements beyond the last whole share of the chunks are a last
// tile of their own, in buffers of the interpreter.
// Unequal parts are for programs that have one chunk for each rank's part, and in scratch chunk r,
// if at all, that of rank r: the rings. A tile has less of a shorter part, or nothing.
//
// Results depend on the program, the number of ranks and the values alone; sums of 16-bit floats
// are rounded at each step that stores or sends one, averages are divided at the end.
// Memory beyond the caller's: the scratch that the program asks for, and the transport's slots. Run
// throws std::bad_alloc where the source has no more of it; the group is of no more use then.
// Errors of Run: kFailedPrecondition where ranks' calls differ (both are told); what the transport
// says, kUnavailable, with the ranks that were waited for. The group is of no more use then, and
// every rank is told why.
// Thread safety: one thread at a time.
class Interpreter {
 public:
  // Opens the connections that the program needs; every rank of the group does, with one program,
  // which has passed the verifier with as many slots as the transport has.
  // Errors: kInvalidArgument for a program of another number of ranks, or whose largest message
  // does not fit a slot; what Connect says.
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
    std::int64_t done = 0;  // steps, over all tiles
    // What the outbox still borrows, and the steps that were done before it was lent.
    std::span<const std::byte> lent;
    std::int64_t done_before = 0;

    bool IsSendingInPlace() const { return outbox != nullptr && outbox->IsSendingInPlace(); }
    // Steps whose memory is free to use.
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
  // What a step does with a message: all of it, or the bytes from one on.
  struct Part {
    const std::byte* message = nullptr;  // at `begin`
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
  std::vector<std::size_t> turns_;  // of blocks: those that send are first
  reduce::Reduction reduction_;
  CallSignature call_;
};

}  // namespace espalier::runtime
