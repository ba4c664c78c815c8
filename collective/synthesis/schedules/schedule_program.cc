#include "collective/synthesis/schedules/schedule_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <utility>
#include <vector>

#include "collective/program/builder.h"
#include "collective/program/passes/lower.h"

namespace espalier::synthesis {
namespace {

using program::Buffer;
using program::CollectiveKind;
using program::Location;
using program::ProgramBuilder;

constexpr std::int64_t kMaxProgramChunks = std::int64_t{1} << 24;  // over all ranks

// Chunks of the whole data, in the order of the ranks' shares.
struct Move {
  std::int32_t step = 0;
  std::int32_t from = 0;
  std::int32_t to = 0;
  std::int32_t begin = 0;
  std::int32_t end = 0;
};

// Returns the sends by step, with those of adjacent chunks over one link together.
std::vector<Move> FindMoves(const Schedule& schedule) {
  std::vector<Move> all;
  const auto chunks = static_cast<std::int32_t>(schedule.chunks);
  for (const Send& send : schedule.sends) {
    const std::int32_t first = send.source * chunks;
    all.push_back({send.step, send.from, send.to, first + send.begin, first + send.end});
  }
  const auto key = [](const Move& m) { return std::tie(m.step, m.from, m.to, m.begin); };
  std::sort(all.begin(), all.end(), [&](const Move& x, const Move& y) { return key(x) < key(y); });
  std::vector<Move> merged;
  for (const Move& move : all) {
    if (!merged.empty()) {
      Move& last = merged.back();
      if (last.step == move.step && last.from == move.from && last.to == move.to &&
          last.end == move.begin) {
        last.end = move.end;
        continue;
      }
    }
    merged.push_back(move);
  }
  return merged;
}

class Writer {
 public:
  Writer(ProgramBuilder& builder, const Schedule& schedule, CollectiveKind kind)
      : builder_(builder),
        kind_(kind),
        chunks_(static_cast<std::int32_t>(schedule.chunks)),
        all_chunks_(chunks_ * schedule.node_count),
        has_sum_(
            static_cast<std::size_t>(all_chunks_) * static_cast<std::size_t>(schedule.node_count),
            false) {}

  void Reduce(const Move& move) {
    ForRuns(move, [&](std::int32_t begin, std::int32_t end) {
      const Location own = Place(move.to, begin);
      const Location sent = Place(move.from, begin);
      const Location sum = SumPlace(move.to, begin);
      const int count = end - begin;
      builder_.Chunk(move.to, own.buffer, own.index, count)
          .ReduceTo(builder_.Chunk(move.from, sent.buffer, sent.index, count), sum.buffer,
                    sum.index);
    });
    for (std::int32_t chunk = move.begin; chunk < move.end; ++chunk) {
      has_sum_[Index(move.to, chunk)] = true;
    }
  }

  void Gather(const Move& move) {
    // An allgather has a rank's own share in its input.
    ForRuns(move, [&](std::int32_t begin, std::int32_t end) {
      const bool from_input = kind_ == CollectiveKind::kAllGather && begin / chunks_ == move.from;
      builder_
          .Chunk(move.from, from_input ? Buffer::kInput : Buffer::kOutput,
                 from_input ? begin % chunks_ : begin, end - begin)
          .Copy(move.to, Buffer::kOutput, begin);
    });
  }

 private:
  std::size_t Index(std::int32_t rank, std::int32_t chunk) const {
    return static_cast<std::size_t>(rank) * static_cast<std::size_t>(all_chunks_) +
           static_cast<std::size_t>(chunk);
  }

  // Cuts a move where the place of the chunks changes at the sender or the receiver.
  template <typename Visit>
  void ForRuns(const Move& move, Visit visit) const {
    std::int32_t begin = move.begin;
    for (std::int32_t at = begin + 1; at <= move.end; ++at) {
      if (at < move.end && Kind(move, at) == Kind(move, begin)) continue;
      visit(begin, at);
      begin = at;
    }
  }

  std::tuple<bool, bool, bool, bool> Kind(const Move& move, std::int32_t chunk) const {
    return {has_sum_[Index(move.from, chunk)], has_sum_[Index(move.to, chunk)],
            chunk / chunks_ == move.from, chunk / chunks_ == move.to};
  }

  Location Place(std::int32_t rank, std::int32_t chunk) const {
    if (!has_sum_[Index(rank, chunk)]) return {Buffer::kInput, chunk};
    return SumPlace(rank, chunk);
  }

  // Where a rank adds up what it receives.
  Location SumPlace(std::int32_t rank, std::int32_t chunk) const {
    if (kind_ == CollectiveKind::kAllReduce) return {Buffer::kOutput, chunk};
    if (chunk / chunks_ == rank) return {Buffer::kOutput, chunk % chunks_};
    return {Buffer::kScratch, chunk};
  }

  ProgramBuilder& builder_;
  CollectiveKind kind_;
  std::int32_t chunks_;  // of a share
  std::int32_t all_chunks_;
  std::vector<bool> has_sum_;  // by rank and chunk: partial sums have replaced the input
};

CollectiveKind KindOf(Collective collective) {
  if (collective == Collective::kAllgather) return CollectiveKind::kAllGather;
  if (collective == Collective::kReduceScatter) return CollectiveKind::kReduceScatter;
  return CollectiveKind::kAllReduce;
}

}  // namespace

Result<program::Program> MakeScheduleProgram(const std::string& name, const Schedule& schedule,
                                             int fifo_slots) {
  const std::int64_t chunks = schedule.chunks * schedule.node_count;
  if (chunks > kMaxProgramChunks / schedule.node_count) {
    return Fail(ErrorCode::kResourceExhausted,
                fmt::format("a program of {} ranks and {} chunks a share is too large (give fewer "
                            "--chunks)",
                            schedule.node_count, schedule.chunks));
  }
  const program::CollectiveSpec spec{.kind = KindOf(schedule.collective),
                                     .ranks = schedule.node_count,
                                     .chunks = static_cast<int>(chunks)};
  ProgramBuilder builder(name, spec, {.in_place = true, .out_of_place = true});
  Writer writer(builder, schedule, spec.kind);
  if (spec.kind == CollectiveKind::kAllGather) {
    const auto share = static_cast<int>(schedule.chunks);
    for (int rank = 0; rank < schedule.node_count; ++rank) {
      builder.Chunk(rank, Buffer::kInput, 0, share).Copy(rank, Buffer::kOutput, rank * share);
    }
  }
  for (const Move& move : FindMoves(schedule)) {
    if (builder.has_failed()) break;
    move.step <= schedule.reduce_steps ? writer.Reduce(move) : writer.Gather(move);
  }
  auto dag = builder.Finish();
  if (!dag) return Propagate(dag);
  return program::Lower(*dag, {.fifo_slots = fifo_slots});
}

}  // namespace espalier::synthesis
