#include "collective/program/mscclpp/plan_program.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "collective/program/builder.h"
#include "collective/program/memory_map.h"
#include "collective/program/mscclpp/plan_memory.h"
#include "collective/program/passes/lower.h"

namespace espalier::program {
namespace {

std::size_t At(std::int64_t i) { return static_cast<std::size_t>(i); }

class Translator {
 public:
  Translator(const ExecutionPlan& plan, const PlanRunResult& run)
      : plan_(plan),
        run_(run),
        spec_(Refine(plan.collective, run.parts)),
        builder_(plan.name, spec_, {.in_place = plan.in_place, .out_of_place = !plan.in_place}) {}

  Result<Program> Translate() {
    for (const PerformedTransfer& one : run_.transfers) Add(one);
    auto dag = builder_.Finish();
    if (!dag) return Propagate(dag);
    auto program = Lower(*dag);
    if (!program) return program;
    program->protocol = plan_.protocol;
    program->min_bytes = plan_.min_bytes;
    program->max_bytes = plan_.max_bytes;
    return program;
  }

 private:
  // Packets have a part of scratch memory of their own, as the verified plan uses no memory both
  // ways at a time.
  Location Find(const PlanPlace& place, const PerformedTransfer& one) const {
    const std::int64_t all = std::int64_t{one.transfer->count} * run_.parts;
    std::int64_t index = std::int64_t{place.at.index} * run_.parts + all * one.part / one.parts;
    if (place.is_packet) {
      index += std::int64_t{plan_.ranks[At(place.rank)].scratch_chunks} * run_.parts;
    }
    return {place.at.buffer, static_cast<std::int32_t>(index)};
  }

  bool IsSame(const PlanPlace& a, const PlanPlace& b) const {
    if (a.rank != b.rank || a.is_packet != b.is_packet) return false;
    if (a.at == b.at) return true;
    if (a.at.buffer == Buffer::kScratch || b.at.buffer == Buffer::kScratch) return false;
    const MemoryMap map(plan_.collective, a.rank, 0, plan_.in_place);
    return map.Cell(a.at) == map.Cell(b.at);
  }

  void Add(const PerformedTransfer& one) {
    const PlanTransfer& transfer = *one.transfer;
    const std::int64_t all = std::int64_t{transfer.count} * run_.parts;
    const auto size =
        static_cast<int>(all * (one.part + 1) / one.parts - all * one.part / one.parts);
    if (size == 0 || builder_.has_failed()) return;
    const auto chunk = [&](const PlanPlace& place) {
      const Location at = Find(place, one);
      return builder_.Chunk(place.rank, at.buffer, at.index, size);
    };
    const PlanPlace& first = transfer.destinations.front();
    const Location target = Find(first, one);
    // A source that the first destination overwrites is added first.
    std::vector<PlanPlace> sources = transfer.sources;
    const auto own =
        std::ranges::find_if(sources, [&](const PlanPlace& place) { return IsSame(place, first); });
    if (own != sources.end()) std::rotate(sources.begin(), own, own + 1);
    ChunkRef sum = chunk(sources.front());
    if (sources.size() > 1) {
      sum = sum.ReduceTo(chunk(sources[1]), target.buffer, target.index);
      for (std::size_t i = 2; i < sources.size(); ++i) sum = sum.Reduce(chunk(sources[i]));
    }
    const bool is_there = sources.size() > 1;
    for (std::size_t i = is_there ? 1 : 0; i < transfer.destinations.size(); ++i) {
      const PlanPlace& place = transfer.destinations[i];
      const Location at = Find(place, one);
      sum.Copy(place.rank, at.buffer, at.index);
    }
  }

  const ExecutionPlan& plan_;
  const PlanRunResult& run_;
  CollectiveSpec spec_;
  ProgramBuilder builder_;
};

}  // namespace

Result<Program> MakePlanProgram(const ExecutionPlan& plan, const PlanRunResult& run) {
  return Translator(plan, run).Translate();
}

}  // namespace espalier::program
