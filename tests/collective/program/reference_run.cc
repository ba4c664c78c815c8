#include "tests/collective/program/reference_run.h"

#include <algorithm>
#include <utility>

namespace espalier::program {

ReferenceRun::ReferenceRun(const Program& program, bool in_place, int fifo_slots,
                           std::mt19937_64& random)
    : program_(program),
      in_place_(in_place),
      fifo_slots_(static_cast<std::size_t>(fifo_slots)),
      random_(random) {
  const CollectiveSpec& spec = program.collective;
  for (int rank = 0; rank < spec.ranks; ++rank) {
    const auto draw = [&](int chunks) {
      Memory memory(static_cast<std::size_t>(chunks));
      std::ranges::generate(memory, std::ref(random_));
      return memory;
    };
    const Memory& input = inputs_at_start_.emplace_back(draw(spec.InputChunks(rank)));
    const RankProgram& own = program.ranks[static_cast<std::size_t>(rank)];
    memory_.push_back({input, draw(spec.OutputChunks(rank)), draw(own.scratch_chunks)});
    for (int i = 0; in_place && spec.HasInput(rank) && i < spec.InputChunks(rank); ++i) {
      At(rank, {Buffer::kInput, i}, 0) = input[static_cast<std::size_t>(i)];
    }
    for (const ThreadBlock& block : own.blocks) blocks_.push_back({rank, &block});
  }
}

// In place, the smaller one of input and output is a part of the larger.
std::uint64_t& ReferenceRun::At(int rank, Location location, int i) {
  auto& buffers = memory_[static_cast<std::size_t>(rank)];
  int index = location.index + i;
  Buffer buffer = location.buffer;
  const CollectiveSpec& spec = program_.collective;
  if (in_place_ && buffer == Buffer::kInput && !buffers[1].empty() &&
      spec.kind != CollectiveKind::kReduceScatter) {
    buffer = Buffer::kOutput;
    if (spec.kind == CollectiveKind::kAllGather) index += rank * spec.InputChunks(rank);
  } else if (in_place_ && buffer == Buffer::kOutput &&
             spec.kind == CollectiveKind::kReduceScatter) {
    buffer = Buffer::kInput;
    index += spec.FirstChunk(rank);
  }
  return buffers[static_cast<std::size_t>(buffer)].at(static_cast<std::size_t>(index));
}

std::vector<ReferenceRun::Message>& ReferenceRun::Connection(int from, int to, int channel) {
  const std::vector key{from, to, channel};
  const auto found =
      std::ranges::find(connections_, key, [](const auto& one) { return one.first; });
  return found != connections_.end()
             ? found->second
             : connections_.emplace_back(key, std::vector<Message>()).second;
}

bool ReferenceRun::CanStep(const BlockState& state) {
  if (state.done == state.block->steps.size()) return false;
  const Step& step = state.block->steps[state.done];
  for (const Dependency& on : step.after) {
    const ThreadBlock* other = &program_.ranks[static_cast<std::size_t>(state.rank)]
                                    .blocks[static_cast<std::size_t>(on.block)];
    const auto found = std::ranges::find(blocks_, other, &BlockState::block);
    if (found->done <= static_cast<std::size_t>(on.step)) return false;
  }
  const ThreadBlock& block = *state.block;
  if (Receives(step.op) && Connection(block.receive_peer, state.rank, block.channel).empty()) {
    return false;
  }
  return !Sends(step.op) ||
         Connection(state.rank, block.send_peer, block.channel).size() < fifo_slots_;
}

bool ReferenceRun::Perform(BlockState& state) {
  const Step& step = state.block->steps[state.done++];
  if (step.op == OpCode::kNop) return true;
  Message received;
  if (Receives(step.op)) {
    auto& queue = Connection(state.block->receive_peer, state.rank, state.block->channel);
    received = std::move(queue.front());
    queue.erase(queue.begin());
    if (received.chunks.size() != static_cast<std::size_t>(step.count)) return false;
  }
  Message result;
  for (int i = 0; i < step.count; ++i) {
    std::uint64_t value = Receives(step.op) ? received.chunks[static_cast<std::size_t>(i)] : 0;
    if (ReadsSource(step.op)) value += At(state.rank, step.source, i);
    if (ReadsDestination(step.op)) value += At(state.rank, step.destination, i);
    result.chunks.push_back(value);
  }
  for (int i = 0; WritesDestination(step.op) && i < step.count; ++i) {
    At(state.rank, step.destination, i) = result.chunks[static_cast<std::size_t>(i)];
  }
  if (Sends(step.op)) {
    Connection(state.rank, state.block->send_peer, state.block->channel).push_back(result);
  }
  return true;
}

bool ReferenceRun::Run() {
  while (true) {
    std::vector<BlockState*> able;
    for (BlockState& state : blocks_) {
      if (CanStep(state)) able.push_back(&state);
    }
    if (able.empty()) break;
    if (!Perform(*able[random_() % able.size()])) return false;
  }
  return std::ranges::all_of(
             blocks_,
             [](const BlockState& state) { return state.done == state.block->steps.size(); }) &&
         std::ranges::all_of(connections_, [](const auto& one) { return one.second.empty(); });
}

bool ReferenceRun::IsRight(int rank, int index) const {
  const CollectiveSpec& spec = program_.collective;
  const auto expected = spec.Expected(rank, index);
  if (!expected) return true;
  std::uint64_t sum = 0;
  for (const ChunkSet::Range& range : expected->ranges()) {
    for (std::int64_t id = range.begin; id < range.end; ++id) {
      sum += inputs_at_start_[static_cast<std::size_t>(id % spec.ranks)]
                             [static_cast<std::size_t>(id / spec.ranks)];
    }
  }
  return const_cast<ReferenceRun*>(this)->At(rank, {Buffer::kOutput, index}, 0) == sum;
}

bool ReferenceRun::IsRight() const {
  for (int rank = 0; rank < program_.collective.ranks; ++rank) {
    for (int index = 0; index < program_.collective.OutputChunks(rank); ++index) {
      if (!IsRight(rank, index)) return false;
    }
  }
  return true;
}

}  // namespace espalier::program
