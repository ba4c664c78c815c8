#include "collective/runtime/program/interpreter.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "collective/algorithms/algorithm.h"
#include "collective/transport/shm/shm_transport.h"
#include "collective/transport/stores/file_store.h"
#include "collective/transport/tcp/tcp_transport.h"
#include "tests/collective/runtime/elements.h"
#include "tests/temporary_folder.h"

namespace espalier::runtime {
namespace {

using program::CollectiveKind;
using program::CollectiveSpec;
using program::Program;
using reduce::DataType;
using reduce::ReduceOp;
using transport::Transport;

constexpr std::size_t kSlotBytes = 4096;
constexpr int kSlots = 2;
constexpr std::byte kUntouched{0xa5};

transport::Deadline InAWhile() {
  return std::chrono::steady_clock::now() + std::chrono::seconds(100);
}

constexpr std::size_t kLargeSlots = 1 << 20;

struct Case {
  DataType type = DataType::kF32;
  ReduceOp op = ReduceOp::kSum;
  std::size_t elements = 1;
  bool in_place = false;
  bool tcp = false;
  std::size_t slot_bytes = kSlotBytes;
};

// Runs `body` on every rank of a group, each in a thread.
void RunRanks(const Program& program, bool tcp, const std::function<void(Transport&)>& body,
              std::size_t slot_bytes = kSlotBytes) {
  TemporaryFolder folder;
  transport::FileStore store(folder.path());
  const auto ranks = static_cast<int>(program.ranks.size());
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      auto transport =
          tcp ? transport::JoinTcp(store, "g", rank, ranks,
                                   {.slots = kSlots, .slot_bytes = slot_bytes})
              : transport::JoinShm(store, "g", rank, ranks,
                                   {.channels = std::max(1, program::CountChannels(program)),
                                    .slots = kSlots,
                                    .slot_bytes = slot_bytes},
                                   InAWhile());
      ASSERT_TRUE(transport) << transport.error().message;
      body(**transport);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// The buffers of one rank in the collective's layout, followed by guards.
class RankMemory {
 public:
  RankMemory(const CollectiveSpec& spec, int rank, const Case& test)
      : spec_(spec), rank_(rank), test_(test), share_(test.elements * SizeOf(test.type)) {
    const std::size_t input = Shares(CollectiveKind::kReduceScatter) * share_;
    const std::size_t output = Shares(CollectiveKind::kAllGather) * share_;
    input_.assign(input + 64, kUntouched);
    output_.assign(output + 64, kUntouched);
    operands_ = {.input = input_.data(),
                 .output = output_.data(),
                 .elements = test.elements,
                 .type = test.type,
                 .op = test.op};
    if (test.in_place) PlaceTogether();
    auto* values = const_cast<std::byte*>(operands_.input);
    for (std::size_t e = 0; e < input / SizeOf(test.type); ++e) {
      WriteElement(test.type, values, e, ValueOf(test.op, rank, spec.ranks, e));
    }
  }

  const Operands& operands() const { return operands_; }

  void ExpectResult() const {
    const bool has_output = spec_.kind != CollectiveKind::kReduce || rank_ == spec_.root;
    const std::size_t count = Shares(CollectiveKind::kAllGather) * test_.elements;
    for (std::size_t e = 0; e < count && has_output; ++e) {
      ASSERT_EQ(ReadElement(test_.type, operands_.output, e), Expected(e)) << "element " << e;
    }
    for (const auto* buffer : {&input_, &output_}) {
      ASSERT_TRUE(std::all_of(buffer->end() - 64, buffer->end(),
                              [](std::byte byte) { return byte == kUntouched; }));
    }
  }

 private:
  // The input of one kind and the output of the other have a part for each rank.
  std::size_t Shares(CollectiveKind kind) const {
    const bool all = spec_.kind == kind || spec_.kind == CollectiveKind::kAllToAll;
    return all ? static_cast<std::size_t>(spec_.ranks) : 1;
  }

  void PlaceTogether() {
    const std::size_t part = share_ * static_cast<std::size_t>(rank_);
    switch (spec_.kind) {
      case CollectiveKind::kAllGather:
        operands_.input = output_.data() + part;
        break;
      case CollectiveKind::kReduceScatter:
        operands_.output = input_.data() + part;
        break;
      default:
        operands_.input = output_.data();
    }
  }

  double Expected(std::size_t e) const {
    const auto ranks = spec_.ranks;
    const auto own = static_cast<std::size_t>(rank_) * test_.elements;
    switch (spec_.kind) {
      case CollectiveKind::kBroadcast:
        return ValueOf(test_.op, spec_.root, ranks, e);
      case CollectiveKind::kAllGather:
        return ValueOf(test_.op, static_cast<int>(e / test_.elements), ranks, e % test_.elements);
      case CollectiveKind::kAllToAll:
        return ValueOf(test_.op, static_cast<int>(e / test_.elements), ranks,
                       own + e % test_.elements);
      case CollectiveKind::kReduceScatter:
        return ReducedValue(test_.op, ranks, own + e);
      default:
        return ReducedValue(test_.op, ranks, e);
    }
  }

  const CollectiveSpec& spec_;
  int rank_;
  Case test_;
  std::size_t share_;
  std::vector<std::byte> input_;
  std::vector<std::byte> output_;
  Operands operands_;
};

void ExpectRuns(const Program& program, const std::vector<Case>& cases) {
  const auto shared = std::make_shared<const Program>(program);
  const auto run = [&](Transport& transport) {
    auto interpreter = Interpreter::Prepare(shared, transport, InAWhile());
    ASSERT_TRUE(interpreter) << interpreter.error().message;
    std::uint32_t sequence = 0;
    for (const Case& test : cases) {
      SCOPED_TRACE(program.name + " of " + std::to_string(transport.size()) + " ranks, " +
                   std::to_string(test.elements) + " " +
                   std::string(reduce::DataTypeName(test.type)) + " " +
                   std::string(reduce::ReduceOpName(test.op)) + (test.in_place ? " in place" : "") +
                   ", rank " + std::to_string(transport.rank()));
      RankMemory memory(program.collective, transport.rank(), test);
      auto done = (*interpreter)
                      ->Run(memory.operands(), {.sequence = sequence++, .count = test.elements},
                            InAWhile());
      ASSERT_TRUE(done) << done.error().message;
      memory.ExpectResult();
    }
  };
  RunRanks(program, cases.front().tcp, run, cases.front().slot_bytes);
}

Program Make(std::string_view name, const algorithms::AlgorithmOptions& options) {
  auto program = algorithms::MakeAlgorithm(name, options);
  EXPECT_TRUE(program) << program.error().message;
  return *program;
}

bool HasResult(const Program& program) {
  return program.collective.kind <= CollectiveKind::kAllToAll && program.collective.counts.empty();
}

// Every algorithm with every number of ranks. Types, operations, sizes, placements and transports
// are drawn such that all pairs occur. Sizes: empty, fewer elements than chunks, odd, several
// tiles.
TEST(Interpreter, RunsEveryAlgorithmAsTheReference) {
  constexpr std::size_t kSizes[] = {0, 1, 3, 17, 257, 1000, 4099, 20011};
  std::size_t draw = 0;
  int programs = 0;
  for (const algorithms::Algorithm& algorithm : algorithms::Algorithms()) {
    for (const int ranks : {1, 2, 3, 4, 5, 7, 8, 12, 17}) {
      algorithms::AlgorithmOptions options = {
          .ranks = ranks, .root = (ranks * 2) / 3, .fifo_slots = kSlots};
      if (algorithm.takes.find("ranks-per-node") != std::string_view::npos) {
        if (ranks % 2 != 0) continue;
        options.ranks_per_node = ranks / 2;
      }
      auto program = algorithms::MakeAlgorithm(algorithm.name, options);
      if (!program) continue;  // not defined for this number of ranks (see its own tests)
      if (!HasResult(*program)) continue;
      std::vector<Case> cases;
      for (int i = 0; i < 3; ++i, ++draw) {
        cases.push_back({.type = static_cast<DataType>(draw % 8),
                         .op = static_cast<ReduceOp>(draw / 3 % 5),
                         .elements = kSizes[draw / 2 % 8],
                         .in_place = draw % 3 == 0,
                         .tcp = ranks <= 6 && draw / 3 % 4 == 0});
      }
      ASSERT_NO_FATAL_FAILURE(ExpectRuns(*program, cases));
      ++programs;
    }
  }
  EXPECT_GT(programs, 100);
}

TEST(Interpreter, RunsProgramsWithParallelInstancesAndManyTiles) {
  const Program program =
      Make("allreduce-ring-chunked", {.ranks = 4, .instances = 3, .fifo_slots = kSlots});
  ExpectRuns(program, {{.elements = 300'001}, {.type = DataType::kBf16, .elements = 65'536}});
}

// Messages of several chunks, long enough to be reduced and stored while they arrive.
TEST(Interpreter, TakesLongMessagesInPiecesOverTcp) {
  for (const std::string_view name : {"allreduce-halving-doubling", "allreduce-ring-chunked",
                                      "reduce-scatter-ring", "reduce-binomial", "allgather-ring"}) {
    const Program program = Make(name, {.ranks = 4, .root = 1, .fifo_slots = kSlots});
    Case test = {.elements = 700'001, .tcp = true, .slot_bytes = kLargeSlots};
    Case other = test;
    other.type = DataType::kBf16;
    other.in_place = true;
    ExpectRuns(program, {test, other});
  }
}

// In a tree a rank waits for messages on one connection while another one is full. This must end,
// even if ranks share cores and only one connection at a time sends in place.
TEST(Interpreter, RunsTreesWithManyTilesOverTcp) {
  const Program program = Make("allreduce-double-binary-tree", {.ranks = 8, .fifo_slots = kSlots});
  ExpectRuns(program, {{.elements = 2'000'001, .tcp = true, .slot_bytes = kLargeSlots}});
}

// Results are bit-identical on every rank and in every run, whatever the order of events.
TEST(Interpreter, GivesTheSameBitsOnEveryRankAndInEveryRun) {
  const Program program = Make("allreduce-halving-doubling", {.ranks = 5, .fifo_slots = kSlots});
  const auto shared = std::make_shared<const Program>(program);
  constexpr std::size_t kElements = 5003;
  std::vector<std::vector<float>> results(10);
  for (std::size_t run = 0; run < 2; ++run) {
    RunRanks(program, run == 1, [&](Transport& transport) {
      auto interpreter = Interpreter::Prepare(shared, transport, InAWhile());
      ASSERT_TRUE(interpreter) << interpreter.error().message;
      std::vector<float>& data = results[run * 5 + static_cast<std::size_t>(transport.rank())];
      for (std::size_t e = 0; e < kElements; ++e) {
        data.push_back(
            1.0F / static_cast<float>(1 + e + 1000 * static_cast<std::size_t>(transport.rank())));
      }
      auto* bytes = reinterpret_cast<std::byte*>(data.data());
      auto done =
          (*interpreter)
              ->Run({.input = bytes, .output = bytes, .elements = kElements}, {}, InAWhile());
      ASSERT_TRUE(done) << done.error().message;
    });
  }
  for (const std::vector<float>& result : results) {
    // NOLINTNEXTLINE(bugprone-suspicious-memory-comparison): the bits must agree
    EXPECT_EQ(std::memcmp(result.data(), results[0].data(), kElements * sizeof(float)), 0);
  }
}

// Each rank learns that calls differ, and which rank made which.
TEST(Interpreter, NamesRanksWhoseCallsDiffer) {
  for (const bool tcp : {false, true}) {
    const Program program = Make("allreduce-ring", {.ranks = 3, .fifo_slots = kSlots});
    const auto shared = std::make_shared<const Program>(program);
    RunRanks(program, tcp, [&](Transport& transport) {
      auto interpreter = Interpreter::Prepare(shared, transport, InAWhile());
      ASSERT_TRUE(interpreter) << interpreter.error().message;
      std::vector<float> data(100);
      const std::size_t count = transport.rank() == 1 ? 99 : 100;
      auto* bytes = reinterpret_cast<std::byte*>(data.data());
      auto done = (*interpreter)
                      ->Run({.input = bytes, .output = bytes, .elements = count}, {.count = count},
                            InAWhile());
      ASSERT_FALSE(done);
      EXPECT_NE(done.error().message.find("rank 1"), std::string::npos) << done.error().message;
      EXPECT_NE(done.error().message.find("99"), std::string::npos) << done.error().message;
    });
  }
}

TEST(Interpreter, NamesTheRankThatItWaitedFor) {
  const Program program = Make("allreduce-ring", {.ranks = 2, .fifo_slots = kSlots});
  const auto shared = std::make_shared<const Program>(program);
  RunRanks(program, false, [&](Transport& transport) {
    auto interpreter = Interpreter::Prepare(shared, transport, InAWhile());
    ASSERT_TRUE(interpreter) << interpreter.error().message;
    if (transport.rank() == 1) return;  // never makes the call
    float data = 1;
    auto* bytes = reinterpret_cast<std::byte*>(&data);
    const auto soon = std::chrono::steady_clock::now() + std::chrono::milliseconds(100);
    auto done = (*interpreter)->Run({.input = bytes, .output = bytes, .elements = 1}, {}, soon);
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code, ErrorCode::kUnavailable);
    EXPECT_NE(done.error().message.find("waited for rank 1"), std::string::npos)
        << done.error().message;
  });
}

TEST(Interpreter, RefusesAProgramForAnotherNumberOfRanks) {
  const Program program = Make("allreduce-ring", {.ranks = 2, .fifo_slots = kSlots});
  const auto other = std::make_shared<const Program>(Make("allreduce-ring", {.ranks = 3}));
  RunRanks(program, false, [&](Transport& transport) {
    const auto refused = Interpreter::Prepare(other, transport, InAWhile());
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  });
}

}  // namespace
}  // namespace espalier::runtime
