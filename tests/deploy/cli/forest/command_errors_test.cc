// What the commands of forests refuse, with which errors.
#include "tests/deploy/cli/forest/forest_commands_fixture.h"

namespace espalier::forest {
namespace {

// What is wrong with a network: the exit code and a part of the message.
struct BadNetwork {
  int ranks;
  int switches;
  std::vector<std::string> links;
  int code;
  std::string message;
};

TEST_F(ForestCommands, SaysWhatIsWrongWithATopology) {
  const std::vector<BadNetwork> networks = {
      {0, 2, {"s0 s1 1"}, 2, "at least two compute nodes, but there is none"},
      {1, 1, {"c0 s0 1"}, 2, "at least two compute nodes, but there is one"},
      {2,
       1,
       {"c0 s0 10", "c1 s0 10", "s0 c1 5 directed", "c1 c0 5 directed"},
       2,
       "c0 is out of balance: 15 Gbit/s enter and 10 Gbit/s leave it (give both directions"},
      {2,
       2,
       {"c0 s0 10", "c1 s1 10", "s0 s1 5 directed"},
       2,
       "s0 is out of balance: 10 Gbit/s enter and 15 Gbit/s leave it"},
      {3, 0, {"c0 c1 1", "c1 c2 1 directed"}, 2, "c1 is out of balance"},
      {4, 0, {"c0 c1 1", "c2 c3 1"}, 1, "c0, c1 cannot be reached from c2, c3"},
      {3, 1, {"c0 s0 1", "c1 s0 1"}, 1, "c2 cannot be reached from c0, c1"},
      {2, 0, {"c0 c1 12345678901234567890"}, 2, ":2:"},
      {2, 0, {"c0 c1 1.23456789012345678901"}, 2, "more than nine decimal places"},
      {3, 0, {"c0 c1 9000000000.000000001", "c1 c2 9000000000.000000002"}, 1, "63 bits"},
      {3,
       0,
       {"c0 c1 900000000.000000001", "c1 c2 900000000.000000002", "c2 c0 900000000.000000007"},
       1,
       "63 bits"},
  };
  for (const BadNetwork& bad : networks) {
    const std::string file = WriteNetwork("bad.json", bad.ranks, bad.switches, bad.links);
    const Outcome outcome = Run("--topology " + file);
    EXPECT_EQ(outcome.code, bad.code) << outcome.errors;
    EXPECT_THAT(outcome.errors, StartsWith("espalier: " + file + ":"));
    EXPECT_THAT(outcome.errors, HasSubstr(bad.message));
    EXPECT_EQ(outcome.output, "");
  }
}

TEST_F(ForestCommands, SaysWhatIsWrongWithOptions) {
  const std::string topology = Write("t.json", fabric::BuildA100({1}));
  const std::string t = "--topology " + topology + " ";
  EXPECT_THAT(Run("").errors, HasSubstr("--topology"));
  EXPECT_EQ(Run("").code, 2);
  EXPECT_EQ(Run(t + "--format xml").code, 2);
  EXPECT_EQ(Run(t + "--collective gossip").code, 2);
  EXPECT_THAT(Run(t + "--root box0/gpu9").errors, HasSubstr("no node \"box0/gpu9\""));
  EXPECT_THAT(Run(t + "--root box0/gpu1").errors, HasSubstr("allgather takes no root"));
  EXPECT_THAT(Run(t + "--collective reduce").errors, HasSubstr("reduce needs a root"));
  EXPECT_THAT(Run("--topology " + Path("none")).errors, HasSubstr("No such file"));
  EXPECT_EQ(Run("--topology " + Path("none")).code, 2);
  EXPECT_EQ(Run(t + "-o " + Path("no/such/folder")).code, 1);

  struct BadFile {
    std::string option;
    std::string text;
    std::string message;
  };
  for (const BadFile& bad : std::vector<BadFile>{
           {"--ranks", "[\"box0/gpu0\",\n \"box7\"]", ":2:2: a rank must be the id of a node"},
           {"--ranks", "[\"box0/nvswitch\"]", ":1:2: box0/nvswitch is not a COMPUTE"},
           {"--ranks", "[]", ":1:1: the ranks must be an array"},
           {"--ranks", "[\"box0/gpu0\"]", "at least two compute nodes"},
           {"--ranks", "[\"box0/gpu0\", \"box0/gpu0\"]", "box0/gpu0 is listed as a rank twice"},
           {"--weights", "{\"box0/gpu0\": 1}", "box0/gpu1 has no weight"},
           {"--weights", "{\"box0/gpu0\": -1}", ":1:15: a weight must be a whole number"},
           {"--weights", "{\"box0/gpu0\": 1.5}", ":1:15: a weight must be a whole number"},
           {"--weights", "[1]", ":1:1: the weights must be an object"},
           {"--weights", "{\"gpu\": 1}", ":1:2: the topology has no node \"gpu\""},
           {"--share", "{\"x--y\": 1}", ":1:2: the topology has no link"},
           {"--share", "{\"box0/gpu0--box0/nvswitch\": 2401}", "exceeds the 2400 Gbit/s"},
           {"--share", "{\"box0/gpu0--box0/nvswitch\": true}", "must be a number of Gbit/s"},
           {"--share", "{\"box0/gpu0--box0/nvswitch\": 0}", "cannot be reached from"},
           {"--share", "{\"box0/gpu0--box0/nvswitch\": 1,}", ":1:"}}) {
    const std::string file = Write("option.json", bad.text);
    const Outcome outcome = Run(t + bad.option + " " + file);
    EXPECT_NE(outcome.code, 0);
    EXPECT_THAT(outcome.errors, HasSubstr(bad.message)) << bad.text;
  }
}

TEST_F(ForestCommands, SaysWhatIsWrongWithAForest) {
  const std::string topology = Write("t.json", fabric::BuildA100({1}));
  const std::string other = Write("other.json", fabric::BuildA100({2}));
  ASSERT_EQ(Run("--topology " + topology + " --format binary -o " + Path("f")).code, 0);
  // A forest of another topology with the same nodes can be read, and is refused then.
  const Outcome bound = Run("verify --topology " + other + " " + Path("f"));
  EXPECT_EQ(bound.code, 1);
  EXPECT_THAT(bound.errors, HasSubstr("the named cut gives a bound of"));
  const JsonValue json =
      *io::ParseJson(Run("verify --json --topology " + other + " " + Path("f")).output, "output");
  EXPECT_EQ(json.Find("sound")->boolean, false);
  EXPECT_THAT(json.Find("violation")->text, HasSubstr("the named cut"));

  ASSERT_EQ(Run("--topology " + other + " --format binary -o " + Path("g")).code, 0);
  const Outcome unknown = Run("verify --topology " + topology + " " + Path("g"));
  EXPECT_EQ(unknown.code, 2);
  EXPECT_THAT(unknown.errors, HasSubstr("the topology has no node"));
  EXPECT_EQ(Run("verify --topology " + topology + " " + Path("none")).code, 2);
  EXPECT_EQ(Run("verify --topology " + topology).code, 2);

  fabric::TopologySpec failed = *fabric::BuildA100({1});
  failed.links[3].state = fabric::LinkState::kDown;
  const Outcome dead = Run("verify --topology " + Write("failed.json", failed) + " " + Path("f"));
  EXPECT_EQ(dead.code, 1);
  EXPECT_THAT(dead.errors, HasSubstr("box0/gpu3"));
  EXPECT_THAT(dead.errors, HasSubstr("where no link is UP"));
}

TEST(StageWatch, EndsTheWorkAtASignal) {
  for (const int signal : {SIGINT, SIGTERM}) {
    testing::internal::CaptureStderr();
    StageWatch watch;
    const Control control = watch.MakeControl();
    control.Report("bound", 0);
    EXPECT_FALSE(control.IsCancelled());
    ::raise(signal);
    EXPECT_TRUE(control.IsCancelled());
    control.Report("packing", 0.5);
    const StageSeconds seconds = watch.Finish();
    EXPECT_GT(seconds.bound, 0);
    EXPECT_EQ(seconds.verify, 0);
    testing::internal::GetCapturedStderr();
  }
}

}  // namespace
}  // namespace espalier::forest
