#include "collective/runtime/interpreter.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <set>
#include <string>
#include <utility>

#include "common/base/check.h"

namespace espalier::runtime {
namespace {

using program::Buffer;
using program::CollectiveKind;
using program::OpCode;
using transport::Endpoint;

constexpr std::size_t kTileGranularity = 64;

std::size_t Index(Buffer buffer) { return static_cast<std::size_t>(buffer); }

// FNV-1a over what makes ranks' programs fit together.
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

// Bytes of each chunk that one message carries: messages on average of the size that the transport
// likes, and the largest within a slot. All ranks come to the same.
std::size_t TileBytesOf(const program::Program& program, const transport::Transport& transport) {
  const program::MessageCounts counts = program::CountMessages(program);
  const auto wanted =
      static_cast<std::size_t>(static_cast<double>(transport.message_bytes()) / counts.mean);
  const std::size_t most = transport.slot_bytes() / static_cast<std::size_t>(counts.largest);
  return std::min(std::max(wanted, kTileGranularity), most);
}

}  // namespace

std::size_t Operands::PartOf(int rank) const {
  return bounds.empty() ? elements : BeginOf(rank + 1) - BeginOf(rank);
}

std::size_t Operands::BeginOf(int rank) const {
  const auto index = static_cast<std::size_t>(rank);
  return bounds.empty() ? index * elements : bounds[index];
}

Interpreter::Interpreter(std::shared_ptr<const program::Program> program,
                         transport::Transport& transport)
    : program_(std::move(program)),
      transport_(transport),
      fingerprint_(FingerprintOf(*program_)),
      tile_bytes_(TileBytesOf(*program_, transport)) {}

const program::RankProgram& Interpreter::code() const {
  return program_->ranks[static_cast<std::size_t>(transport_.rank())];
}

Result<std::unique_ptr<Interpreter>> Interpreter::Prepare(
    std::shared_ptr<const program::Program> program, transport::Transport& transport,
    transport::Deadline deadline) {
  const auto ranks = static_cast<int>(program->ranks.size());
  if (ranks != transport.size()) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("program {} is for {} ranks, the group has {}", program->name, ranks,
                            transport.size()));
  }
  std::unique_ptr<Interpreter> made(new Interpreter(std::move(program), transport));
  if (made->tile_bytes_ < sizeof(std::int64_t)) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("program {} sends {} chunks at once, more than fit {} bytes",
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
  return made;
}

std::size_t Interpreter::SegmentsOf(Buffer buffer) const {
  const CollectiveKind kind = program_->collective.kind;
  const bool is_shared = kind == CollectiveKind::kAllToAll ||
                         (kind == CollectiveKind::kAllGather && buffer == Buffer::kOutput) ||
                         (kind == CollectiveKind::kReduceScatter && buffer == Buffer::kInput);
  return is_shared ? static_cast<std::size_t>(program_->collective.ranks) : 1;
}

std::size_t Interpreter::ChunksOf(Buffer buffer) const {
  const int rank = transport_.rank();
  switch (buffer) {
    case Buffer::kInput:
      return static_cast<std::size_t>(program_->collective.InputChunks(rank));
    case Buffer::kOutput:
      return static_cast<std::size_t>(program_->collective.OutputChunks(rank));
    case Buffer::kScratch:
      break;
  }
  return static_cast<std::size_t>(code().scratch_chunks);
}

// Chunks that Operands::elements are cut into.
std::size_t Interpreter::ChunksPerShare() const {
  const program::CollectiveSpec& spec = program_->collective;
  const bool is_shared = spec.kind == CollectiveKind::kAllToAll ||
                         spec.kind == CollectiveKind::kAllGather ||
                         spec.kind == CollectiveKind::kReduceScatter;
  return static_cast<std::size_t>(is_shared ? spec.chunks / spec.ranks : spec.chunks);
}

void Interpreter::CutIntoTiles(const Operands& operands) {
  const std::size_t element = reduce::SizeOf(operands.type);
  const std::size_t share = ChunksPerShare();
  const std::size_t whole = operands.elements / share;  // elements of a chunk
  Tile tile;
  tile.chunk_bytes = whole * element;
  const std::size_t segment_bytes = operands.elements * element;
  // The input is only read where it is not the output too.
  tile.buffers[Index(Buffer::kInput)] = {const_cast<std::byte*>(operands.input), share,
                                         segment_bytes};
  tile.buffers[Index(Buffer::kOutput)] = {operands.output, share, segment_bytes};
  scratch_.resize(std::max(scratch_.size(), ChunksOf(Buffer::kScratch) * tile.chunk_bytes));
  tile.buffers[Index(Buffer::kScratch)] = {scratch_.data(), ChunksOf(Buffer::kScratch), 0};
  CutIntoTiles(tile, element);
  const std::size_t rest = operands.elements % share;
  if (rest != 0) AddTail(operands, whole, rest);
  if (tiles_.empty()) tiles_.push_back(tile);  // messages without data
}

void Interpreter::CutIntoTiles(Tile whole, std::size_t element) {
  std::size_t limit = tile_bytes_;
  limit -= limit % (limit > kTileGranularity ? kTileGranularity : element);
  tiles_.clear();
  for (; whole.offset < whole.chunk_bytes; whole.offset += whole.bytes) {
    whole.bytes = std::min(limit, whole.chunk_bytes - whole.offset);
    tiles_.push_back(whole);
  }
}

// As many tiles as the longest part has.
void Interpreter::CutUnequalParts(const Operands& operands) {
  const int ranks = program_->collective.ranks;
  ESPALIER_CHECK(ChunksPerShare() == 1 && program_->placement.in_place &&
                     program_->placement.out_of_place &&
                     ChunksOf(Buffer::kScratch) <= static_cast<std::size_t>(ranks),
                 "program={}", program_->name);
  const std::size_t element = reduce::SizeOf(operands.type);
  const auto own = operands.bounds.subspan(static_cast<std::size_t>(transport_.rank()), 2);
  const auto layout = [&](std::byte* base, std::span<const std::size_t> bounds) {
    return Layout{.base = base, .bounds = bounds, .element = element};
  };
  Tile tile;
  for (int rank = 0; rank < ranks; ++rank) {
    tile.chunk_bytes = std::max(tile.chunk_bytes, operands.PartOf(rank) * element);
  }
  if (ChunksOf(Buffer::kScratch) > 0) {
    scratch_.resize(std::max(scratch_.size(), operands.elements * element));
  }
  const bool gathers = program_->collective.kind == CollectiveKind::kAllGather;
  tile.buffers[Index(Buffer::kInput)] =
      layout(const_cast<std::byte*>(operands.input), gathers ? own : operands.bounds);
  tile.buffers[Index(Buffer::kOutput)] = layout(operands.output, gathers ? operands.bounds : own);
  tile.buffers[Index(Buffer::kScratch)] = layout(scratch_.data(), operands.bounds);
  CutIntoTiles(tile, element);
  if (tiles_.empty()) tiles_.push_back(tile);  // messages without data
}

bool Interpreter::IsInPlace(const Operands& operands) const {
  const std::size_t before = operands.BeginOf(transport_.rank()) * reduce::SizeOf(operands.type);
  switch (program_->collective.kind) {
    case CollectiveKind::kAllGather:
      return operands.input == operands.output + before;
    case CollectiveKind::kReduceScatter:
      return operands.output == operands.input + before;
    default:
      return operands.input == operands.output;
  }
}

// One element a chunk. The elements of a segment beyond share x whole, and zeros after them.
void Interpreter::AddTail(const Operands& operands, std::size_t whole, std::size_t rest) {
  const std::size_t element = reduce::SizeOf(operands.type);
  const std::size_t share = ChunksPerShare();
  const std::size_t input = ChunksOf(Buffer::kInput) * element;
  const std::size_t output = ChunksOf(Buffer::kOutput) * element;
  tail_.assign(input + output + ChunksOf(Buffer::kScratch) * element, std::byte{0});
  std::byte* inputs = tail_.data();
  std::byte* outputs = tail_.data() + input;
  if (IsInPlace(operands)) {
    const CollectiveKind kind = program_->collective.kind;
    const std::size_t part = static_cast<std::size_t>(transport_.rank()) * share * element;
    outputs = tail_.data() + (kind == CollectiveKind::kReduceScatter ? part : 0);
    inputs = tail_.data() + (kind == CollectiveKind::kAllGather ? part : 0);
  }
  Tile tile;
  tile.chunk_bytes = element;
  tile.bytes = element;
  tile.buffers[Index(Buffer::kInput)] = {inputs, share, share * element};
  tile.buffers[Index(Buffer::kOutput)] = {outputs, share, share * element};
  tile.buffers[Index(Buffer::kScratch)] = {tail_.data() + input + output,
                                           ChunksOf(Buffer::kScratch), 0};
  if (operands.input != nullptr) {
    for (std::size_t s = 0; s < SegmentsOf(Buffer::kInput); ++s) {
      const std::size_t first = s * operands.elements + whole * share;
      std::memcpy(inputs + s * share * element, operands.input + first * element, rest * element);
    }
  }
  tiles_.push_back(tile);
}

void Interpreter::CopyTailOut(const Operands& operands) const {
  const std::size_t share = ChunksPerShare();
  const std::size_t rest = operands.elements % share;
  if (rest == 0 || operands.output == nullptr || ChunksOf(Buffer::kOutput) == 0) return;
  const std::size_t element = reduce::SizeOf(operands.type);
  const std::byte* from = tiles_.back().buffers[Index(Buffer::kOutput)].base;
  for (std::size_t s = 0; s < SegmentsOf(Buffer::kOutput); ++s) {
    const std::size_t first = (s + 1) * operands.elements - rest;
    std::memcpy(operands.output + first * element, from + s * share * element, rest * element);
  }
}

std::byte* Interpreter::Find(const Tile& tile, program::Location location) {
  const Layout& layout = tile.buffers[Index(location.buffer)];
  const auto index = static_cast<std::size_t>(location.index);
  if (!layout.bounds.empty()) {
    const std::size_t bytes = (layout.bounds[index + 1] - layout.bounds[index]) * layout.element;
    return layout.base + (layout.bounds[index] - layout.bounds[0]) * layout.element +
           std::min(tile.offset, bytes);
  }
  return layout.base + index / layout.segment_chunks * layout.segment_bytes +
         index % layout.segment_chunks * tile.chunk_bytes + tile.offset;
}

// Of a chunk in the tile.
std::size_t Interpreter::BytesOf(const Tile& tile, program::Location location) {
  const Layout& layout = tile.buffers[Index(location.buffer)];
  if (layout.bounds.empty()) return tile.bytes;
  const auto index = static_cast<std::size_t>(location.index);
  const std::size_t bytes = (layout.bounds[index + 1] - layout.bounds[index]) * layout.element;
  return std::min(tile.bytes, bytes - std::min(bytes, tile.offset));
}

// Of all chunks of a step.
std::size_t Interpreter::BytesOf(const Tile& tile, const program::Step& step) {
  program::Location location = program::WritesDestination(step.op) ? step.destination : step.source;
  std::size_t bytes = 0;
  for (std::int32_t i = 0; i < step.count; ++i, ++location.index) bytes += BytesOf(tile, location);
  return bytes;
}

bool Interpreter::IsReady(const program::Step& step, std::int64_t tile) const {
  return std::all_of(step.after.begin(), step.after.end(), [&](const program::Dependency& one) {
    const Block& block = blocks_[static_cast<std::size_t>(one.block)];
    const auto steps = static_cast<std::int64_t>(block.code->steps.size());
    return block.Settled() > tile * steps + one.step;
  });
}

void Interpreter::Execute(const program::Step& step, const Tile& tile, const std::byte* message,
                          std::byte* slot) const {
  const bool stores = program::WritesDestination(step.op);
  std::size_t bytes = 0;  // of this chunk
  std::size_t at = 0;     // in the messages
  for (std::int32_t i = 0; i < step.count; ++i, at += bytes) {
    program::Location sized = stores ? step.destination : step.source;
    sized.index += i;
    bytes = BytesOf(tile, sized);
    if (bytes == 0) continue;
    const auto find = [&](program::Location location) {
      location.index += i;
      return Find(tile, location);
    };
    // A message first, then what it is added to.
    std::array<const std::byte*, 2> inputs = {};
    std::array<std::byte*, 2> outputs = {};
    std::size_t input_count = 0;
    std::size_t output_count = 0;
    if (message != nullptr) inputs[input_count++] = message + at;
    if (program::ReadsDestination(step.op)) inputs[input_count++] = find(step.destination);
    if (program::ReadsSource(step.op)) inputs[input_count++] = find(step.source);
    if (program::WritesDestination(step.op)) outputs[output_count++] = find(step.destination);
    if (slot != nullptr) outputs[output_count++] = slot + at;
    if (input_count == 1 && output_count == 1) {
      if (inputs[0] != outputs[0]) reduce::Copy(inputs[0], outputs[0], bytes);
      continue;
    }
    reduce::Reduce(reduction_, {inputs.data(), input_count}, {outputs.data(), output_count},
                   bytes / reduce::SizeOf(reduction_.type));
  }
}

Result<void> Interpreter::CheckMessage(const transport::Message& message, int peer,
                                       std::size_t bytes) const {
  const CallSignature theirs = FromTag(message.tag);
  if (!(theirs == call_)) {
    return tl::unexpected(MismatchError(peer, theirs, transport_.rank(), call_));
  }
  if (message.bytes.size() == bytes) return {};
  return Fail(ErrorCode::kFailedPrecondition,
              fmt::format("rank {} sent {} bytes where rank {} expects {} (other sizes of slots?)",
                          peer, message.bytes.size(), transport_.rank(), bytes));
}

// The memory of so many chunks where it is in one piece; null where it is not.
std::byte* Interpreter::Whole(const Tile& tile, program::Location location,
                              std::int32_t count) const {
  std::byte* const begin = Find(tile, location);
  std::byte* end = begin;
  for (std::int32_t i = 0; i < count; ++i, ++location.index) {
    if (Find(tile, location) != end) return nullptr;
    end += BytesOf(tile, location);
  }
  return begin;
}

// Whether the step leaves alone what the block's outbox still borrows.
bool Interpreter::MayWrite(const Block& block, const program::Step& step, const Tile& tile) const {
  if (!program::WritesDestination(step.op) || !block.IsLending()) return true;
  for (std::int32_t i = 0; i < step.count; ++i) {
    const program::Location place = {step.destination.buffer, step.destination.index + i};
    const std::byte* begin = Find(tile, place);
    const std::byte* end = begin + BytesOf(tile, place);
    const bool is_apart =
        end <= block.lent.data() || block.lent.data() + block.lent.size() <= begin;
    if (!is_apart) return false;
  }
  return true;
}

// Null while none is there. What the step stores unchanged is received in its place.
Result<const transport::Message*> Interpreter::TakeMessage(Block& block, const program::Step& step,
                                                           const Tile& tile) const {
  const std::size_t bytes = BytesOf(tile, step);
  const bool stores = step.op == OpCode::kReceive || step.op == OpCode::kReceiveCopySend;
  std::byte* place = stores ? Whole(tile, step.destination, step.count) : nullptr;
  const transport::Message* message =
      place != nullptr ? block.inbox->TryReceive(place, bytes) : block.inbox->TryPeek();
  if (message == nullptr) return nullptr;
  auto checked = CheckMessage(*message, block.code->receive_peer, bytes);
  if (!checked) return Propagate(checked);
  return message;
}

// Whether the block got one step further.
Result<bool> Interpreter::TryStep(Block& block) {
  const auto steps = static_cast<std::int64_t>(block.code->steps.size());
  const std::int64_t tile_index = block.done / steps;
  const program::Step& step = block.code->steps[static_cast<std::size_t>(block.done % steps)];
  const Tile& tile = tiles_[static_cast<std::size_t>(tile_index)];
  if (!IsReady(step, tile_index) || !MayWrite(block, step, tile)) return false;
  const std::size_t bytes = BytesOf(tile, step);
  // What is sent from memory in one piece is lent, all else goes through a slot.
  const bool stores = program::WritesDestination(step.op);
  std::byte* piece = nullptr;
  if (program::Sends(step.op) && block.outbox->Borrows() && (stores || step.op == OpCode::kSend)) {
    piece = Whole(tile, stores ? step.destination : step.source, step.count);
    if (piece != nullptr && !block.outbox->CanLend()) return false;
  }
  const transport::Message* message = nullptr;
  if (program::Receives(step.op)) {
    auto taken = TakeMessage(block, step, tile);
    if (!taken) return Propagate(taken);
    if (*taken == nullptr) return false;
    message = *taken;
  }
  std::byte* slot = nullptr;
  if (program::Sends(step.op) && piece == nullptr) {
    slot = block.outbox->TryAcquire();
    if (slot == nullptr) return false;
  }
  if (tile.bytes > 0 && (stores || slot != nullptr)) {
    Execute(step, tile, message != nullptr ? message->bytes.data() : nullptr, slot);
  }
  if (message != nullptr) block.inbox->Release();
  if (slot != nullptr) block.outbox->Commit(bytes, ToTag(call_));
  if (piece != nullptr) {
    block.lent = {piece, bytes};
    block.done_before = block.done;
    block.outbox->Lend(block.lent, ToTag(call_));
  }
  ++block.done;
  return true;
}

Result<bool> Interpreter::Advance() {
  bool moved = false;
  for (Block& block : blocks_) {
    const auto end = static_cast<std::int64_t>(block.code->steps.size() * tiles_.size());
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
    return block.done == static_cast<std::int64_t>(block.code->steps.size() * tiles_.size());
  });
}

std::string Interpreter::DescribeWaits() const {
  std::set<int> peers;
  for (const Block& block : blocks_) {
    const auto steps = static_cast<std::int64_t>(block.code->steps.size());
    if (block.done == steps * static_cast<std::int64_t>(tiles_.size())) continue;
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

Result<void> Interpreter::RunTiles(const transport::Patience& patience) {
  for (Block& block : blocks_) block.done = 0;
  while (true) {
    auto moved = Advance();
    if (!moved) return Propagate(moved);
    if (IsFinished()) {
      return transport::WaitInNaps(patience,
                                   [&](transport::Deadline nap) { return transport_.Flush(nap); });
    }
    if (*moved) continue;
    auto waited = transport::WaitInNaps(
        patience, [&](transport::Deadline nap) { return transport_.Wait(nap); });
    if (waited) continue;
    return Fail(waited.error().code,
                fmt::format("{} ({})", waited.error().message, DescribeWaits()));
  }
}

// Programs that cannot work where the caller has its memory work on a copy.
Operands Interpreter::Stage(const Operands& operands) {
  const bool in_place = IsInPlace(operands);
  const program::Placement& placement = program_->placement;
  if (in_place ? placement.in_place : placement.out_of_place) return operands;
  const std::size_t share = operands.elements * reduce::SizeOf(operands.type);
  const std::size_t input = SegmentsOf(Buffer::kInput) * share;
  const std::size_t output =
      ChunksOf(Buffer::kOutput) > 0 ? SegmentsOf(Buffer::kOutput) * share : 0;
  staging_.resize(std::max(staging_.size(), std::max(input, output)));
  Operands staged = operands;
  if (in_place) {
    staged.input = staging_.data();
  } else {
    const std::size_t part = share * static_cast<std::size_t>(transport_.rank());
    const CollectiveKind kind = program_->collective.kind;
    staged.output = staging_.data() + (kind == CollectiveKind::kReduceScatter ? part : 0);
    staged.input = staging_.data() + (kind == CollectiveKind::kAllGather ? part : 0);
  }
  if (operands.input != nullptr && input > 0) {
    reduce::Copy(operands.input, const_cast<std::byte*>(staged.input), input);
  }
  return staged;
}

Result<void> Interpreter::Run(const Operands& operands, const CallSignature& call,
                              const transport::Patience& patience) {
  call_ = call;
  call_.program = fingerprint_;
  reduction_ = {.type = operands.type, .op = operands.op};
  if (operands.HasUnequalParts()) return RunUnequalParts(operands, patience);
  const Operands staged = Stage(operands);
  CutIntoTiles(staged);
  auto done = RunTiles(patience);
  if (!done) {
    transport_.Abort(done.error());
    return done;
  }
  CopyTailOut(staged);
  const bool has_output = ChunksOf(Buffer::kOutput) > 0 && operands.output != nullptr;
  const std::size_t elements = SegmentsOf(Buffer::kOutput) * operands.elements;
  if (has_output && elements > 0 && staged.output != operands.output) {
    reduce::Copy(staged.output, operands.output, elements * reduce::SizeOf(operands.type));
  }
  if (has_output) Average(operands.output, elements);
  return {};
}

Result<void> Interpreter::RunUnequalParts(const Operands& operands,
                                          const transport::Patience& patience) {
  CutUnequalParts(operands);
  auto done = RunTiles(patience);
  if (!done) {
    transport_.Abort(done.error());
    return done;
  }
  Average(operands.output, operands.PartOf(transport_.rank()));
  return {};
}

// Divides the sums of an average, where the call is one.
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
