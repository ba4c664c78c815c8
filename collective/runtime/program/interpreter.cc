#include "collective/runtime/program/interpreter.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <set>
#include <string>
#include <utility>

namespace espalier::runtime {
namespace {

using program::CollectiveKind;
using program::OpCode;
using transport::Endpoint;

// An FNV-1a hash over the properties in which the programs of all ranks must agree.
class Fingerprint {
 public:
  void Add(std::int64_t value) {
    for (int i = 0; i < 8; ++i) {
      hash_ = (hash_ ^ static_cast<std::uint8_t>(value >> (8 * i))) * 0x100000001b3;
    }
  }
  std::uint64_t hash() const { return hash_ == 0 ? 1 : hash_; }

 private:
  std::uint64_t hash_ = 0xcbf29ce484222325;
};

std::uint64_t FingerprintOf(const program::Program& program) {
  Fingerprint print;
  if (program.part) {
    for (const std::uint8_t byte : program.part->digest) print.Add(byte);
    return print.hash();
  }
  print.Add(program.collective.chunks);
  for (const program::RankProgram& rank : program.ranks) {
    print.Add(static_cast<std::int64_t>(rank.blocks.size()));
    for (const program::ThreadBlock& block : rank.blocks) {
      print.Add(block.send_peer);
      print.Add(block.receive_peer);
      print.Add(block.channel);
      print.Add(static_cast<std::int64_t>(block.steps.size()));
      for (const program::Step& step : block.steps) {
        print.Add(static_cast<std::int64_t>(step.op));
        print.Add(static_cast<std::int64_t>(step.source.buffer) << 32 | step.source.index);
        print.Add(static_cast<std::int64_t>(step.destination.buffer) << 32 |
                  step.destination.index);
        print.Add(step.count);
      }
    }
  }
  return print.hash();
}

}  // namespace

Interpreter::Interpreter(std::shared_ptr<const program::Program> program,
                         transport::Transport& transport, std::pmr::memory_resource* memory)
    : program_(std::move(program)),
      transport_(transport),
      fingerprint_(FingerprintOf(*program_)),
      tiling_(*program_, transport, memory) {}

const program::RankProgram& Interpreter::code() const {
  return program_->ranks[static_cast<std::size_t>(transport_.rank())];
}

Result<std::unique_ptr<Interpreter>> Interpreter::Prepare(
    std::shared_ptr<const program::Program> program, transport::Transport& transport,
    transport::Deadline deadline, std::pmr::memory_resource* memory) {
  const auto ranks = static_cast<int>(program->ranks.size());
  if (ranks != transport.size()) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("program {} is for {} ranks, but the group has {}", program->name,
                            ranks, transport.size()));
  }
  std::unique_ptr<Interpreter> made(new Interpreter(std::move(program), transport, memory));
  if (made->tiling_.tile_bytes() < sizeof(std::int64_t)) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("program {} sends {} chunks in one message, which do not fit a slot of "
                            "{} bytes",
                            made->program_->name, program::CountMessages(*made->program_).largest,
                            transport.slot_bytes()));
  }
  std::set<Endpoint> endpoints;
  for (const program::ThreadBlock& block : made->code().blocks) {
    for (const int peer : {block.send_peer, block.receive_peer}) {
      if (peer != program::kNoPeer) endpoints.insert({peer, block.channel});
    }
  }
  const std::vector<Endpoint> list(endpoints.begin(), endpoints.end());
  auto connected = transport.Connect(list, deadline);
  if (!connected) return Propagate(connected);
  for (const program::ThreadBlock& code : made->code().blocks) {
    Block& block = made->blocks_.emplace_back();
    block.code = &code;
    if (code.send_peer != program::kNoPeer) {
      block.outbox = &transport.outbox({code.send_peer, code.channel});
    }
    if (code.receive_peer != program::kNoPeer) {
      block.inbox = &transport.inbox({code.receive_peer, code.channel});
    }
  }
  // Blocks that send run first, so that peers wait as briefly as possible.
  for (const bool sends : {true, false}) {
    for (std::size_t i = 0; i < made->blocks_.size(); ++i) {
      if ((made->blocks_[i].outbox != nullptr) == sends) made->turns_.push_back(i);
    }
  }
  return made;
}

bool Interpreter::IsReady(const program::Step& step, std::int64_t tile) const {
  return std::all_of(step.after.begin(), step.after.end(), [&](const program::Dependency& one) {
    const Block& block = blocks_[static_cast<std::size_t>(one.block)];
    const auto steps = static_cast<std::int64_t>(block.code->steps.size());
    return block.Settled() > tile * steps + one.step;
  });
}

void Interpreter::Execute(const program::Step& step, const Tile& tile, const Part& part,
                          std::byte* slot) const {
  const bool stores = program::WritesDestination(step.op);
  std::size_t bytes = 0;  // of the current chunk
  std::size_t at = 0;     // offset in the message
  for (std::int32_t i = 0; i < step.count && at < part.end; ++i, at += bytes) {
    program::Location sized = stores ? step.destination : step.source;
    sized.index += i;
    bytes = tile.BytesOf(sized);
    const std::size_t skipped = part.begin - std::min(part.begin, at);  // of this chunk
    if (skipped >= bytes) continue;
    const std::size_t done = std::min(bytes, part.end - at) - skipped;
    const auto find = [&](program::Location location) {
      location.index += i;
      return tile.Find(location) + skipped;
    };
    // Inputs in this order: the message, then what it is added to.
    std::array<const std::byte*, 2> inputs = {};
    std::array<std::byte*, 2> outputs = {};
    std::size_t input_count = 0;
    std::size_t output_count = 0;
    if (part.message != nullptr) inputs[input_count++] = part.message + (at + skipped - part.begin);
    if (program::ReadsDestination(step.op)) inputs[input_count++] = find(step.destination);
    if (program::ReadsSource(step.op)) inputs[input_count++] = find(step.source);
    if (program::WritesDestination(step.op)) outputs[output_count++] = find(step.destination);
    if (slot != nullptr) outputs[output_count++] = slot + at + skipped;
    if (input_count == 1 && output_count == 1) {
      if (inputs[0] != outputs[0]) reduce::Copy(inputs[0], outputs[0], done);
      continue;
    }
    reduce::Reduce(reduction_, {inputs.data(), input_count}, {outputs.data(), output_count},
                   done / reduce::SizeOf(reduction_.type));
  }
}

Result<void> Interpreter::CheckMessage(const transport::MessageTag& tag, std::size_t size, int peer,
                                       std::size_t bytes) const {
  const CallSignature theirs = FromTag(tag);
  if (!(theirs == call_)) {
    return tl::unexpected(MismatchError(peer, theirs, transport_.rank(), call_));
  }
  if (size == bytes) return {};
  return Fail(ErrorCode::kFailedPrecondition,
              fmt::format("rank {} sent {} bytes, but rank {} expects {} (different slot sizes?)",
                          peer, size, transport_.rank(), bytes));
}

// Whether the step does not write to memory that the block's outbox still sends in place.
bool Interpreter::MayWrite(const Block& block, const program::Step& step, const Tile& tile) const {
  if (!program::WritesDestination(step.op) || !block.IsSendingInPlace()) return true;
  for (std::int32_t i = 0; i < step.count; ++i) {
    const program::Location place = {step.destination.buffer, step.destination.index + i};
    const std::byte* begin = tile.Find(place);
    const std::byte* end = begin + tile.BytesOf(place);
    const bool is_apart =
        end <= block.lent.data() || block.lent.data() + block.lent.size() <= begin;
    if (!is_apart) return false;
  }
  return true;
}

// Executes a receiving step if its message has arrived; returns whether it is complete. Data that
// is stored unchanged is received at its destination. Data that is reduced is taken piece by piece
// as it arrives.
Result<bool> Interpreter::TakeMessage(Block& block, const program::Step& step, const Tile& tile,
                                      std::byte* slot) const {
  const std::size_t bytes = tile.BytesOf(step);
  const int peer = block.code->receive_peer;
  const bool stores = step.op == OpCode::kReceive || step.op == OpCode::kReceiveCopySend;
  std::byte* place = stores ? tile.Whole(step.destination, step.count) : nullptr;
  if (place == nullptr) {
    const auto take = [&](const transport::Piece& piece) -> Result<void> {
      auto checked = CheckMessage(piece.tag, piece.whole, peer, bytes);
      if (!checked) return checked;
      Execute(step, tile, {piece.bytes.data(), piece.offset, piece.offset + piece.bytes.size()},
              slot);
      return {};
    };
    auto taken = block.inbox->TryConsume(bytes, std::cref(take));
    if (!taken || !*taken) return taken;
  } else {
    const transport::Message* message = block.inbox->TryReceive(place, bytes);
    if (message == nullptr) return false;
    auto checked = CheckMessage(message->tag, message->bytes.size(), peer, bytes);
    if (!checked) return Propagate(checked);
    Execute(step, tile, {message->bytes.data(), 0, bytes}, slot);
  }
  block.inbox->Release();
  return true;
}

// Executes the block's next step if it need not wait; returns whether it did.
Result<bool> Interpreter::TryStep(Block& block) {
  const auto steps = static_cast<std::int64_t>(block.code->steps.size());
  const std::int64_t tile_index = block.done / steps;
  const program::Step& step = block.code->steps[static_cast<std::size_t>(block.done % steps)];
  const Tile& tile = tiling_.tiles()[static_cast<std::size_t>(tile_index)];
  if (!IsReady(step, tile_index) || !MayWrite(block, step, tile)) return false;
  const std::size_t bytes = tile.BytesOf(step);
  // Contiguous memory is sent in place; all else goes through a slot.
  const bool stores = program::WritesDestination(step.op);
  std::byte* piece = nullptr;
  if (program::Sends(step.op) && block.outbox->SupportsSendInPlace() &&
      (stores || step.op == OpCode::kSend)) {
    piece = tile.Whole(stores ? step.destination : step.source, step.count);
    if (piece != nullptr && !block.outbox->CanSendInPlace()) return false;
  }
  std::byte* slot = nullptr;
  if (program::Sends(step.op) && piece == nullptr) {
    slot = block.outbox->TryAcquire();
    if (slot == nullptr) return false;
  }
  if (program::Receives(step.op)) {
    auto taken = TakeMessage(block, step, tile, slot);
    if (!taken || !*taken) return taken;
  } else if (stores || slot != nullptr) {
    Execute(step, tile, {nullptr, 0, bytes}, slot);
  }
  if (slot != nullptr) block.outbox->Commit(bytes, ToTag(call_));
  if (piece != nullptr) {
    block.lent = {piece, bytes};
    block.done_before = block.done;
    block.outbox->SendInPlace(block.lent, ToTag(call_));
  }
  ++block.done;
  return true;
}

Result<bool> Interpreter::Advance() {
  bool moved = false;
  for (const std::size_t turn : turns_) {
    Block& block = blocks_[turn];
    const auto end = static_cast<std::int64_t>(block.code->steps.size() * tiling_.tiles().size());
    while (block.done < end) {
      auto stepped = TryStep(block);
      if (!stepped) return stepped;
      if (!*stepped) break;
      moved = true;
    }
  }
  return moved;
}

bool Interpreter::IsFinished() const {
  return std::all_of(blocks_.begin(), blocks_.end(), [&](const Block& block) {
    return block.done ==
           static_cast<std::int64_t>(block.code->steps.size() * tiling_.tiles().size());
  });
}

std::string Interpreter::DescribeWaits() const {
  std::set<int> peers;
  for (const Block& block : blocks_) {
    const auto steps = static_cast<std::int64_t>(block.code->steps.size());
    if (block.done == steps * static_cast<std::int64_t>(tiling_.tiles().size())) continue;
    const program::Step& step = block.code->steps[static_cast<std::size_t>(block.done % steps)];
    if (!IsReady(step, block.done / steps)) continue;
    const bool receives = program::Receives(step.op) && block.inbox->TryPeek() == nullptr;
    const int peer = receives ? block.code->receive_peer : block.code->send_peer;
    if (peer != program::kNoPeer) peers.insert(peer);
  }
  if (peers.empty()) return fmt::format("rank {} in {}", transport_.rank(), Describe(call_));
  return fmt::format("rank {} waited for rank {} in {}", transport_.rank(), fmt::join(peers, ", "),
                     Describe(call_));
}

Result<void> Interpreter::RunTiles(const transport::WaitLimit& limit) {
  for (Block& block : blocks_) block.done = 0;
  while (true) {
    auto moved = Advance();
    if (!moved) return Propagate(moved);
    if (IsFinished()) {
      return transport::WaitInterruptibly(
          limit, [&](transport::Deadline nap) { return transport_.Flush(nap); });
    }
    if (*moved) continue;
    auto waited = transport::WaitInterruptibly(
        limit, [&](transport::Deadline nap) { return transport_.Wait(nap); });
    if (waited) continue;
    return Fail(waited.error().code,
                fmt::format("{} ({})", waited.error().message, DescribeWaits()));
  }
}

Result<void> Interpreter::Run(const Operands& operands, const CallSignature& call,
                              const transport::WaitLimit& limit) {
  call_ = call;
  call_.program = fingerprint_;
  reduction_ = {.type = operands.type, .op = operands.op};
  const Operands cut = tiling_.Cut(operands);
  auto done = RunTiles(limit);
  if (!done) {
    transport_.Abort(done.error());
    return done;
  }
  tiling_.CopyOut(cut, operands);
  Average(operands.output, tiling_.OutputElements(operands));
  return {};
}

// Divides the sums if the operation is an average.
void Interpreter::Average(std::byte* output, std::size_t elements) {
  if (reduction_.op != reduce::ReduceOp::kAvg || !Averages() || elements == 0) return;
  reduction_.divisor = program_->collective.ranks;
  const std::byte* sums = output;
  reduce::Reduce(reduction_, {&sums, 1}, {&output, 1}, elements);
}

bool Interpreter::Averages() const {
  const CollectiveKind kind = program_->collective.kind;
  return kind == CollectiveKind::kAllReduce || kind == CollectiveKind::kReduceScatter ||
         kind == CollectiveKind::kReduce;
}

}  // namespace espalier::runtime
