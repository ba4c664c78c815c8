#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "collective/algorithms/algorithm.h"
#include "collective/program/files/format_mscclpp_json.h"
#include "collective/program/files/program_file.h"
#include "common/files/json.h"
#include "common/files/json_writer.h"
#include "tests/collective/program/random_program.h"
#include "tests/collective/program/reference_run.h"

namespace espalier::program {
namespace {

using io::JsonValue;
using Memory = std::vector<std::uint64_t>;

const JsonValue& Member(const JsonValue& object, std::string_view key) {
  const JsonValue* found = object.Find(key);
  if (found == nullptr) throw std::out_of_range(std::string(key));
  return *found;
}
int Number(const JsonValue& value) { return std::stoi(value.text); }
int Number(const JsonValue& object, std::string_view key) { return Number(Member(object, key)); }

// Runs the executor's semantics on numbers, block by block in a random order: puts into the peer's
// memory, counting signals on paired channels, counting semaphores.
class PlanRun {
 public:
  PlanRun(const CollectiveSpec& spec, const JsonValue& plan, std::mt19937_64& random)
      : spec_(spec), in_place_(Member(plan, "inplace").boolean), random_(random) {
    for (const JsonValue& gpu : Member(plan, "gpus").items) {
      Rank& rank = ranks_.emplace_back();
      rank.gpu = &gpu;
      for (const char* key : {"input_chunks", "output_chunks", "scratch_chunks"}) {
        Memory& memory = rank.memory.emplace_back(static_cast<std::size_t>(Number(gpu, key)));
        std::ranges::generate(memory, std::ref(random_));
      }
      rank.semaphores.resize(Member(gpu, "semaphores").items.size());
      for (const JsonValue& channels : Member(gpu, "channels").items) {
        for (const JsonValue& peer : Member(channels, "connected_to").items) {
          rank.channels[Member(channels, "channel_type").text].push_back({Number(peer), 0});
        }
      }
      rank.blocks.resize(Member(gpu, "threadblocks").items.size());
    }
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      if (in_place_) {
        const Memory input = ranks_[r].memory[0];
        for (std::size_t i = 0; i < input.size(); ++i) At(r, "i", i) = input[i];
        inputs_.push_back(input);
      } else {
        inputs_.push_back(ranks_[r].memory[0]);
      }
    }
  }

  // Whether every block reached its end `times` times, and every signal was waited for.
  bool Run(int times) {
    while (true) {
      std::vector<std::pair<std::size_t, std::size_t>> able;
      for (std::size_t r = 0; r < ranks_.size(); ++r) {
        StartAgain(ranks_[r], times);
        for (std::size_t b = 0; b < ranks_[r].blocks.size(); ++b) {
          if (CanStep(r, b)) able.emplace_back(r, b);
        }
      }
      if (able.empty()) break;
      const auto [r, b] = able[random_() % able.size()];
      Step(r, b);
    }
    return std::ranges::all_of(ranks_, [&](const Rank& rank) {
      return rank.runs == times &&
             std::ranges::all_of(rank.semaphores, [](int value) { return value == 0; }) &&
             std::ranges::all_of(rank.channels, [](const auto& type) {
               return std::ranges::all_of(type.second,
                                          [](const Channel& one) { return one.signals == 0; });
             });
    });
  }

  // Whether an operation went on before all threads of its block had met. Not all that do are
  // wrong.
  bool has_hurried() const { return has_hurried_; }

  bool IsRight() {
    for (int r = 0; r < spec_.ranks; ++r) {
      for (int i = 0; i < spec_.OutputChunks(r); ++i) {
        const auto expected = spec_.Expected(r, i);
        if (!expected) continue;
        std::uint64_t sum = 0;
        for (const ChunkSet::Range& range : expected->ranges()) {
          for (std::int64_t id = range.begin; id < range.end; ++id) {
            sum += inputs_[static_cast<std::size_t>(id % spec_.ranks)]
                          [static_cast<std::size_t>(id / spec_.ranks)];
          }
        }
        if (At(static_cast<std::size_t>(r), "o", static_cast<std::size_t>(i)) != sum) return false;
      }
    }
    return true;
  }

 private:
  struct Channel {
    int peer;
    int signals;
  };
  struct Block {
    std::size_t done = 0;
    bool has_waited = false;
    bool has_touched = false;
  };
  struct Rank {
    const JsonValue* gpu = nullptr;
    std::vector<Memory> memory;
    std::vector<int> semaphores;
    std::map<std::string, std::vector<Channel>> channels;
    std::vector<Block> blocks;
    int runs = 0;
  };

  std::uint64_t& At(std::size_t rank, const std::string& buffer, std::size_t index) {
    std::size_t which = buffer == "i" ? 0 : buffer == "o" ? 1 : 2;
    if (in_place_ && which == 0 && spec_.kind != CollectiveKind::kReduceScatter) {
      which = 1;
      if (spec_.kind == CollectiveKind::kAllGather) index += rank * ranks_[rank].memory[0].size();
    } else if (in_place_ && which == 1 && spec_.kind == CollectiveKind::kReduceScatter) {
      which = 0;
      index += static_cast<std::size_t>(spec_.FirstChunk(static_cast<int>(rank)));
    }
    return ranks_[rank].memory[which].at(index);
  }

  const JsonValue& BlockOf(std::size_t r, std::size_t b) const {
    return Member(*ranks_[r].gpu, "threadblocks").items[b];
  }
  const std::vector<JsonValue>& Ops(std::size_t r, std::size_t b) const {
    return Member(BlockOf(r, b), "ops").items;
  }

  void StartAgain(Rank& rank, int times) {
    const auto r = static_cast<std::size_t>(&rank - ranks_.data());
    if (rank.runs == times) return;
    for (std::size_t b = 0; b < rank.blocks.size(); ++b) {
      if (rank.blocks[b].done < Ops(r, b).size()) return;
    }
    if (++rank.runs == times) return;
    for (Block& block : rank.blocks) block = {};
  }

  // Looks up a channel of the block in the rank's list of that type.
  std::size_t ChannelOf(std::size_t r, std::size_t b, const JsonValue& op) const {
    const std::string& type = Member(op, "channel_type").text;
    for (const JsonValue& channels : Member(BlockOf(r, b), "channels").items) {
      if (Member(channels, "channel_type").text != type) continue;
      const auto own = static_cast<std::size_t>(Number(Member(op, "channel_ids").items.at(0)));
      return static_cast<std::size_t>(Number(Member(channels, "channel_ids").items.at(own)));
    }
    throw std::out_of_range(type);
  }

  bool CanStep(std::size_t r, std::size_t b) {
    Rank& rank = ranks_[r];
    if (rank.blocks[b].done == Ops(r, b).size()) return false;
    const JsonValue& op = Ops(r, b)[rank.blocks[b].done];
    const std::string& name = Member(op, "name").text;
    if (name == "wait") {
      return rank.channels.at(Member(op, "channel_type").text)[ChannelOf(r, b, op)].signals > 0;
    }
    if (name == "sem_acquire") {
      return rank.semaphores.at(
                 static_cast<std::size_t>(Number(Member(op, "semaphore_ids").items.at(0)))) > 0;
    }
    return true;
  }

  void Signal(std::size_t r, const std::string& type, std::size_t number) {
    const auto& own = ranks_[r].channels.at(type);
    const int peer = own.at(number).peer;
    const auto before =
        std::count_if(own.begin(), own.begin() + static_cast<std::ptrdiff_t>(number),
                      [&](const Channel& one) { return one.peer == peer; });
    std::ptrdiff_t seen = 0;
    for (Channel& one : ranks_[static_cast<std::size_t>(peer)].channels.at(type)) {
      if (one.peer != static_cast<int>(r) || seen++ != before) continue;
      ++one.signals;
      return;
    }
    ADD_FAILURE() << "a channel without its other end";
  }

  void Touch(std::size_t r, std::size_t b, const JsonValue& op) {
    const auto& sources = Member(op, "src_buff").items;
    const JsonValue& to = Member(op, "dst_buff").items.at(0);
    const auto size = static_cast<std::size_t>(Number(to, "size"));
    for (std::size_t i = 0; i < size; ++i) {
      std::uint64_t sum = 0;
      for (const JsonValue& from : sources) {
        sum +=
            At(r, Member(from, "type").text, static_cast<std::size_t>(Number(from, "index")) + i);
      }
      const std::size_t index = static_cast<std::size_t>(Number(to, "index")) + i;
      if (to.Find("buffer_id") == nullptr) {
        At(r, Member(to, "type").text, index) = sum;
        continue;
      }
      const JsonValue& refs = Member(BlockOf(r, b), "remote_buffer_refs").items.at(0);
      const auto id = static_cast<std::size_t>(
          Number(Member(refs, "remote_buffer_ids")
                     .items.at(static_cast<std::size_t>(Number(to, "buffer_id")))));
      const JsonValue& remote = Member(*ranks_[r].gpu, "remote_buffers").items.at(id);
      At(static_cast<std::size_t>(Number(remote, "rank")), Member(remote, "type").text, index) =
          sum;
    }
  }

  void Step(std::size_t r, std::size_t b) {
    Rank& rank = ranks_[r];
    Block& block = rank.blocks[b];
    const JsonValue& op = Ops(r, b)[block.done++];
    const std::string& name = Member(op, "name").text;
    if (name == "nop") {
      block.has_waited = block.has_touched = false;
    } else if (name == "wait") {
      --rank.channels.at(Member(op, "channel_type").text)[ChannelOf(r, b, op)].signals;
      block.has_waited = true;
    } else if (name == "sem_acquire") {
      --rank.semaphores[static_cast<std::size_t>(Number(Member(op, "semaphore_ids").items[0]))];
      block.has_waited = true;
    } else if (name == "flush") {
      block.has_waited = true;
    } else if (name == "signal") {
      has_hurried_ |= block.has_touched;
      Signal(r, Member(op, "channel_type").text, ChannelOf(r, b, op));
    } else if (name == "sem_release") {
      has_hurried_ |= block.has_touched;
      ++rank.semaphores[static_cast<std::size_t>(Number(Member(op, "semaphore_ids").items[0]))];
    } else {
      EXPECT_TRUE(name == "put" || name == "copy" || name == "re") << name;
      has_hurried_ |= block.has_waited || block.has_touched;
      Touch(r, b, op);
      block.has_touched = true;
    }
  }

  const CollectiveSpec& spec_;
  bool in_place_;
  std::mt19937_64& random_;
  std::vector<Rank> ranks_;
  std::vector<Memory> inputs_;
  bool has_hurried_ = false;
};

// In place, a second run works on the results of the first.
void ExpectRuns(const Program& program, const MscclppOptions& options, std::mt19937_64& random) {
  const auto text = FormatMscclppJson(program, options);
  ASSERT_TRUE(text) << text.error().message;
  const auto plan = io::ParseJson(*text, "plan");
  ASSERT_TRUE(plan) << plan.error().message;
  const bool in_place = Member(*plan, "inplace").boolean;
  for (int round = 0; round < 3; ++round) {
    PlanRun run(program.collective, *plan, random);
    ASSERT_TRUE(run.Run(in_place ? 1 : 2)) << program.name;
    ASSERT_TRUE(run.IsRight()) << program.name;
    ASSERT_FALSE(run.has_hurried()) << program.name;
  }
}

TEST(MscclppJson, DoesWhatTheAlgorithmDoes) {
  std::mt19937_64 random(5);
  for (const auto& algorithm : algorithms::Algorithms()) {
    for (const int ranks : {2, 4, 6}) {
      const auto program =
          algorithms::MakeAlgorithm(algorithm.name, {.ranks = ranks, .ranks_per_node = 2});
      if (!program || program->collective.kind == CollectiveKind::kBarrier) continue;
      for (const int ranks_per_node : {0, 2}) {
        // Some programs are too long for the executor.
        if (ranks > 2 && !FormatMscclppJson(*program, {ranks_per_node})) continue;
        ASSERT_NO_FATAL_FAILURE(ExpectRuns(*program, {ranks_per_node}, random)) << algorithm.name;
      }
    }
  }
}

TEST(MscclppJson, DoesWhatRandomProgramsDo) {
  std::mt19937_64 random(6);
  int converted = 0;
  for (int i = 0; i < 60; ++i) {
    const auto program = MakeRandomProgram(random);
    ASSERT_TRUE(program) << program.error().message;
    const auto text = FormatMscclppJson(*program);
    if (!text) {
      EXPECT_NE(text.error().message.find("operations, more than 64"), std::string::npos);
      continue;
    }
    ++converted;
    ASSERT_NO_FATAL_FAILURE(ExpectRuns(*program, {}, random));
  }
  EXPECT_GT(converted, 20);
}

// A plan that was written is accepted, and lowered to a program that does the same.
void ExpectReadBack(Program program, const std::string& text, std::mt19937_64& random) {
  auto read = ParseAndVerify(text, "plan");
  ASSERT_TRUE(read) << program.name << ": " << read.error().message;
  ASSERT_FALSE(read->verdict.violation) << program.name << ": " << read->verdict.violation->message;
  EXPECT_EQ(read->program.collective.chunks, program.collective.chunks);
  read->program.collective = program.collective;  // with its root and expectations
  for (RankProgram& rank : read->program.ranks) rank.output_chunks = 0;
  const bool in_place = read->program.placement.in_place;
  for (int i = 0; i < 3; ++i) {
    ReferenceRun run(read->program, in_place, 2, random);
    ASSERT_TRUE(run.Run() && run.IsRight()) << program.name;
  }
}

TEST(MscclppJson, IsReadAsItWasWritten) {
  std::mt19937_64 random(7);
  for (const auto& algorithm : algorithms::Algorithms()) {
    const auto program =
        algorithms::MakeAlgorithm(algorithm.name, {.ranks = 4, .ranks_per_node = 2});
    if (!program || program->collective.kind == CollectiveKind::kBarrier) continue;
    for (const int ranks_per_node : {0, 2}) {
      const auto text = FormatMscclppJson(*program, {ranks_per_node});
      if (!text) continue;  // too long for the executor
      ASSERT_NO_FATAL_FAILURE(ExpectReadBack(*program, *text, random));
    }
  }
  for (int i = 0; i < 30; ++i) {
    const auto program = MakeRandomProgram(random);
    const auto text = FormatMscclppJson(*program);
    if (!text) continue;
    ASSERT_NO_FATAL_FAILURE(ExpectReadBack(*program, *text, random));
  }
}

std::string Write(const JsonValue& value) {
  io::JsonWriter writer;
  writer.Value(value);
  return writer.Text();
}

JsonValue& Member(JsonValue& object, std::string_view key) {
  return const_cast<JsonValue&>(Member(std::as_const(object), key));
}

std::vector<JsonValue>& OpsOf(JsonValue& plan, std::size_t rank, std::size_t block) {
  JsonValue& gpu = Member(plan, "gpus").items[rank];
  return Member(Member(gpu, "threadblocks").items[block], "ops").items;
}

// No operation of a written plan is superfluous, except some that only protect later runs.
TEST(MscclppJson, IsRefusedWithoutAnyOfItsOperations) {
  int tried = 0;
  for (const char* name : {"allreduce-ring", "alltoall-direct", "allgather-ring"}) {
    const auto program = algorithms::MakeAlgorithm(name, {.ranks = 3});
    ASSERT_TRUE(program) << program.error().message;
    const auto plan = io::ParseJson(*FormatMscclppJson(*program), "plan");
    for (std::size_t rank = 0; rank < 3; ++rank) {
      const auto& gpu = Member(*plan, "gpus").items[rank];
      for (std::size_t block = 0; block < Member(gpu, "threadblocks").items.size(); ++block) {
        JsonValue broken = *plan;
        const std::size_t count = OpsOf(broken, rank, block).size();
        for (std::size_t i = 0; i < count; ++i) {
          broken = *plan;
          auto& ops = OpsOf(broken, rank, block);
          const std::string op = Member(ops[i], "name").text;
          if (op == "nop") continue;
          ops.erase(ops.begin() + static_cast<std::ptrdiff_t>(i));
          const auto read = ParseAndVerify(Write(broken), "plan");
          ASSERT_TRUE(read) << read.error().message;
          EXPECT_TRUE(read->verdict.violation) << name << " without " << op << " " << i;
          ++tried;
        }
      }
    }
  }
  EXPECT_GT(tried, 100);
}

// Changes one operation: another index, another place in its block, or none.
void Mutate(JsonValue& plan, std::mt19937_64& random) {
  const auto pick = [&](std::size_t end) { return static_cast<std::size_t>(random() % end); };
  const std::size_t rank = pick(Member(plan, "gpus").items.size());
  auto& blocks = Member(Member(plan, "gpus").items[rank], "threadblocks").items;
  if (blocks.empty()) return;
  auto& ops = Member(blocks[pick(blocks.size())], "ops").items;
  const std::size_t at = pick(ops.size());
  switch (pick(3)) {
    case 0:
      for (const char* key : {"src_buff", "dst_buff"}) {
        if (ops[at].Find(key) == nullptr || pick(2) == 0) continue;
        JsonValue& index = Member(Member(ops[at], key).items[0], "index");
        index.text = std::to_string(std::max(0, Number(index) + (pick(2) == 0 ? 1 : -1)));
      }
      break;
    case 1:
      std::swap(ops[at], ops[pick(ops.size())]);
      break;
    default:
      if (Member(ops[at], "name").text != "nop") {
        ops.erase(ops.begin() + static_cast<std::ptrdiff_t>(at));
      }
  }
}

// What the verifier accepts runs right in random interleavings of the executor's operations.
TEST(MscclppJson, IsAcceptedOnlyIfItRunsRight) {
  std::mt19937_64 random(8);
  int accepted = 0;
  int refused = 0;
  for (int i = 0; i < 120; ++i) {
    const auto program = MakeRandomProgram(random);
    const auto text = FormatMscclppJson(*program);
    if (!text) continue;
    auto plan = *io::ParseJson(*text, "plan");
    Mutate(plan, random);
    auto read = ParseAndVerify(Write(plan), "plan");
    bool is_right = read && !read->verdict.violation;
    if (is_right) {
      read->program.collective = program->collective;
      is_right = !Verify(read->program).violation;
    }
    (is_right ? accepted : refused) += 1;
    if (!is_right) continue;
    const bool in_place = Member(plan, "inplace").boolean;
    for (int round = 0; round < 4; ++round) {
      PlanRun run(program->collective, plan, random);
      ASSERT_TRUE(run.Run(in_place ? 1 : 2)) << Write(plan);
      ASSERT_TRUE(run.IsRight()) << Write(plan);
    }
  }
  EXPECT_GT(accepted, 5);
  EXPECT_GT(refused, 30);
}

TEST(MscclppJson, RefusesWhatTheExecutorCannotDo) {
  const auto barrier = algorithms::MakeAlgorithm("barrier-all-to-all", {.ranks = 2});
  EXPECT_EQ(FormatMscclppJson(*barrier).error().code, ErrorCode::kUnsupported);
  auto sized = *algorithms::MakeAlgorithm("allreduce-ring", {.ranks = 2});
  sized.max_bytes = std::int64_t{1} << 60;
  EXPECT_EQ(FormatMscclppJson(sized).error().code, ErrorCode::kUnsupported);
  sized.max_bytes = 1 << 20;
  const auto text = FormatMscclppJson(sized);
  ASSERT_TRUE(text);
  EXPECT_NE(text->find("\"max_message_size\": 1048576"), std::string::npos) << *text;
  const auto many = algorithms::MakeAlgorithm("allreduce-ring-chunked", {.ranks = 16});
  EXPECT_EQ(FormatMscclppJson(*many).error().code, ErrorCode::kUnsupported);
}

}  // namespace
}  // namespace espalier::program
