#include "tests/collective/program/random_program.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "collective/program/builder.h"
#include "collective/program/passes/lower.h"

namespace espalier::program {
namespace {

using Sum = std::set<InputChunk>;

// The inputs whose sum every chunk of memory is, under one buffer placement.
class Model {
 public:
  Model(const CollectiveSpec& spec, bool in_place) : in_place_(in_place) {
    for (int rank = 0; rank < spec.ranks; ++rank) {
      for (int i = 0; i < spec.chunks; ++i) {
        memory_[Key(rank, {Buffer::kInput, i})] = {InputChunk{rank, i}};
      }
    }
  }
  const Sum* Find(int rank, Location location) const {
    const auto found = memory_.find(Key(rank, location));
    return found == memory_.end() ? nullptr : &found->second;
  }
  void Set(int rank, Location location, Sum sum) { memory_[Key(rank, location)] = std::move(sum); }

 private:
  using CellKey = std::tuple<int, Buffer, int>;
  CellKey Key(int rank, Location location) const {
    const bool is_aliased = in_place_ && location.buffer == Buffer::kOutput;
    return {rank, is_aliased ? Buffer::kInput : location.buffer, location.index};
  }
  bool in_place_;
  std::map<CellKey, Sum> memory_;
};

class Generator {
 public:
  explicit Generator(std::mt19937_64& random) : random_(random) {
    spec_ = {.kind = CollectiveKind::kCustom, .ranks = 2 + Draw(5), .chunks = 1 + Draw(4)};
    const int placement = Draw(3);
    placement_ = {.in_place = placement != 0, .out_of_place = placement != 1};
    if (placement_.in_place) models_.emplace_back(spec_, true);
    if (placement_.out_of_place) models_.emplace_back(spec_, false);
  }

  Result<Program> Make() {
    ProgramBuilder builder("random", spec_, placement_);
    const int operations = 1 + Draw(60);
    for (int i = 0; i < operations; ++i) {
      const auto scope = builder.Parallelize(Draw(8) == 0 ? 2 + Draw(2) : 1);
      Add(builder);
    }
    auto dag = builder.Finish();
    if (!dag) return Propagate(dag);
    for (int rank = 0; rank < spec_.ranks; ++rank) {
      for (int i = 0; i < spec_.chunks; ++i) {
        const Sum* sum = Agreed(rank, {Buffer::kOutput, i});
        if (sum == nullptr) continue;
        dag->collective.expected.push_back({rank, i, {sum->begin(), sum->end()}});
      }
    }
    return Lower(*dag, {.fifo_slots = 1 + Draw(3), .fuse = Draw(5) != 0});
  }

 private:
  int Draw(int below) { return static_cast<int>(random_() % static_cast<unsigned>(below)); }

  // Returns the content if it is the same under every buffer placement.
  const Sum* Agreed(int rank, Location location) const {
    const Sum* first = models_.front().Find(rank, location);
    for (const Model& model : models_) {
      const Sum* sum = model.Find(rank, location);
      if (sum == nullptr || first == nullptr || *sum != *first) return nullptr;
    }
    return first;
  }

  Location DrawPlace(int count) {
    const Buffer buffer = static_cast<Buffer>(Draw(3));
    const int size = buffer == Buffer::kScratch ? 4 : spec_.chunks;
    return {buffer, Draw(std::max(1, size - count + 1))};
  }

  bool IsReadable(int rank, Location location, int count) const {
    for (int i = 0; i < count; ++i) {
      if (Agreed(rank, {location.buffer, location.index + i}) == nullptr) return false;
    }
    return true;
  }

  // Locations may alias only as a whole.
  bool Overlap(Location a, Location b, int count) const {
    const auto is_data = [](Location one) { return one.buffer != Buffer::kScratch; };
    const bool may_alias = a.buffer == b.buffer || (is_data(a) && is_data(b));
    return may_alias && a.index < b.index + count && b.index < a.index + count;
  }

  void Add(ProgramBuilder& builder) {
    for (int attempt = 0; attempt < 50; ++attempt) {
      const int count = 1 + Draw(std::min(2, spec_.chunks));
      const int from = Draw(spec_.ranks);
      const int to = Draw(spec_.ranks);
      const Location source = DrawPlace(count);
      const Location target = DrawPlace(count);
      if (placement_.out_of_place && target.buffer == Buffer::kInput) continue;
      if (!IsReadable(from, source, count)) continue;
      if (from == to && Overlap(source, target, count)) continue;
      const int channel = Draw(6) == 0 ? Draw(4) : kAnyChannel;
      const ChunkRef chunk = builder.Chunk(from, source.buffer, source.index, count);
      if (Draw(2) == 0) {
        Apply(from, source, to, target, std::nullopt, count);
        chunk.Copy(to, target.buffer, target.index, channel);
        return;
      }
      const Location operand = Draw(2) == 0 ? target : DrawPlace(count);
      if (!IsReadable(to, operand, count) || !AreDisjoint(from, source, to, operand, count)) {
        continue;
      }
      if (operand != target && Overlap(operand, target, count)) continue;
      if (from == to && Overlap(source, operand, count)) continue;
      Apply(from, source, to, target, operand, count);
      builder.Chunk(to, operand.buffer, operand.index, count)
          .ReduceTo(chunk, target.buffer, target.index, channel);
      return;
    }
  }

  bool AreDisjoint(int from, Location source, int to, Location operand, int count) const {
    for (int i = 0; i < count; ++i) {
      const Sum& a = *Agreed(from, {source.buffer, source.index + i});
      const Sum& b = *Agreed(to, {operand.buffer, operand.index + i});
      if (std::ranges::any_of(a, [&](const InputChunk& one) { return b.contains(one); })) {
        return false;
      }
    }
    return true;
  }

  void Apply(int from, Location source, int to, Location target, std::optional<Location> operand,
             int count) {
    std::vector<Sum> results;
    for (int i = 0; i < count; ++i) {
      Sum& sum = results.emplace_back(*Agreed(from, {source.buffer, source.index + i}));
      if (!operand) continue;
      const Sum& more = *Agreed(to, {operand->buffer, operand->index + i});
      sum.insert(more.begin(), more.end());
    }
    for (int i = 0; i < count; ++i) {
      for (Model& model : models_) {
        model.Set(to, {target.buffer, target.index + i}, results[static_cast<std::size_t>(i)]);
      }
    }
  }

  std::mt19937_64& random_;
  CollectiveSpec spec_;
  BufferPlacement placement_;
  std::vector<Model> models_;
};

}  // namespace

Result<Program> MakeRandomProgram(std::mt19937_64& random) { return Generator(random).Make(); }

}  // namespace espalier::program
