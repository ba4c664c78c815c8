#include "deploy/cli/forest/forest_commands.h"
#include "tests/deploy/cli/forest/forest_commands_fixture.h"

namespace espalier::forest {
namespace {

TEST_F(ForestCommands, PrintsTheFiguresOfTheContract) {
  const std::string topology = Write("t.json", fabric::BuildA100({4}));
  const JsonValue forest = Json(Run("--topology " + topology));
  EXPECT_EQ(TextOf(forest, "collective"), "allgather");
  EXPECT_EQ(TextOf(forest, "compute_nodes"), "32");
  EXPECT_EQ(TextOf(forest, "method"), "hierarchical");
  // 3/25 per GB/s and 266.67 GB/s in the literature.
  EXPECT_EQ(TextOf(forest, "bound", "inverse_rate"), "3/200");
  EXPECT_EQ(TextOf(forest, "bound", "algbw_gbps"), "6400/3");
  EXPECT_EQ(TextOf(forest, "achieved", "inverse_rate"), "3/200");
  EXPECT_EQ(TextOf(forest, "achieved", "fraction_of_bound"), "1");
  EXPECT_EQ(TextOf(forest, "trees_per_root"), "1");
  EXPECT_EQ(TextOf(forest, "tree_gbps"), "200/3");
  EXPECT_EQ(TextOf(forest, "height", "max"), "2");
  EXPECT_EQ(TextOf(forest, "unroutable_edges"), "0");
  ASSERT_EQ(forest.Find("trees")->items.size(), 32U);
  const JsonValue& tree = forest.Find("trees")->items[0];
  EXPECT_EQ(TextOf(tree, "root"), "box0/gpu0");
  EXPECT_EQ(TextOf(tree, "count"), "1");
  EXPECT_EQ(tree.Find("edges")->items.size(), 31U);
  for (const char* stage : {"bound", "switch_removal", "packing", "height", "verify"}) {
    EXPECT_NE(TextOf(forest, "seconds", stage), "(none)") << stage;
  }
}

TEST_F(ForestCommands, ServesEveryCollectiveInBothFormats) {
  const std::string boxes = Write("boxes.json", fabric::BuildA100({2}));
  const std::string ring = Write("ring.json", fabric::BuildRing({.nodes = 5, .directed = true}));
  for (const char* collective :
       {"allgather", "reduce-scatter", "allreduce", "broadcast --root ", "reduce --root "}) {
    for (const auto& [topology, root] : {std::pair(boxes, "box1/gpu2"), std::pair(ring, "n3")}) {
      std::string options = std::string("--collective ") + collective;
      if (options.ends_with(" ")) options += root;
      const JsonValue forest = Make(topology, options);
      EXPECT_EQ(TextOf(forest, "achieved", "fraction_of_bound"), "1") << options;
      for (const JsonValue& tree : forest.Find("trees")->items) {
        EXPECT_TRUE(!options.ends_with(root) || TextOf(tree, "root") == root) << options;
      }
      const Outcome binary = Run("--topology " + topology + " " + options +
                                 " --format binary --json -o " + Path("binary"));
      EXPECT_EQ(TextOf(Json(binary), "achieved", "inverse_rate"),
                TextOf(forest, "achieved", "inverse_rate"));
      EXPECT_EQ(Run("verify --topology " + topology + " " + Path("binary")).code, 0);
      const JsonValue shown =
          Json(Run("show --format json --topology " + topology + " " + Path("binary")));
      EXPECT_EQ(shown.Find("trees")->items.size(), forest.Find("trees")->items.size());
    }
  }
}

// On one-way links, the trees of a reduction are not those of a broadcast reversed.
TEST_F(ForestCommands, ReducesAlongOneWayLinks) {
  const std::string ring = Write("ring.json", fabric::BuildRing({.nodes = 4, .directed = true}));
  for (const char* collective : {"reduce-scatter", "allreduce"}) {
    const JsonValue forest = Make(ring, std::string("--collective ") + collective);
    std::set<std::string> phases;
    for (const JsonValue& tree : forest.Find("trees")->items) {
      phases.insert(TextOf(tree, "phase"));
      for (const JsonValue& edge : tree.Find("edges")->items) {
        const int from = TextOf(edge, "from")[1] - '0';
        EXPECT_EQ(TextOf(edge, "to"), "n" + std::to_string((from + 1) % 4));
      }
    }
    EXPECT_EQ(phases.size(), std::string_view(collective) == "allreduce" ? 2U : 1U);
  }
  EXPECT_EQ(TextOf(Make(ring, "--collective allreduce"), "achieved", "algbw_gbps"), "2/3");
}

TEST_F(ForestCommands, TakesASubsetOfTheRanks) {
  const std::string topology = Write("t.json", fabric::BuildA100({2}));
  const std::string ranks = Write("ranks.json", "[\"box0/gpu0\", \"box1/gpu4\", \"box1/gpu0\"]");
  const JsonValue forest = Make(topology, "--ranks " + ranks);
  EXPECT_EQ(TextOf(forest, "compute_nodes"), "3");
  EXPECT_EQ(forest.Find("ranks")->items[1].text, "box1/gpu4");
  // Into box 0 come two shards over one NIC of 200 Gbit/s.
  EXPECT_EQ(TextOf(forest, "bound", "inverse_rate"), "1/100");
  for (const JsonValue& tree : forest.Find("trees")->items) {
    EXPECT_EQ(tree.Find("edges")->items.size(), 2U);
  }
  EXPECT_EQ(
      Run("--topology " + topology + " --collective broadcast --root box0/gpu1 --ranks " + ranks)
          .code,
      2);
}

TEST_F(ForestCommands, TakesWeightsWithZeros) {
  const std::string topology = WriteNetwork("t.json", 3, 1, {"c0 s0 10", "c1 s0 10", "c2 s0 10"});
  const std::string weights = Write("w.json", "{\"c0\": 4, \"c1\": 0, \"c2\": 2}");
  const JsonValue forest = Make(topology, "--weights " + weights);
  // Shards of 2 and 1; three units into c1 at 10 Gbit/s.
  EXPECT_EQ(TextOf(forest, "bound", "inverse_rate"), "3/10");
  EXPECT_EQ(TextOf(forest, "achieved", "algbw_gbps"), "10");
  std::map<std::string, int> trees;
  for (const JsonValue& tree : forest.Find("trees")->items) {
    trees[TextOf(tree, "root")] += std::stoi(TextOf(tree, "count"));
  }
  EXPECT_EQ(trees.count("c1"), 0U);
  EXPECT_EQ(trees["c0"], 2 * trees["c2"]);
  EXPECT_EQ(forest.Find("weights")->items[0].text, "2");
}

TEST_F(ForestCommands, KeepsToAShareOfTheLinks) {
  const std::string topology =
      Write("t.json", fabric::BuildLeafSpine({.spines = 2, .leaves = 2, .hosts_per_leaf = 2}));
  const std::string both = Write("both.json", "{\"h0--leaf0\": 50, \"leaf0--spine0\": \"0\"}");
  const JsonValue halved = Make(topology, "--share " + both, "--share " + both);
  EXPECT_EQ(TextOf(halved, "bound", "inverse_rate"), "3/50");
  EXPECT_EQ(TextOf(halved, "achieved", "fraction_of_bound"), "1");
  EXPECT_EQ(halved.Find("share")->boolean, true);
  for (const JsonValue& tree : halved.Find("trees")->items) {
    for (const JsonValue& edge : tree.Find("edges")->items) {
      for (const JsonValue& node : edge.Find("path")->items) EXPECT_NE(node.text, "spine0");
    }
  }
  // Without --share, only the full bandwidth of links is checked; a smaller share is violated.
  EXPECT_EQ(Run("verify --topology " + topology + " " + Path("made")).code, 0);
  const std::string less = Write("less.json", "{\"h0--leaf0\": 49.999}");
  const Outcome broken =
      Run("verify --topology " + topology + " --share " + less + " " + Path("made"));
  EXPECT_EQ(broken.code, 1);
  EXPECT_THAT(broken.errors, HasSubstr("49.999 Gbit/s"));
}

// What one direction lacks the other may not use, but the bound is that of the links as they are.
TEST_F(ForestCommands, TellsTheBoundOfAShareThatIsOutOfBalance) {
  const std::string topology = Write("t.json", fabric::BuildA100({1}));
  const std::string up = Write("up.json", "{\"box0/gpu0--box0/nvswitch>box0/nvswitch\": 1200}");
  const std::string down = Write("down.json", "{\"box0/gpu0--box0/nvswitch>box0/gpu0\": 1200}");
  for (const char* collective : {"allgather", "reduce-scatter", "allreduce"}) {
    for (const std::string& share : {up, down}) {
      const std::string options = "--share " + share + " --collective " + collective;
      const JsonValue forest = Make(topology, options, "--share " + share);
      // Eight shards, seven of them over the narrow direction; or one, which does not limit.
      const bool limits = std::string_view(collective) == "allreduce" ||
                          (std::string_view(collective) == "allgather") == (share == down);
      EXPECT_EQ(TextOf(forest, "bound", "inverse_rate"), limits ? "7/1200" : "7/2400") << options;
    }
  }
}

TEST_F(ForestCommands, FixesOrLimitsTheNumberOfTrees) {
  const std::string topology = Write("t.json", fabric::BuildMi250({2}));
  const JsonValue three = Make(topology, "--trees-per-root 3");
  EXPECT_EQ(TextOf(three, "trees_per_root"), "3");
  EXPECT_EQ(TextOf(three, "achieved", "inverse_rate"), "7/600");  // 7/25 / 3 per GB/s
  EXPECT_EQ(TextOf(three, "achieved", "fraction_of_bound"), "1125/1162");
  const JsonValue limited = Make(topology, "--max-trees-per-root 4");
  EXPECT_EQ(TextOf(limited, "trees_per_root"), "3");
  const JsonValue free = Make(topology, "--max-trees-per-root 1000");
  EXPECT_EQ(TextOf(free, "trees_per_root"), "83");
  EXPECT_EQ(TextOf(free, "achieved", "fraction_of_bound"), "1");
  EXPECT_EQ(Run("--topology " + topology + " --trees-per-root 2 --max-trees-per-root 2").code, 2);
  EXPECT_EQ(Run("--topology " + topology + " --trees-per-root 0").code, 2);
  EXPECT_EQ(Run("--topology " + topology + " --max-trees-per-root -1").code, 2);
  const Outcome many = Run("--topology " + topology + " --trees-per-root 4611686018427387904");
  EXPECT_EQ(many.code, 1);
  EXPECT_THAT(many.errors, HasSubstr("62 bits"));
}

TEST_F(ForestCommands, SummarisesForPeople) {
  const std::string topology = Write("t.json", fabric::BuildA100({4}));
  const Outcome made = Run("--topology " + topology + " --format summary");
  EXPECT_EQ(made.code, 0);
  for (const char* line :
       {"allgather over 32 ranks", "2133.33 Gbit/s (inverse rate 3/200)", "100 % of the bound",
        "into 8 ranks: box0/gpu0", "1 per root and unit of weight, 66.6667 Gbit/s each",
        "2 at most", "0 of them on paths that ECMP cannot take"}) {
    EXPECT_THAT(made.output, HasSubstr(line));
  }
  EXPECT_THAT(made.output, testing::ContainsRegex("NIC to LEAF +200 +32 +0 +100.0 % +100.0 %"));
  ASSERT_EQ(Run("--topology " + topology + " --format binary -o " + Path("f")).code, 0);
  EXPECT_EQ(Run("show --topology " + topology + " " + Path("f")).output, made.output);
}

TEST_F(ForestCommands, DrawsATree) {
  const std::string topology = Write("t.json", fabric::BuildA100({1}));
  const Outcome dot = Run("--topology " + topology + " --format dot --tree 3");
  EXPECT_EQ(dot.code, 0) << dot.errors;
  EXPECT_THAT(dot.output, StartsWith("digraph tree3 {"));
  EXPECT_THAT(dot.output, HasSubstr("\"box0/gpu3\" [shape=box]"));
  EXPECT_THAT(dot.output, HasSubstr("[label=\"box0/nvswitch\"]"));
  std::size_t edges = 0;
  for (std::size_t at = 0; (at = dot.output.find(" -> ", at)) != std::string::npos; ++at) ++edges;
  EXPECT_EQ(edges, 7U);
  const Outcome none = Run("--topology " + topology + " --format dot --tree 8");
  EXPECT_EQ(none.code, 2);
  EXPECT_THAT(none.errors, HasSubstr("the classes of trees are 0 to 7"));
}

TEST_F(ForestCommands, WritesPrograms) {
  const std::string topology = Write("t.json", fabric::BuildA100({1}));
  const std::string allreduce = "--topology " + topology + " --collective allreduce --format ";
  const JsonValue program = Json(Run(allreduce + "program"));
  EXPECT_EQ(program.Find("collective")->Find("kind")->text, "allreduce");
  EXPECT_EQ(program.Find("ranks")->items.size(), 8U);
  const Outcome xml = Run(allreduce + "msccl-xml");
  EXPECT_EQ(xml.code, 0) << xml.errors;
  EXPECT_THAT(xml.output, StartsWith("<algo name=\"forest-allreduce\""));
  const JsonValue plan = Json(Run(allreduce + "mscclpp-json"));
  EXPECT_EQ(plan.Find("collective")->text, "allreduce");
  EXPECT_EQ(plan.Find("gpus")->items.size(), 8U);
}

TEST_F(ForestCommands, LeavesStructureAsideWhereAskedTo) {
  const std::string topology =
      Write("t.json", fabric::BuildTorus(std::vector{3, 3}, BitsPerSecond{1'000'000'000}));
  EXPECT_EQ(TextOf(Make(topology, ""), "method"), "labels");
  const JsonValue general = Make(topology, "--no-symmetry");
  EXPECT_EQ(TextOf(general, "method"), "general");
  EXPECT_EQ(TextOf(general, "achieved", "fraction_of_bound"), "1");
}

TEST_F(ForestCommands, ProvesAnAllreduce) {
  const std::string boxes = Write("boxes.json", fabric::BuildA100({4}));
  const JsonValue optimal = Make(boxes, "--collective allreduce --prove");
  EXPECT_EQ(TextOf(optimal, "achieved", "algbw_gbps"), "3200/3");
  EXPECT_EQ(TextOf(optimal, "proof", "best_algbw_gbps"), "3200/3");
  EXPECT_EQ(TextOf(optimal, "proof", "parts"), "4");
  EXPECT_FALSE(optimal.Find("proof")->Find("better_possible")->boolean);

  const std::string star = WriteNetwork("star.json", 3, 1, {"c0 s0 10", "c1 s0 10", "c2 s0 1"});
  const Outcome better =
      Run("--collective allreduce --prove --format summary --json --topology " + star);
  const JsonValue figures = Json(better);
  EXPECT_TRUE(figures.Find("proof")->Find("better_possible")->boolean);
  EXPECT_FALSE(figures.Find("proof")->Find("exact")->boolean);
  EXPECT_NEAR(std::stod(TextOf(figures, "proof", "best_algbw_gbps")), 1.0, 1e-6);
  EXPECT_THAT(better.errors, HasSubstr("an allreduce of 1 Gbit/s is possible, 33.33 % more"));
  EXPECT_EQ(Run("--prove --topology " + star).code, 2);
}

TEST_F(ForestCommands, LetsSwitchesCopyAndAddUp) {
  // A tree of two leaves and a spine, 100 each way: a tree of the forest enters every leaf once.
  fabric::TopologySpec spec =
      *fabric::BuildLeafSpine({.spines = 1, .leaves = 2, .hosts_per_leaf = 4});
  for (fabric::Node& node : spec.nodes) {
    node.multicast = node.role == fabric::SwitchRole::kLeaf;
    node.reduce = node.multicast;
  }
  const std::string topology = Write("t.json", spec);
  for (const char* collective : {"allgather", "reduce-scatter", "allreduce"}) {
    const bool both = std::string_view(collective) == "allreduce";
    const std::string options = std::string("--multicast --collective ") + collective;
    const JsonValue forest = Make(topology, options);
    EXPECT_EQ(TextOf(forest, "achieved", "fraction_of_bound"), "1");
    std::size_t copied = 0;
    for (const JsonValue& tree : forest.Find("trees")->items) {
      for (const JsonValue& edge : tree.Find("edges")->items) {
        const JsonValue* at = edge.Find("copied_at");
        if (at == nullptr) at = edge.Find("added_at");
        copied += at != nullptr ? 1 : 0;
        EXPECT_TRUE(at == nullptr || at->text.starts_with("leaf"));
      }
    }
    // 7 edges a tree, and only the first begins at a rank.
    EXPECT_EQ(copied, both ? 96U : 48U) << collective;
    const Outcome binary =
        Run("--topology " + topology + " " + options + " --format binary -o " + Path("binary"));
    EXPECT_EQ(binary.code, 0) << binary.errors;
    EXPECT_EQ(Run("verify --topology " + topology + " " + Path("binary")).code, 0);
    const Outcome shown = Run("show --topology " + topology + " " + Path("binary"));
    EXPECT_THAT(shown.output, HasSubstr("traffic with copies in switches"));
    const JsonValue figures =
        Json(Run("show --json --topology " + topology + " " + Path("binary")));
    std::map<std::string, std::pair<std::string, std::string>> savings;
    for (const JsonValue& saving : figures.Find("savings")->items) {
      savings[TextOf(saving, "from") + " to " + TextOf(saving, "to")] = {TextOf(saving, "before"),
                                                                         TextOf(saving, "after")};
    }
    using Counts = std::pair<std::string, std::string>;
    if (both) continue;
    // Every rank takes 7 shards in (sends 7), whoever copies (adds up); each tree uses one rank's
    // link the other way.
    const bool down = std::string_view(collective) == "allgather";
    EXPECT_EQ(savings[down ? "LEAF to COMPUTE" : "COMPUTE to LEAF"], Counts("56", "56"));
    EXPECT_EQ(savings[down ? "COMPUTE to LEAF" : "LEAF to COMPUTE"], Counts("56", "8"));
    EXPECT_EQ(savings["LEAF to SPINE"], Counts("8", "8"));
  }
  // Without capable switches, nothing is saved.
  const std::string plain =
      Write("p.json", fabric::BuildLeafSpine({.spines = 1, .leaves = 2, .hosts_per_leaf = 4}));
  const JsonValue figures = Json(Run("--multicast --format summary --json --topology " + plain));
  for (const JsonValue& saving : figures.Find("savings")->items) {
    EXPECT_EQ(TextOf(saving, "before"), TextOf(saving, "after"));
  }
}

TEST_F(ForestCommands, FindsCopiesThatTheTreesDoNotMake) {
  fabric::TopologySpec spec =
      *fabric::BuildLeafSpine({.spines = 1, .leaves = 2, .hosts_per_leaf = 4});
  for (fabric::Node& node : spec.nodes) node.multicast = node.role == fabric::SwitchRole::kLeaf;
  const std::string topology = Write("t.json", spec);
  const std::string verify = "verify --topology " + topology + " ";
  const Outcome made = Run("--topology " + topology + " --multicast");
  ASSERT_EQ(made.code, 0) << made.errors;
  const auto check = [&](const std::string& text) {
    return Run(verify + Write("forest.json", text));
  };
  EXPECT_EQ(check(made.output).code, 0);
  const std::size_t key = made.output.find("\"copied_at\"");
  const std::size_t leaf = made.output.find("leaf", key);
  std::string elsewhere = made.output;
  elsewhere[leaf + 4] = elsewhere[leaf + 4] == '0' ? '1' : '0';
  const Outcome wrong = check(elsewhere);
  EXPECT_EQ(wrong.code, 1);
  EXPECT_THAT(wrong.errors, HasSubstr("is copied or added up at leaf"));
  std::string nowhere = made.output;
  const std::size_t comma = nowhere.rfind(',', key);
  nowhere.erase(comma, nowhere.find('}', key) - comma);
  EXPECT_EQ(check(nowhere).code, 1);
}

TEST_F(ForestCommands, KeepsTreesOfThePreviousForest) {
  auto spec = fabric::BuildA100({4});
  const std::string before = Write("before.json", spec);
  ASSERT_EQ(Run("--topology " + before + " --format binary -o " + Path("old")).code, 0);
  const std::string previous = "--previous " + Path("old") + " ";
  const JsonValue same = Json(Run("--topology " + before + " --format summary --json " + previous));
  EXPECT_EQ(TextOf(same, "kept", "share"), "1");

  for (fabric::Link& link : spec->links) {
    const bool at_nic = spec->nodes[link.a.Index()].id == "box0/nic0" ||
                        spec->nodes[link.b.Index()].id == "box0/nic0";
    if (at_nic) link.state = fabric::LinkState::kDown;
  }
  const std::string after = Write("after.json", spec);
  const std::string fresh = TextOf(Make(after, ""), "achieved", "inverse_rate");
  EXPECT_EQ(TextOf(Make(after, previous), "achieved", "inverse_rate"), fresh);
  const JsonValue kept = Json(Run("--topology " + after + " --format summary --json " + previous));
  EXPECT_EQ(TextOf(kept, "kept", "trees"), "196");
  EXPECT_EQ(TextOf(kept, "kept", "of"), "224");
  EXPECT_EQ(TextOf(kept, "kept", "share"), "7/8");
  EXPECT_THAT(Run("--topology " + after + " --format summary " + previous).output,
              HasSubstr("trees are previous ones"));

  // Without the last box, the topology lacks nodes that the forest names.
  spec = fabric::BuildA100({3});
  const std::string smaller = Write("smaller.json", spec);
  const Outcome unknown = Run("--topology " + smaller + " " + previous);
  EXPECT_EQ(unknown.code, 2);
  EXPECT_THAT(unknown.errors, HasSubstr("no node"));
  Make(smaller, previous + "--previous-topology " + before);
  EXPECT_EQ(Run("--topology " + after + " --previous-topology " + before).code, 2);
}

}  // namespace
}  // namespace espalier::forest
