#include "collective/program/verifier/dataflow.h"

#include <fmt/format.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "collective/program/memory_map.h"
#include "common/base/random.h"

namespace espalier::program {
namespace {

std::size_t At(std::int32_t id) { return static_cast<std::size_t>(id); }

// The content of a chunk: nothing, or the reduction of a set of input chunks.
struct Value {
  ChunkSet chunks;               // empty: never written
  std::uint64_t expression = 0;  // hash of the order of reduction; both sides are exchangeable
};

std::string DescribeSet(const CollectiveSpec& spec, const ChunkSet& set) {
  if (set.empty()) return "nothing";
  constexpr int kShown = 4;
  std::string text;
  int shown = 0;
  for (const ChunkSet::Range& range : set.ranges()) {
    for (std::int64_t id = range.begin; id < range.end; ++id) {
      if (++shown > kShown) return text + " + ...";
      text += fmt::format("{}i{} of rank {}", shown == 1 ? "" : " + ", id / spec.ranks,
                          id % spec.ranks);
    }
  }
  return text;
}

// Problem: prove that every run leaves the promised reduction of input chunks in every output
// chunk.
//
// Idea: run the program once on symbolic values. A value is the set of input chunks that it sums
// up, and a hash of its expression. A reduction takes the union of two sets, which must be
// disjoint, or an input would be added twice. The hash is symmetric in both sides, as a + b = b + a
// in floating point, but it distinguishes (a + b) + c from a + (b + c). If all ranks hold equal
// hashes for equal results, the results are bit-identical.
//
// Invariant: after each node of the run, memory_ and messages_ hold what any legal interleaving
// would hold, as races are excluded (races.h) and FIFOs fix which message each receive takes.
// Cost: the ranges of all sets that steps combine; few, as chunks of successive ranks are adjacent
// (CollectiveSpec::Id).
// Source: this project; the postconditions are those of GC3, section 3.2.
class Dataflow {
 public:
  Dataflow(const Program& program, const ProgramIndex& index, const Execution& run, bool in_place,
           std::int64_t& budget)
      : spec_(program.collective), index_(index), run_(run), in_place_(in_place), budget_(budget) {
    messages_.resize(index.block_of_node.size());
    for (int rank = 0; rank < spec_.ranks; ++rank) {
      const MemoryMap& map =
          maps_.emplace_back(spec_, rank, program.ranks[At(rank)].scratch_chunks, in_place);
      auto& memory = memory_.emplace_back(At(map.cells()));
      for (int chunk = 0; spec_.HasInput(rank) && chunk < spec_.InputChunks(rank); ++chunk) {
        const std::int64_t id = spec_.Id({rank, chunk});
        memory[At(map.Cell({Buffer::kInput, chunk}))] = {ChunkSet::Of(id),
                                                         Mix64(static_cast<std::uint64_t>(id) + 1)};
      }
    }
  }

  DataflowResult Run() {
    for (const std::int32_t node : run_.order) {
      Perform(node);
      if (result_.violation) return std::move(result_);
    }
    CheckPostcondition();
    return std::move(result_);
  }

 private:
  void Report(ViolationKind kind, std::int32_t node, std::string_view what) {
    if (!result_.violation) result_.violation = index_.ViolationAt(kind, node, what);
  }

  void Perform(std::int32_t node) {
    const Step& step = index_.StepOf(node);
    if (step.op == OpCode::kNop) return;
    const std::int32_t rank = index_.blocks[At(index_.BlockOf(node))].rank;
    std::vector<Value> received;
    if (Receives(step.op)) received = std::move(messages_[At(run_.received_of[At(node)])]);
    std::vector<Value> sent;
    for (std::int32_t i = 0; i < step.count; ++i) {
      const Value value =
          Compute(node, rank, step, i, received.empty() ? nullptr : &received[At(i)]);
      if (result_.violation) return;
      if (WritesDestination(step.op)) Write(node, rank, step, i, value);
      if (Sends(step.op)) sent.push_back(value);
    }
    if (Sends(step.op)) messages_[At(node)] = std::move(sent);
  }

  Value Compute(std::int32_t node, std::int32_t rank, const Step& step, std::int32_t i,
                const Value* received) {
    Value value;
    if (received != nullptr) value = *received;
    if (ReadsSource(step.op)) {
      value = Combine(node, value, Read(node, rank, step.source, i));
    }
    if (ReadsDestination(step.op)) {
      value = Combine(node, value, Read(node, rank, step.destination, i));
    }
    return value;
  }

  const Value& Read(std::int32_t node, std::int32_t rank, Location location, std::int32_t i) {
    const Value& value = memory_[At(rank)][At(maps_[At(rank)].Cell(location) + i)];
    if (value.chunks.empty()) {
      Report(ViolationKind::kUninitialised, node,
             fmt::format("reads {}{} before anything was written to it",
                         BufferName(location.buffer), location.index + i));
    }
    return value;
  }

  Value Combine(std::int32_t node, const Value& a, const Value& b) {
    budget_ -= static_cast<std::int64_t>(a.chunks.ranges().size() + b.chunks.ranges().size());
    if (budget_ < 0) Report(ViolationKind::kTooLarge, node, "too much to verify");
    if (a.chunks.empty() || result_.violation) return b;
    auto sum = ChunkSet::DisjointUnion(a.chunks, b.chunks);
    if (!sum) {
      Report(
          ViolationKind::kDoubleReduction, node,
          fmt::format("adds {} to {}", DescribeSet(spec_, a.chunks), DescribeSet(spec_, b.chunks)));
      return {};
    }
    return {std::move(*sum),
            Mix64(a.expression + b.expression) ^ Mix64(a.expression ^ b.expression)};
  }

  void Write(std::int32_t node, std::int32_t rank, const Step& step, std::int32_t i,
             const Value& value) {
    const int cell = maps_[At(rank)].Cell(step.destination) + i;
    if (!in_place_ && step.destination.buffer == Buffer::kInput) {
      Report(ViolationKind::kWritesInput, node,
             fmt::format("writes i{} out of place", step.destination.index + i));
      return;
    }
    memory_[At(rank)][At(cell)] = value;
  }

  void CheckPostcondition() {
    const bool seeks_root = spec_.root == kNoRoot && (spec_.kind == CollectiveKind::kBroadcast ||
                                                      spec_.kind == CollectiveKind::kReduce);
    if (!seeks_root) {
      result_.root = spec_.root;
      result_.violation = CheckOutputs(0);
      return;
    }
    for (int root = 0; root < spec_.ranks; ++root) {
      auto violation = CheckOutputs(root);
      if (!violation) {
        result_.root = root;
        result_.violation.reset();
        return;
      }
      if (root == 0) result_.violation = std::move(violation);
    }
  }

  std::optional<Violation> CheckOutputs(int assumed_root) {
    result_.same_bits = true;
    budget_ -= std::int64_t{spec_.ranks} * spec_.chunks;
    if (budget_ < 0) {
      return MakeViolation(ViolationKind::kTooLarge, -1, -1, -1, "too much to verify");
    }
    std::map<std::pair<std::int64_t, std::int64_t>, std::uint64_t> expressions;
    for (int rank = 0; rank < spec_.ranks; ++rank) {
      for (int chunk = 0; chunk < spec_.OutputChunks(rank); ++chunk) {
        const auto expected = spec_.Expected(rank, chunk, assumed_root);
        if (!expected) continue;
        const Value& value = memory_[At(rank)][At(maps_[At(rank)].Cell({Buffer::kOutput, chunk}))];
        if (value.chunks != *expected) {
          return MakeViolation(
              ViolationKind::kPostcondition, rank, -1, -1,
              fmt::format("o{} is {}, not {}{}", chunk, DescribeSet(spec_, value.chunks),
                          DescribeSet(spec_, *expected), in_place_ ? " (in place)" : ""));
        }
        // Outputs with the same key must be the same reduction.
        const std::pair key(expected->ranges().front().begin, expected->ranges().back().end);
        const auto [same, is_new] = expressions.try_emplace(key, value.expression);
        if (!is_new && same->second != value.expression) result_.same_bits = false;
      }
    }
    return std::nullopt;
  }

  const CollectiveSpec& spec_;
  const ProgramIndex& index_;
  const Execution& run_;
  bool in_place_;
  std::int64_t& budget_;
  DataflowResult result_;
  std::vector<MemoryMap> maps_;
  std::vector<std::vector<Value>> memory_;
  std::vector<std::vector<Value>> messages_;  // by the node that sent them
};

}  // namespace

DataflowResult CheckDataflow(const Program& program, const ProgramIndex& index,
                             const Execution& run, bool in_place, std::int64_t& budget) {
  return Dataflow(program, index, run, in_place, budget).Run();
}

}  // namespace espalier::program
