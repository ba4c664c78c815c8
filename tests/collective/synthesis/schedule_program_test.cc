#include "collective/synthesis/schedules/schedule_program.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "collective/program/files/format_msccl_xml.h"
#include "collective/program/files/format_mscclpp_json.h"
#include "collective/program/files/parse_msccl_xml.h"
#include "collective/program/verifier/verifier.h"
#include "collective/runtime/program/interpreter.h"
#include "collective/synthesis/construction.h"
#include "collective/synthesis/schedules/verifier.h"
#include "collective/transport/shm/shm_transport.h"
#include "collective/transport/stores/file_store.h"
#include "tests/temporary_folder.h"

namespace espalier::synthesis {
namespace {

using program::CollectiveKind;
using program::Program;

constexpr std::size_t kElements = 211;  // of a share; no multiple of most numbers of chunks

transport::Deadline InAWhile() {
  return std::chrono::steady_clock::now() + std::chrono::seconds(100);
}

std::int32_t Value(std::size_t rank, std::size_t element) {
  return static_cast<std::int32_t>(rank * 100'003 + element * 7);
}

std::int32_t Sum(std::size_t ranks, std::size_t element) {
  std::int32_t sum = 0;
  for (std::size_t rank = 0; rank < ranks; ++rank) sum += Value(rank, element);
  return sum;
}

void CheckOutput(CollectiveKind kind, std::size_t ranks, std::size_t rank,
                 const std::vector<std::int32_t>& output) {
  for (std::size_t e = 0; e < output.size(); ++e) {
    const std::int32_t expected =
        kind == CollectiveKind::kAllGather   ? Value(e / kElements, e % kElements)
        : kind == CollectiveKind::kAllReduce ? Sum(ranks, e)
                                             : Sum(ranks, rank * kElements + e);
    ASSERT_EQ(output[e], expected) << "rank " << rank << ", element " << e;
  }
}

// Runs the program by the runtime, with each rank in a thread, and checks the data.
void ExpectRuns(const Program& program) {
  const auto shared = std::make_shared<const Program>(program);
  const std::size_t ranks = program.ranks.size();
  const CollectiveKind kind = program.collective.kind;
  const bool scatters = kind == CollectiveKind::kReduceScatter;
  TemporaryFolder folder;
  transport::FileStore store(folder.path());
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      auto joined = transport::JoinShm(store, "g", static_cast<int>(rank), static_cast<int>(ranks),
                                       {.channels = std::max(1, program::CountChannels(program)),
                                        .slots = 2,
                                        .slot_bytes = 4096},
                                       InAWhile());
      ASSERT_TRUE(joined) << joined.error().message;
      auto interpreter = runtime::Interpreter::Prepare(shared, **joined, InAWhile());
      ASSERT_TRUE(interpreter) << interpreter.error().message;
      std::vector<std::int32_t> input(kElements * (scatters ? ranks : 1));
      std::vector<std::int32_t> output(kElements *
                                       (kind == CollectiveKind::kAllGather ? ranks : 1));
      for (std::size_t e = 0; e < input.size(); ++e) input[e] = Value(rank, e);
      const runtime::Operands operands{.input = reinterpret_cast<const std::byte*>(input.data()),
                                       .output = reinterpret_cast<std::byte*>(output.data()),
                                       .elements = kElements,
                                       .type = reduce::DataType::kI32,
                                       .op = reduce::ReduceOp::kSum};
      const auto done = (*interpreter)->Run(operands, {.count = kElements}, InAWhile());
      ASSERT_TRUE(done) << done.error().message;
      CheckOutput(kind, ranks, rank, output);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

Program ExpectRightProgram(std::string_view text, Collective collective) {
  SCOPED_TRACE(text);
  const auto construction = ParseConstruction(text);
  const auto network = BuildNetwork(*construction);
  const auto schedule = MakeSchedule(*construction, collective);
  EXPECT_TRUE(network && schedule);
  if (!network || !schedule) return {};
  EXPECT_TRUE(VerifySchedule(network->graph, *schedule));
  auto made = MakeScheduleProgram("bfb", *schedule);
  EXPECT_TRUE(made) << made.error().message;
  if (!made) return {};
  const program::Verdict verdict = program::Verify(*made, {.fifo_slots = 2});
  EXPECT_FALSE(verdict.violation) << verdict.violation->message;
  EXPECT_TRUE(verdict.same_bits);
  EXPECT_TRUE(verdict.has_postcondition);
  // Every rank receives or sends all but its own share in every phase, once.
  const std::int64_t phases = collective == Collective::kAllreduce ? 2 : 1;
  EXPECT_EQ(program::MeasureCost(*made).total_chunks_sent,
            phases * (schedule->node_count - 1) * made->collective.chunks);
  return std::move(*made);
}

// 51 pairs of a network and a collective, from the schedule to checked data.
TEST(ScheduleProgram, IsCorrectAndRunsOnEveryNetwork) {
  for (const std::string_view text :
       {"Complete(2)", "Complete(5)", "Bipartite(3)", "BiRing(2, 6)", "UniRing(1, 5)",
        "Circulant(11)", "DirectedCirculant(3)", "GenKautz(2, 9)", "DeBruijn(2, 3)", "Kautz(2, 1)",
        "Hamming(2, 3)", "Torus(3, 2, 2)", "DistanceRegular(10)", "Line(Complete(3))",
        "Degree(UniRing(1, 4), 2)", "Power(UniRing(1, 3), 2)",
        "Bidirectional(Line(Bipartite(2)))"}) {
    for (const Collective collective :
         {Collective::kAllgather, Collective::kReduceScatter, Collective::kAllreduce}) {
      const Program made = ExpectRightProgram(text, collective);
      ASSERT_FALSE(made.ranks.empty());
      ASSERT_NO_FATAL_FAILURE(ExpectRuns(made));
    }
  }
}

TEST(ScheduleProgram, IsWrittenForMscclAndMscclpp) {
  const Program made = ExpectRightProgram("Hamming(2, 3)", Collective::kAllreduce);
  const auto xml = program::FormatMscclXml(made);
  ASSERT_TRUE(xml) << xml.error().message;
  const auto read = program::ParseMscclXml(*xml, "f");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_FALSE(program::Verify(*read).violation);
  EXPECT_TRUE(program::FormatMscclppJson(made));
}

TEST(ScheduleProgram, PutsAdjacentChunksOfALinkIntoOneMessage) {
  // In the second step of the square, each node passes half of one shard on to each neighbour.
  const Program square = ExpectRightProgram("Bipartite(2)", Collective::kAllgather);
  EXPECT_EQ(program::MeasureCost(square).messages, 4 * (2 + 2));
  EXPECT_EQ(program::MeasureCost(square).steps, 2);
  // On K_2 x K_2 x K_2, the shards of a square and of an edge go together in the later steps.
  const auto schedule = MakeSchedule(*ParseConstruction("UniRing(1, 4)"), Collective::kAllgather);
  EXPECT_EQ(program::MeasureCost(*MakeScheduleProgram("ring", *schedule)).messages, 4 * 3);
}

TEST(ScheduleProgram, RefusesWhatIsTooLarge) {
  Schedule schedule{.collective = Collective::kAllgather,
                    .node_count = 4096,
                    .chunks = 2,
                    .steps = 1,
                    .reduce_steps = 0,
                    .sends = {}};
  const auto made = MakeScheduleProgram("large", schedule);
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, ErrorCode::kResourceExhausted);
}

}  // namespace
}  // namespace espalier::synthesis
