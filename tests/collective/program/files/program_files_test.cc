#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "collective/algorithms/algorithm.h"
#include "collective/program/files/format_msccl_xml.h"
#include "collective/program/files/parse_msccl_xml.h"
#include "collective/program/files/program_file.h"
#include "collective/program/verifier/verifier.h"
#include "tests/collective/program/random_program.h"
#include "tests/collective/program/reference_run.h"

namespace espalier::program {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

bool RunsRight(const Program& program, std::mt19937_64& random) {
  for (const bool in_place : {true, false}) {
    if (!(in_place ? program.placement.in_place : program.placement.out_of_place)) continue;
    for (int run = 0; run < 3; ++run) {
      ReferenceRun reference(program, in_place, 2, random);
      if (!reference.Run() || !reference.IsRight()) return false;
    }
  }
  return true;
}

std::vector<Program> AlgorithmPrograms() {
  std::vector<Program> programs;
  for (const auto& algorithm : algorithms::Algorithms()) {
    for (const int ranks : {2, 8}) {
      programs.push_back(
          *algorithms::MakeAlgorithm(algorithm.name, {.ranks = ranks, .ranks_per_node = 2}));
    }
  }
  return programs;
}

TEST(MscclXml, ImportsProgramsOfOthers) {
  std::mt19937_64 random(3);
  const struct {
    std::string file;
    CollectiveKind kind;
    BufferPlacement placement;
    int needed_slots;
  } cases[] = {
      {"allreduce_ring", CollectiveKind::kAllReduce, {true, false}, 2},
      {"allreduce_allpairs", CollectiveKind::kAllReduce, {true, false}, 1},
      {"alltoall", CollectiveKind::kAllToAll, {false, true}, 1},
      {"reducescatter_ring", CollectiveKind::kReduceScatter, {true, true}, 2},
      {"allgather_ring", CollectiveKind::kAllGather, {true, false}, 2},
      {"broadcast_chain", CollectiveKind::kBroadcast, {false, true}, 1},
  };
  for (const auto& one : cases) {
    SCOPED_TRACE(one.file);
    const auto read = ReadAndVerify(std::string(ESPALIER_PROGRAMS) + "/" + one.file + ".xml");
    ASSERT_TRUE(read.has_value()) << read.error().message;
    const auto* program = &read->program;
    EXPECT_EQ(program->name, one.file);
    EXPECT_EQ(program->collective.kind, one.kind);
    EXPECT_EQ(program->placement, one.placement);
    const Verdict& verdict = read->verdict;
    ASSERT_FALSE(verdict.violation) << verdict.violation->message;
    EXPECT_EQ(verdict.needed_slots, one.needed_slots);
    if (one.kind == CollectiveKind::kBroadcast) {
      EXPECT_EQ(verdict.root, 2);
    } else {
      EXPECT_TRUE(RunsRight(*program, random));
    }
    const auto text = FormatMscclXml(*program);
    ASSERT_TRUE(text.has_value()) << text.error().message;
    EXPECT_EQ(*ParseMscclXml(*text, "again"), *program);
  }
}

TEST(MscclXml, ExplainsADeadlockOnOneSlot) {
  const auto ring =
      ReadAndVerify(std::string(ESPALIER_PROGRAMS) + "/allreduce_ring.xml", {.fifo_slots = 1});
  const Verdict& verdict = ring->verdict;
  ASSERT_TRUE(verdict.violation.has_value());
  EXPECT_EQ(verdict.violation->kind, ViolationKind::kDeadlock);
}

TEST(MscclXml, KeepsWhatAlgorithmsDo) {
  std::mt19937_64 random(4);
  for (const Program& program : AlgorithmPrograms()) {
    SCOPED_TRACE(program.name + " of " + std::to_string(program.collective.ranks));
    const auto text = FormatMscclXml(program);
    ASSERT_TRUE(text.has_value()) << text.error().message;
    const auto read = ParseMscclXml(*text, "a");
    ASSERT_TRUE(read.has_value()) << read.error().message;
    const Verdict verdict = Verify(*read);
    ASSERT_FALSE(verdict.violation) << verdict.violation->message;
    EXPECT_EQ(MeasureCost(*read).steps, MeasureCost(program).steps);
    EXPECT_EQ(read->placement, program.placement);
    EXPECT_EQ(read->max_bytes, program.max_bytes);
    // These files state the expected result, except for roots.
    EXPECT_TRUE(program.collective.root != kNoRoot || RunsRight(*read, random));
  }
}

TEST(MscclXml, RefusesWhatMscclCannotExpress) {
  const auto refusal = [](std::string_view name, const algorithms::AlgorithmOptions& options) {
    const auto made = algorithms::MakeAlgorithm(name, options);
    EXPECT_TRUE(made.has_value());
    const auto text = FormatMscclXml(*made);
    EXPECT_FALSE(text.has_value());
    if (text) return std::string();
    EXPECT_EQ(text.error().code, ErrorCode::kUnsupported);
    return text.error().message;
  };
  EXPECT_THAT(refusal("reduce-scatter-ring", {.ranks = 2, .counts = {1, 3}}), HasSubstr("unequal"));
  EXPECT_THAT(refusal("allgather-bruck", {.ranks = 200}), HasSubstr("a step of "));
  EXPECT_THAT(refusal("broadcast-pipelined", {.ranks = 2, .pieces = 300}), HasSubstr("600 steps"));
  EXPECT_THAT(refusal("barrier-all-to-all", {.ranks = 220}), HasSubstr("block 216: there are"));
}

std::string ReplaceOnce(std::string text, std::string_view from, std::string_view to) {
  const auto at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

TEST(MscclXml, RefusesBadFilesWithTheirPlace) {
  const std::string good =
      R"(<algo name="a" proto="Simple" nchannels="1" nchunksperloop="1" ngpus="2" coll="allreduce" inplace="0">
 <gpu id="0" i_chunks="1" o_chunks="1" s_chunks="0">
  <tb id="0" send="1" recv="1" chan="0">
   <step s="0" type="s" srcbuf="i" srcoff="0" dstbuf="o" dstoff="0" cnt="1" depid="-1" deps="-1" hasdep="1"/>
   <step s="1" type="rrc" srcbuf="i" srcoff="0" dstbuf="o" dstoff="0" cnt="1" depid="0" deps="0" hasdep="0"/>
  </tb>
 </gpu>
 <gpu id="1" i_chunks="1" o_chunks="1" s_chunks="0">
  <tb id="0" send="0" recv="0" chan="0">
   <step s="0" type="s" srcbuf="i" srcoff="0" dstbuf="o" dstoff="0" cnt="1" depid="-1" deps="-1" hasdep="0"/>
   <step s="1" type="rrc" srcbuf="i" srcoff="0" dstbuf="o" dstoff="0" cnt="1" depid="-1" deps="-1" hasdep="0"/>
  </tb>
 </gpu>
</algo>
)";
  const auto program = ParseMscclXml(good, "good");
  ASSERT_TRUE(program.has_value()) << program.error().message;
  EXPECT_FALSE(Verify(*program).violation);
  const struct {
    std::string_view from, to, place, message;
  } cases[] = {
      {"</algo>", "", "f:14:1: ", ""},
      {"</algo>\n", "</algo><algo/>", "f:1:2: ", "expected one <algo>"},
      {"<gpu id=\"1\"", "<rank id=\"1\"", "f:", ""},
      {"proto=\"Simple\"", "proto=\"Fast\"", "f:1:2: ", "is none of Simple, LL, LL128"},
      {"allreduce", "magic", "f:1:2: ", "unknown collective \"magic\""},
      {"allreduce", "barrier", "f:1:2: ", "unknown collective \"barrier\""},
      {"nchunksperloop=\"1\"", "", "f:1:2: ", "<algo> without nchunksperloop"},
      {"nchunksperloop=\"1\"", "nchunksperloop=\"0\"", "f:1:2: ", "not a number from 1 to"},
      {"ngpus=\"2\"", "ngpus=\"two\"", "f:1:2: ", "ngpus=\"two\" is not a number"},
      {"ngpus=\"2\"", "ngpus=\"3\"", "f:1:2: ", "2 <gpu> for ngpus=\"3\""},
      {"ngpus=\"2\"", "ngpus=\"2\" ngpus=\"2\"", "f:1:2: ", "ngpus is given twice"},
      {"<gpu id=\"1\"", "<gpu id=\"0\"", "f:8:3: ", "<gpu> 0 is given twice"},
      {"send=\"1\"", "send=\"2\"", "f:3:4: ", "send=\"2\" is not a number from -1 to 1"},
      {"chan=\"0\"", "chan=\"1\"", "f:3:4: ", "chan=\"1\" is not a number from 0 to 0"},
      {"type=\"s\"", "type=\"ra\"", "f:4:5: ", "no interpreter runs steps of type \"ra\""},
      {"srcbuf=\"i\"", "srcbuf=\"x\"", "f:4:5: ", "none of i, o, s"},
      {"srcoff=\"0\"", "srcoff=\"-1\"", "f:4:5: ", "srcoff=\"-1\" is not a number"},
      {"cnt=\"1\"", "cnt=\"72\"", "f:4:5: ", "cnt=\"72\" is not a number from 1 to 71"},
      {"<step s=\"1\"", "<step s=\"0\"", "f:5:5: ", "<step> 0 is given twice"},
      {"hasdep=\"1\"", "hasdep=\"0\"", "f:5:5: ", "does not announce it"},
      {"deps=\"0\"", "deps=\"7\"", "f:5:5: ", "step 7 of block 0, which does not exist"},
      {"depid=\"0\"", "depid=\"1\"", "f:5:5: ", "depid=\"1\" is not a number from -1 to 0"},
      {"<step", "text <step", "f:3:", "expected only <step>"},
  };
  for (const auto& one : cases) {
    const auto refused = ParseMscclXml(ReplaceOnce(good, one.from, one.to), "f");
    ASSERT_FALSE(refused.has_value()) << one.to;
    EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(refused.error().message, StartsWith(std::string(one.place)));
    EXPECT_THAT(refused.error().message, HasSubstr(std::string(one.message)));
  }
  // A well-formed but wrong program is the verifier's task.
  const auto wrong = ParseMscclXml(ReplaceOnce(good, "type=\"rrc\"", "type=\"r\""), "f");
  ASSERT_TRUE(wrong.has_value());
  EXPECT_EQ(Verify(*wrong).violation->kind, ViolationKind::kPostcondition);
}

Result<Program> ParseJson(std::string_view text, std::string_view name) {
  auto read = ParseAndVerify(text, name);
  if (!read) return Propagate(read);
  return std::move(read->program);
}

TEST(ProgramJson, KeepsEveryProgram) {
  std::mt19937_64 random(9);
  std::vector<Program> programs = AlgorithmPrograms();
  programs.push_back(
      *algorithms::MakeAlgorithm("reduce-scatter-ring", {.ranks = 3, .counts = {0, 5, 2}}));
  for (int i = 0; i < 50; ++i) programs.push_back(*MakeRandomProgram(random));
  for (const Program& program : programs) {
    const auto read = ParseJson(FormatProgramJson(program), "p");
    ASSERT_TRUE(read.has_value()) << read.error().message;
    EXPECT_EQ(*read, program) << program.name;
  }
}

TEST(ProgramJson, RefusesBadFilesWithTheirPlace) {
  const std::string good = R"({"name": "a",
 "collective": {"kind": "allreduce", "chunks": 1},
 "ranks": [
  {"blocks": [{"send": 1, "receive": 1, "steps": [
    {"op": "s", "source": "i0"},
    {"op": "rrc", "source": "i0", "destination": "o0", "after": [{"block": 0, "step": 0}]}]}]},
  {"blocks": [{"send": 0, "receive": 0, "steps": [
    {"op": "s", "source": "i0"}, {"op": "rrc", "source": "i0", "destination": "o0"}]}]}]})";
  const auto program = ParseJson(good, "good");
  ASSERT_TRUE(program.has_value()) << program.error().message;
  EXPECT_FALSE(Verify(*program).violation);
  const struct {
    std::string_view from, to, place, message;
  } cases[] = {
      {"{\"name\"", "{\"nam\"", "f:1:2", "nam"},
      {"\"allreduce\"", "\"magic\"", "f:2:25", "unknown collective"},
      {"\"chunks\": 1", "\"chunks\": 0", "f:2:", "at least one chunk"},
      {"\"chunks\": 1", "\"chunks\": \"many\"", "f:2:", ""},
      {"\"chunks\": 1", "\"chunks\": 1, \"root\": 0", "f:2:", "cannot have root 0"},
      {"\"chunks\": 1", "\"chunks\": 1, \"counts\": [1.5]", "f:2:", "whole numbers"},
      {"\"op\": \"s\"", "\"op\": \"x\"", "f:5:", "unknown step"},
      {"\"i0\"", "\"i\"", "f:5:", "not a place"},
      {"\"i0\"", "\"q0\"", "f:5:", "not a place"},
      {"\"i0\"", "\"i-1\"", "f:5:", "not a place"},
      {"\"send\": 1", "\"send\": -1", "f:4:", ""},
      {"\"block\": 0", "\"blok\": 0", "f:6:", "blok"},
  };
  for (const auto& one : cases) {
    const auto refused = ParseJson(ReplaceOnce(good, one.from, one.to), "f");
    ASSERT_FALSE(refused.has_value()) << one.to;
    EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(refused.error().message, StartsWith(std::string(one.place)));
    EXPECT_THAT(refused.error().message, HasSubstr(std::string(one.message)));
  }
  EXPECT_FALSE(ParseJson("", "f").has_value());
  EXPECT_FALSE(ParseJson("{}", "f").has_value());
  EXPECT_FALSE(ReadAndVerify("/nowhere/program.json").has_value());
}

}  // namespace
}  // namespace espalier::program
