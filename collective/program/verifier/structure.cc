#include "collective/program/verifier/structure.h"

#include <fmt/format.h>

#include <cstdlib>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

#include "collective/program/memory_map.h"
#include "common/base/enum_names.h"

namespace espalier::program {
namespace {

constexpr std::int32_t kMaxChunks = 1 << 26;
constexpr std::int64_t kMaxSteps = 1 << 26;

class Checker {
 public:
  explicit Checker(const Program& program) : program_(program) {}

  StructureResult Run() {
    if (CheckWhole() && CheckRanks() && CheckConnections()) return {std::move(index_), {}};
    return {ProgramIndex(), std::move(violation_)};
  }

  std::optional<Violation> RunOnPart() {
    const ProgramPart& part = *program_.part;
    rank_ = part.rank;
    if (!CheckWhole() || !CheckClaims(part)) return std::move(violation_);
    const RankProgram& rank = program_.ranks[static_cast<std::size_t>(rank_)];
    // The blocks of other ranks are none, so the index has this rank's alone.
    index_.first_block.push_back(0);
    if (!CheckBuffers(rank)) return std::move(violation_);
    for (std::size_t b = 0; b < rank.blocks.size(); ++b) {
      if (!CheckBlock(rank, static_cast<std::int32_t>(b))) return std::move(violation_);
    }
    for (const ThreadBlock& block : rank.blocks) {
      if (!CheckAgainst(part, block)) return std::move(violation_);
    }
    if (!NumberConnections()) return std::move(violation_);
    return std::nullopt;
  }

 private:
  bool Refuse(std::int32_t rank, std::int32_t block, std::int32_t step, std::string_view what) {
    violation_ = MakeViolation(ViolationKind::kStructure, rank, block, step, what);
    return false;
  }

  bool CheckWhole() {
    const CollectiveSpec& spec = program_.collective;
    if (auto checked = spec.Check(); !checked) return Refuse(-1, -1, -1, checked.error().message);
    if (!program_.placement.in_place && !program_.placement.out_of_place) {
      return Refuse(-1, -1, -1, "supports neither calls in place nor out of place");
    }
    if (static_cast<std::size_t>(spec.ranks) != program_.ranks.size()) {
      return Refuse(
          -1, -1, -1,
          fmt::format("{} ranks in a collective of {}", program_.ranks.size(), spec.ranks));
    }
    if (spec.chunks > kMaxChunks || CountSteps(program_) > kMaxSteps) {
      violation_ = MakeViolation(ViolationKind::kTooLarge, -1, -1, -1, "too many chunks or steps");
      return false;
    }
    return true;
  }

  // What a rank must take on trust, as far as it can be wrong by itself.
  bool CheckClaims(const ProgramPart& part) {
    const CollectiveKind kind = program_.collective.kind;
    const bool needs_root = kind == CollectiveKind::kBroadcast || kind == CollectiveKind::kReduce;
    if (needs_root && program_.collective.root == kNoRoot) {
      return Refuse(rank_, -1, -1, "is a part of a program without a root");
    }
    const MessageCounts& counts = part.messages;
    if (counts.largest < 1 || counts.largest > kMaxChunks || counts.messages < 0 ||
        counts.chunks < counts.messages || part.channels < 0) {
      return Refuse(rank_, -1, -1, "is a part of a program with impossible messages");
    }
    return true;
  }

  // A message must fit the slots that are sized for the largest one of the whole program.
  bool CheckAgainst(const ProgramPart& part, const ThreadBlock& block) {
    const bool communicates = block.send_peer != kNoPeer || block.receive_peer != kNoPeer;
    if (communicates && block.channel >= part.channels) {
      return Refuse(
          rank_, -1, -1,
          fmt::format("uses channel {} of a program of {}", block.channel, part.channels));
    }
    for (const Step& step : block.steps) {
      const bool is_message = Sends(step.op) || Receives(step.op);
      if (is_message && step.count > part.messages.largest) {
        return Refuse(
            rank_, -1, -1,
            fmt::format("has a message of {} chunks in a program whose largest one has {}",
                        step.count, part.messages.largest));
      }
    }
    return true;
  }

  bool CheckRanks() {
    for (std::size_t i = 0; i < program_.ranks.size(); ++i) {
      rank_ = static_cast<std::int32_t>(i);
      const RankProgram& rank = program_.ranks[i];
      index_.first_block.push_back(static_cast<std::int32_t>(index_.blocks.size()));
      if (!CheckBuffers(rank)) return false;
      for (std::size_t b = 0; b < rank.blocks.size(); ++b) {
        if (!CheckBlock(rank, static_cast<std::int32_t>(b))) return false;
      }
    }
    index_.first_block.push_back(static_cast<std::int32_t>(index_.blocks.size()));
    return true;
  }

  bool CheckBuffers(const RankProgram& rank) {
    const CollectiveSpec& spec = program_.collective;
    const auto fits = [](int declared, int expected) {
      return declared == 0 || declared == expected;
    };
    if (!fits(rank.input_chunks, spec.InputChunks(rank_))) {
      return Refuse(rank_, -1, -1,
                    fmt::format("{} input chunks (the collective has {})", rank.input_chunks,
                                spec.InputChunks(rank_)));
    }
    if (!fits(rank.output_chunks, spec.OutputChunks(rank_))) {
      return Refuse(rank_, -1, -1,
                    fmt::format("{} output chunks (the collective has {})", rank.output_chunks,
                                spec.OutputChunks(rank_)));
    }
    if (rank.scratch_chunks < 0 || rank.scratch_chunks > kMaxChunks) {
      return Refuse(rank_, -1, -1, fmt::format("{} scratch chunks", rank.scratch_chunks));
    }
    return true;
  }

  bool CheckBlock(const RankProgram& rank, std::int32_t number) {
    const ThreadBlock& block = rank.blocks[static_cast<std::size_t>(number)];
    const auto is_peer = [&](std::int32_t peer) {
      return peer == kNoPeer || (peer >= 0 && peer < program_.collective.ranks && peer != rank_);
    };
    if (!is_peer(block.send_peer) || !is_peer(block.receive_peer)) {
      return Refuse(rank_, number, -1,
                    fmt::format("there is no peer {}",
                                is_peer(block.send_peer) ? block.receive_peer : block.send_peer));
    }
    if (block.channel < 0 || block.channel > std::numeric_limits<std::int16_t>::max()) {
      return Refuse(rank_, number, -1, fmt::format("there is no channel {}", block.channel));
    }
    auto& entry = index_.blocks.emplace_back();
    entry.rank = rank_;
    entry.number = number;
    entry.first_node = static_cast<std::int32_t>(index_.block_of_node.size());
    entry.program = &block;
    for (std::size_t s = 0; s < block.steps.size(); ++s) {
      index_.block_of_node.push_back(static_cast<std::int32_t>(index_.blocks.size()) - 1);
      if (!CheckStep(rank, block, number, static_cast<std::int32_t>(s))) return false;
    }
    return true;
  }

  bool CheckStep(const RankProgram& rank, const ThreadBlock& block, std::int32_t number,
                 std::int32_t at) {
    const Step& step = block.steps[static_cast<std::size_t>(at)];
    const auto refuse = [&](std::string_view what) { return Refuse(rank_, number, at, what); };
    if (Sends(step.op) && block.send_peer == kNoPeer)
      return refuse("sends, but its block has no peer to send to");
    if (Receives(step.op) && block.receive_peer == kNoPeer) {
      return refuse("receives, but its block has no peer to receive from");
    }
    if (step.count < (step.op == OpCode::kNop ? 0 : 1)) {
      return refuse(fmt::format("a count of {}", step.count));
    }
    for (const bool in_place : {true, false}) {
      if (!(in_place ? program_.placement.in_place : program_.placement.out_of_place)) continue;
      const MemoryMap map(program_.collective, rank_, rank.scratch_chunks, in_place);
      if (ReadsSource(step.op) && !map.Find(step.source, step.count)) {
        return refuse(DescribeMissing(step.source, step.count));
      }
      const bool uses_destination = WritesDestination(step.op) || ReadsDestination(step.op);
      if (uses_destination && !map.Find(step.destination, step.count)) {
        return refuse(DescribeMissing(step.destination, step.count));
      }
      // An interpreter may process the chunks in any order and in pieces of any size.
      if (ReadsSource(step.op) && uses_destination) {
        const int apart = std::abs(map.Cell(step.source) - map.Cell(step.destination));
        if (apart != 0 && apart < step.count)
          return refuse("reads a part of the chunks that it writes");
      }
    }
    for (const Dependency& on : step.after) {
      const auto blocks = static_cast<std::int32_t>(rank.blocks.size());
      const bool exists = on.block >= 0 && on.block < blocks && on.step >= 0 &&
                          static_cast<std::size_t>(on.step) <
                              rank.blocks[static_cast<std::size_t>(on.block)].steps.size();
      if (!exists) {
        return refuse(
            fmt::format("waits for step {} of block {}, which does not exist", on.step, on.block));
      }
    }
    return true;
  }

  static std::string DescribeMissing(Location location, std::int32_t count) {
    return fmt::format("there are no {} chunks from {}{}", count, BufferName(location.buffer),
                       location.index);
  }

  // Numbers the connections that steps use and finds both ends of each.
  bool CheckConnections() { return NumberConnections() && CheckBothEnds(); }

  // Numbers the connections that steps use and finds the ends that are here.
  bool NumberConnections() {
    for (std::size_t i = 0; i < index_.blocks.size(); ++i) {
      ProgramIndex::Block& block = index_.blocks[i];
      for (const bool sends : {true, false}) {
        if (!Uses(*block.program, sends)) continue;
        const Key key = sends
                            ? Key(block.rank, block.program->send_peer, block.program->channel)
                            : Key(block.program->receive_peer, block.rank, block.program->channel);
        const auto [found, is_new] =
            numbers_.try_emplace(key, static_cast<std::int32_t>(index_.connections.size()));
        if (is_new) index_.connections.emplace_back();
        auto& connection = index_.connections[static_cast<std::size_t>(found->second)];
        std::int32_t& end = sends ? connection.sender : connection.receiver;
        if (end != -1) {
          return Refuse(block.rank, block.number, -1,
                        fmt::format("shares its connection to rank {} on channel {} with block {}",
                                    sends ? block.program->send_peer : block.program->receive_peer,
                                    block.program->channel,
                                    index_.blocks[static_cast<std::size_t>(end)].number));
        }
        end = static_cast<std::int32_t>(i);
        (sends ? block.send_connection : block.receive_connection) = found->second;
      }
    }
    return true;
  }

  bool CheckBothEnds() {
    for (const auto& [key, number] : numbers_) {
      const auto& connection = index_.connections[static_cast<std::size_t>(number)];
      if (connection.sender != -1 && connection.receiver != -1) continue;
      const bool unsent = connection.sender == -1;
      const auto& block =
          index_.blocks[static_cast<std::size_t>(unsent ? connection.receiver : connection.sender)];
      return Refuse(block.rank, block.number, -1,
                    fmt::format("{} rank {} on channel {}, where no block {}",
                                unsent ? "receives from" : "sends to",
                                unsent ? std::get<0>(key) : std::get<1>(key), std::get<2>(key),
                                unsent ? "sends" : "receives"));
    }
    return true;
  }

  static bool Uses(const ThreadBlock& block, bool sends) {
    for (const Step& step : block.steps) {
      if (sends ? Sends(step.op) : Receives(step.op)) return true;
    }
    return false;
  }

  using Key = std::tuple<std::int32_t, std::int32_t, std::int32_t>;  // sender, receiver, channel

  const Program& program_;
  ProgramIndex index_;
  std::map<Key, std::int32_t> numbers_;  // of connections
  std::optional<Violation> violation_;
  std::int32_t rank_ = 0;
};

}  // namespace

std::string_view ViolationKindName(ViolationKind kind) {
  static constexpr EnumNames<ViolationKind> kViolationKindNames(
      {
          {ViolationKind::kStructure, "structure"},
          {ViolationKind::kTooLarge, "too large"},
          {ViolationKind::kDeadlock, "deadlock"},
          {ViolationKind::kCountMismatch, "count mismatch"},
          {ViolationKind::kUninitialised, "uninitialised read"},
          {ViolationKind::kDoubleReduction, "double reduction"},
          {ViolationKind::kWritesInput, "write to the input"},
          {ViolationKind::kRace, "race"},
          {ViolationKind::kPostcondition, "postcondition"},
      },
      "");
  return kViolationKindNames.NameOf(kind);
}

Violation MakeViolation(ViolationKind kind, std::int32_t rank, std::int32_t block,
                        std::int32_t step, std::string_view what) {
  std::string place;
  if (rank >= 0) place += fmt::format("rank {}", rank);
  if (block >= 0) place += fmt::format(" block {}", block);
  if (step >= 0) place += fmt::format(" step {}", step);
  if (!place.empty()) place += ": ";
  return {kind, rank, block, step, fmt::format("{}: {}{}", ViolationKindName(kind), place, what)};
}

Violation ProgramIndex::ViolationAt(ViolationKind kind, std::int32_t node,
                                    std::string_view what) const {
  const Block& block = blocks[static_cast<std::size_t>(BlockOf(node))];
  return MakeViolation(kind, block.rank, block.number, node - block.first_node, what);
}

StructureResult CheckStructure(const Program& program) {
  if (!program.part) return Checker(program).Run();
  return {ProgramIndex(),
          MakeViolation(ViolationKind::kStructure, program.part->rank, -1, -1,
                        "only the part of this rank is here, and the proof needs all of them")};
}

std::optional<Violation> CheckPart(const Program& program) { return Checker(program).RunOnPart(); }

}  // namespace espalier::program
