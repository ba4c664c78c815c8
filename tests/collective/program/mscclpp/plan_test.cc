#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "collective/program/files/program_file.h"
#include "tests/collective/program/mscclpp/plan_text.h"
#include "tests/collective/program/reference_run.h"

namespace espalier::program {
namespace {

using testing::HasSubstr;

std::string Replace(std::string text, std::string_view from, std::string_view to) {
  const auto at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

VerifiedProgram Read(const std::string& text) {
  auto read = ParseAndVerify(text, "f");
  EXPECT_TRUE(read) << (read ? "" : read.error().message) << "\n" << text;
  return read ? std::move(*read) : VerifiedProgram();
}

void ExpectRight(const std::string& text) {
  const VerifiedProgram read = Read(text);
  ASSERT_FALSE(read.verdict.violation) << read.verdict.violation->message << "\n" << text;
  std::mt19937_64 random(1);
  for (int i = 0; i < 3; ++i) {
    ReferenceRun run(read.program, read.program.placement.in_place, 2, random);
    ASSERT_TRUE(run.Run() && run.IsRight()) << text;
  }
}

void ExpectViolation(const std::string& text, ViolationKind kind, const std::string& message) {
  const VerifiedProgram read = Read(text);
  ASSERT_TRUE(read.verdict.violation) << message << "\n" << text;
  EXPECT_EQ(ViolationKindName(read.verdict.violation->kind), ViolationKindName(kind))
      << read.verdict.violation->message;
  EXPECT_THAT(read.verdict.violation->message, HasSubstr(message)) << text;
}

// Each of two ranks does the same; `other` becomes the other rank's number.
std::vector<RankText> Pair(const RankText& rank) {
  std::vector<RankText> both(2, rank);
  for (int i = 0; i < 2; ++i) {
    RankText& one = both[static_cast<std::size_t>(i)];
    if (!one.memory.empty()) one.memory.assign(one.memory.size(), 1 - i);
    if (!one.port.empty()) one.port.assign(one.port.size(), 1 - i);
    for (std::string& buffer : one.buffers) {
      buffer = std::to_string(1 - i) + buffer.back();
    }
    for (std::string& block : one.blocks) {
      for (const auto& [name, value] : {std::pair("OWN", i), std::pair("OTHER", 1 - i)}) {
        for (auto at = block.find(name); at != std::string::npos; at = block.find(name)) {
          block.replace(at, std::string_view(name).size(), std::to_string(value));
        }
      }
    }
  }
  return both;
}

// An allreduce in place of two chunks: each rank reads the peer's half, adds it and writes it back.
RankText ReadReduceWrite() {
  return {.chunks = {2, 2, 0},
          .memory = {0},
          .buffers = {"0i"},
          .blocks = {"signal m0; wait m0; nop; rres iOWN,r0.OWN iOWN,r0.OWN; nop;"
                     "signal m0; wait m0; nop"}};
}

// An allgather out of place: a handshake, the peer's part by the network, a copy of the own part.
RankText PutByPort() {
  return {.chunks = {1, 2, 0},
          .port = {0},
          .buffers = {"0o"},
          .blocks = {"signal p0; wait p0; nop; put i0 r0.OWN p0; nop; signal p0; flush p0;"
                     "copy i0 oOWN; wait p0; nop"}};
}

// An allreduce in place by packets, in both halves of scratch memory in turns.
RankText Packets() {
  return {
      .chunks = {2, 2, 3},
      .memory = {0},
      .buffers = {"0s"},
      .blocks = {"ppkt iOTHER r0.OTHER", "recspkt iOWN,sOWN iOWN,s2,r0.OWN", "upkt sOTHER iOTHER"}};
}

constexpr std::string_view kDouble =
    "\"protocol\":\"LL\",\"use_double_scratch_buffer\":true,"
    "\"max_message_size\":18446744073709551615,";

TEST(Plan, AcceptsWhatOthersWrite) {
  ExpectRight(WritePlan("allreduce", true, Pair(ReadReduceWrite())));
  ExpectRight(WritePlan("allgather", false, Pair(PutByPort())));
  ExpectRight(WritePlan("allreduce", true, Pair(Packets()), kDouble));
  // A barrier of two blocks, and both sides copied through scratch memory.
  ExpectRight(WritePlan(
      "allreduce", true,
      Pair({.chunks = {2, 2, 2},
            .memory = {0, 0},
            .buffers = {"0s"},
            .blocks = {"signal m0; wait m0; nop; put i0*2 r0.0*2; nop; signal m0; wait m0;"
                       "barrier %0/2; re i0,s0 i0; nop",
                       "barrier %0/2; re i1,s1 i1; nop"}})));
  // Slices of thread blocks, and semaphores that join them.
  const std::string joined = WritePlan(
      "allgather", false,
      Pair({.chunks = {1, 2, 0},
            .memory = {0},
            .buffers = {"0i"},
            .semaphores = {0, 0},
            .blocks = {"signal m0; wait m0; nop; sem_release #0; get r0.0 oOTHER @0/2;"
                       "copy i0 oOWN; sem_acquire #1; nop; signal m0; wait m0",
                       "sem_acquire #0; nop; get r0.0 oOTHER @1/2; nop; sem_release #1"}}));
  ExpectRight(joined);
  // A pipeline that forwards pieces.
  ExpectRight(WritePlan("allgather", false,
                        Pair({.chunks = {1, 2, 0},
                              .memory = {0},
                              .buffers = {"0o"},
                              .blocks = {"copy i0 oOWN; rlxsignal m0; rlxwait m0; nop;"
                                         "pipeline 1|put i0 r0.OWN|nop|signal m0|wait m0|nop"}})));
  // A switch adds up and stores at all ranks.
  ExpectRight(WritePlan("allreduce", true,
                        Pair({.chunks = {2, 2, 0},
                              .memory = {0},
                              .buffers = {},
                              .blocks = {"signal m0; wait m0; nop; glres xOWN xOWN; nop;"
                                         "signal m0; wait m0; nop"},
                              .switch_group = {0, 1}})));
}

// Three ranks: packets of rank 0 are forwarded by rank 1; copies into packets and out of them.
TEST(Plan, FollowsForwardedPackets) {
  const std::vector<RankText> ranks = {{.chunks = {1, 1, 1},
                                        .memory = {1},
                                        .buffers = {"1s"},
                                        .blocks = {"ppkt i0 r0.0; copy i0 o0"}},
                                       {.chunks = {1, 1, 2},
                                        .memory = {0, 2},
                                        .buffers = {"2s"},
                                        .blocks = {"rppkt s0 r0.0; nop; upkt s0 o0"}},
                                       {.chunks = {1, 1, 2},
                                        .memory = {1},
                                        .buffers = {},
                                        .blocks = {"upkt s0 o0; nop; cpkt o0 s1"}}};
  const VerifiedProgram once = Read(WritePlan("broadcast", false, ranks, kDouble));
  // Rank 0 may be two runs ahead of rank 1, which has not read its packets yet.
  ASSERT_TRUE(once.verdict.violation);
  EXPECT_EQ(once.verdict.violation->kind, ViolationKind::kRace);
  std::vector<RankText> answered = ranks;
  answered[0].chunks[2] = 2;
  answered[0].blocks = {"ppkt i0 r0.0; copy i0 o0; upkt s0 s3; nop"};
  answered[0].chunks[2] = 4;
  answered[1].buffers = {"2s", "0s"};
  answered[1].blocks = {"rppkt s0 r0.0; nop; upkt s0 o0; upkt s1 s4; nop; ppkt i0 r1.0"};
  answered[1].chunks[2] = 5;
  answered[2].buffers = {"1s"};
  answered[2].blocks = {"upkt s0 o0; nop; ppkt o0 r0.1"};
  const VerifiedProgram read = Read(WritePlan("broadcast", false, answered, kDouble));
  ASSERT_FALSE(read.verdict.violation) << read.verdict.violation->message;
  EXPECT_EQ(read.verdict.root, 0);
}

TEST(Plan, ReportsWhatIsWrong) {
  const std::string reduce = WritePlan("allreduce", true, Pair(ReadReduceWrite()));
  const std::string port = WritePlan("allgather", false, Pair(PutByPort()));
  const std::string packets = WritePlan("allreduce", true, Pair(Packets()), kDouble);
  const std::string nop = "{\"name\":\"nop\"},\n";
  const std::string signal =
      "{\"name\":\"signal\",\"channel_type\":\"memory\",\"channel_ids\":[0]},\n";
  const std::string wait = Replace(signal, "signal", "wait");
  // Without a signal, the peer waits for ever.
  ExpectViolation(Replace(reduce, signal, ""), ViolationKind::kDeadlock,
                  "waits for a signal on a memory channel to rank 0");
  ExpectViolation(Replace(reduce, wait, ""), ViolationKind::kCountMismatch,
                  "signals 2 times on a memory channel to rank 0, which waits 1 times there");
  // Without a nop, some threads go on before the signal is there.
  ExpectViolation(Replace(reduce, wait + nop, wait), ViolationKind::kRace, "");
  ExpectViolation(Replace(reduce, "},\n" + nop + signal, "},\n" + signal), ViolationKind::kRace,
                  "");
  // Without the last wait, the caller has the result too early, or changes the input too early.
  const std::string last = signal + wait + "{\"name\":\"nop\"}]";
  ExpectViolation(
      Replace(Replace(reduce, last, "{\"name\":\"nop\"}]"), last, "{\"name\":\"nop\"}]"),
      ViolationKind::kRace, "while the caller of rank 1 may use it");
  // Both halves are added by rank 0.
  ExpectViolation(Replace(reduce, "\"index\":1", "\"index\":0"), ViolationKind::kRace, "");
  // The transfer through the network may still read what was not flushed.
  const std::string flush = "{\"name\":\"flush\",\"channel_type\":\"port\",\"channel_ids\":[0]},\n";
  ExpectViolation(Replace(port, flush, ""), ViolationKind::kRace,
                  "while step 3 of rank 0 through its port channel may still use i0 of rank 0");
}

TEST(Plan, ReportsWrongResults) {
  const auto broken = [](const std::string& block, bool in_place = true) {
    return WritePlan(
        "allreduce", in_place,
        Pair({.chunks = {2, 2, 2}, .memory = {0}, .buffers = {"0s"}, .blocks = {block}}));
  };
  const std::string start = "signal m0; wait m0; nop;";
  const std::string end = "; nop; signal m0; wait m0; nop";
  ExpectViolation(broken(start + "re i0,s0 i0" + end), ViolationKind::kUninitialised,
                  "before anything was written there");
  ExpectViolation(broken(start + "re i0,i0 i0" + end), ViolationKind::kDoubleReduction, "");
  ExpectViolation(broken(start + "copy i0*2 s0*2" + end), ViolationKind::kPostcondition,
                  "o0 is i0 of rank 0, not i0 of rank 0 + i0 of rank 1");
  ExpectViolation(broken(start + "copy i0 i1" + end, false), ViolationKind::kWritesInput, "");
  ExpectViolation(broken(start + "copy i0*2 s0*2; nop; copy s0*1 s1" + end),
                  ViolationKind::kPostcondition, "");
  ExpectViolation(broken(start + "copy s0 i0" + end), ViolationKind::kUninitialised, "");
  ExpectViolation(broken(start + "put i0 r0.0; put i1 r0.0" + end), ViolationKind::kRace,
                  "writes s0 of rank");
  ExpectViolation(broken("upkt s0 i0; nop; signal m0; wait m0"), ViolationKind::kDeadlock,
                  "waits for packets");
  ExpectViolation(broken("cpkt i0 s0; nop; copy s0 i1; signal m0; wait m0"),
                  ViolationKind::kUninitialised, "which holds packets");
}

TEST(Plan, ReportsBlocksThatShareWhatOnlyOneMayUse) {
  const auto shared = [](const std::vector<std::string>& blocks) {
    return WritePlan("allreduce", true,
                     Pair({.chunks = {1, 1, 0},
                           .memory = {0},
                           .buffers = {},
                           .semaphores = {0, 2},
                           .blocks = blocks}));
  };
  ExpectViolation(shared({"signal m0; wait m0", "signal m0; wait m0"}), ViolationKind::kRace,
                  "on a memory channel to rank 1 in any order");
  ExpectViolation(
      shared({"sem_acquire #1", "sem_acquire #1; nop; sem_release #1", "sem_release #1"}),
      ViolationKind::kRace, "acquire semaphore 1 in any order");
  ExpectViolation(shared({"sem_release #0"}), ViolationKind::kCountMismatch,
                  "semaphore 0 begins at 0 and ends at 1");
  ExpectViolation(shared({"sem_acquire #0"}), ViolationKind::kDeadlock, "waits for semaphore 0");
  ExpectViolation(shared({"barrier %0/2"}), ViolationKind::kStructure,
                  "barrier 0 is of 2 blocks, but 1 use it");
  ExpectViolation(shared({"barrier %0/2", "barrier %0/2; barrier %0/2"}), ViolationKind::kDeadlock,
                  "waits at barrier 0");
  ExpectViolation(shared({"barrier %0/1; barrier %0/2"}), ViolationKind::kStructure, "two sizes");
}

// Of two releases by different blocks, one acquisition knows neither, two know both.
TEST(Plan, KnowsWhichReleasesAnAcquisitionNeeds) {
  const auto joined = [](const std::string& acquire) {
    return WritePlan("allreduce", true,
                     {{.chunks = {2, 2, 2},
                       .memory = {},
                       .buffers = {},
                       .semaphores = {0},
                       .blocks = {"copy i0 s0; nop; sem_release #0",
                                  "copy i1 s1; nop; sem_release #0", acquire}}});
  };
  ExpectRight(joined("sem_acquire #0; sem_acquire #0; nop; copy s0*2 i0*2"));
  ExpectViolation(joined("sem_acquire #0; nop; copy s0 i0; sem_acquire #0; nop; copy s1 i1"),
                  ViolationKind::kRace, "reads s0 of rank 0 while rank 0 block 0 step 0");
}

TEST(Plan, RefusesBadFilesWithTheirPlace) {
  const std::string good = WritePlan("allreduce", true, Pair(ReadReduceWrite()));
  const struct {
    std::string from, to, message;
  } cases[] = {
      {"\"p\"", "5", "f:1:9: field \"name\" must be a string"},
      {"\"collective\"", "\"colletive\"", "field \"collective\" is missing"},
      {"\"inplace\":true", "\"inplace\":1", "must be true or false"},
      {"\"gpus\":[", "\"gpus\":5,\"x\":[", "\"gpus\" must be an array"},
      {"\"id\":1", "\"id\":0", "rank 0 stands here, where rank 1 belongs"},
      {"\"input_chunks\":2", "\"inputChunks\":2", "field \"input_chunks\" is missing"},
      {"\"input_chunks\":2", "\"input_chunks\":4194305", "must be a whole number from 0"},
      {"\"input_chunks\":2", "\"input_chunks\":3", "rank 0 has 3 input chunks and 2 output"},
      {"\"connected_to\":[1]", "\"connected_to\":[0]", "a channel leads to its own rank"},
      {"\"connected_to\":[1]", "\"connected_to\":[7]", "rank 0 is connected to a rank that"},
      {"\"connected_to\":[1]", "\"connected_to\":[]", "channel mismatch: rank 0 accesses a buffer"},
      {"\"access_channel_types\":[\"memory\"]", "\"access_channel_types\":[]",
       "channel mismatch: remote buffer 0 is not accessible through memory channels"},
      {"\"channel_ids\":[0]", "\"channel_ids\":[1]",
       "\"channel_ids\" has 1, which is not a number from 0 to 0"},
      {"\"channel_ids\":[0]", "\"channel_ids\":[\"0\"]", "not a number from 0 to 0"},
      {"\"name\":\"rres\"", "\"name\":\"magic\"", "unknown operation \"magic\""},
      {"\"name\":\"rres\"", "\"name\":\"rre\"", "one buffer too many for this operation"},
      {"\"buffer_id\":0", "\"buffer_id\":1", "remote buffers of this type, none with number 1"},
      {"\"index\":0", "\"index\":2", "1 chunks from i2 of rank 0, which has 2"},
      {"\"index\":0", "\"index\":-1", "must be a whole number from 0"},
      {"\"size\":1", "\"size\":2", "chunks here, 2 at the other place"},
      {"\"size\":1", "\"size\":0", "an operation on no chunks"},
      {"\"channel_type\":\"memory\",\"channel_ids\":[0]}", "\"channel_ids\":[0]}",
       "field \"channel_type\" is missing"},
      {"{\"name\":\"nop\"}", "{\"name\":\"nop\"", "f:"},
      {"\"semaphores\":[]", "\"semaphores\":[{}]", "field \"init_value\" is missing"},
  };
  for (const auto& one : cases) {
    const auto read = ParseAndVerify(Replace(good, one.from, one.to), "f");
    ASSERT_FALSE(read) << one.to;
    EXPECT_EQ(read.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(read.error().message, HasSubstr(one.message));
    EXPECT_TRUE(read.error().message.starts_with("f:")) << read.error().message;
  }
  // Cut short anywhere, a plan is refused.
  for (std::size_t size = 0; size + 1 < good.size(); size += 7) {
    EXPECT_FALSE(ParseAndVerify(good.substr(0, size), "f")) << size;
  }
}

TEST(Plan, RefusesWhatItDoesNotKnow) {
  const auto refusal = [](const RankText& rank, const std::string& from, const std::string& to) {
    const auto read =
        ParseAndVerify(Replace(WritePlan("allreduce", true, Pair(rank)), from, to), "f");
    EXPECT_FALSE(read);
    return read ? std::string() : read.error().message;
  };
  RankText rank = ReadReduceWrite();
  EXPECT_THAT(refusal(rank, "\"name\":\"rres\"", "\"name\":\"rres\",\"reduce_op\":\"min\""),
              HasSubstr("only sums"));
  rank.blocks = {"pipeline 1|copy i0 i1 @0/2"};
  EXPECT_THAT(refusal(rank, "p", "p"), HasSubstr("slices"));
  rank.blocks = {"pipeline 2|copy i0 i1"};
  EXPECT_THAT(refusal(rank, "p", "p"), HasSubstr("1 chunks in a pipeline of 2"));
  RankText port = PutByPort();
  port.chunks = {2, 2, 0};
  port.blocks = {"res i0 i0,r0.1 p0"};
  EXPECT_THAT(refusal(port, "p", "p"), HasSubstr("cannot use port channels"));
  port.blocks = {"put i0 r0.1"};
  EXPECT_THAT(refusal(port, "p", "p"), HasSubstr("remote buffers"));
}

TEST(Plan, IsBoundedForHostileSizes) {
  RankText rank = ReadReduceWrite();
  rank.chunks = {1 << 20, 1 << 20, 1 << 22};
  ExpectViolation(WritePlan("allreduce", true, Pair(rank)), ViolationKind::kTooLarge, "too much");
  // Parts without a small common multiple.
  RankText sliced = ReadReduceWrite();
  sliced.blocks = {"copy i0 i1 @0/1021; nop; copy i0 i1 @0/1019; nop; copy i0 i1 @0/1013"};
  ExpectViolation(WritePlan("allreduce", true, Pair(sliced)), ViolationKind::kTooLarge, "too much");
  RankText blocks = ReadReduceWrite();
  blocks.blocks.assign(3000, "nop");
  ExpectViolation(WritePlan("allreduce", true, Pair(blocks)), ViolationKind::kTooLarge, "too much");
}

}  // namespace
}  // namespace espalier::program
