#include "deploy/cli/setup/topology_commands.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "common/files/file.h"
#include "common/files/json.h"
#include "common/files/topology_file.h"
#include "tests/deploy/cli/run_command.h"
#include "tests/temporary_folder.h"

namespace espalier::cli {
namespace {

Outcome RunCommand(const std::string& arguments) {
  return cli::RunCommand(AddTopologyCommands, arguments);
}

class TopologyCommands : public testing::Test {
 protected:
  std::string Path(const std::string& name) const { return (folder_ / name).string(); }

  TemporaryFolder temporary_;
  std::filesystem::path folder_ = temporary_.path();
};

TEST_F(TopologyCommands, PrintsAFileThatReadsBack) {
  const Outcome made = RunCommand(
      "topology make leaf-spine --spines 2 --leaves 3 --hosts-per-leaf 4 --host-gbps 0.05 "
      "--fabric-gbps 12.5");
  EXPECT_EQ(made.code, 0);
  EXPECT_EQ(made.errors, "");
  const auto topology = io::ParseTopology(made.output, "made");
  ASSERT_TRUE(topology.has_value()) << topology.error().message;
  EXPECT_EQ(topology->nodes().size(), 12U + 3 + 2);
  EXPECT_EQ(topology->link(*topology->FindLink("h0--leaf0")).rate.value, 50'000'000);
  EXPECT_EQ(topology->link(*topology->FindLink("leaf0--spine0")).rate.value, 12'500'000'000);
}

TEST_F(TopologyCommands, WritesEveryKindToAFileThatChecks) {
  for (const char* kind :
       {"leaf-spine --spines 4 --leaves 4 --hosts-per-leaf 4", "fat-tree --k 4",
        "rails --boxes 2 --rails 4 --spines 2 --nvlink-gbps 1000", "a100 --boxes 2",
        "h100 --boxes 2", "mi250 --boxes 2", "mi250-half --boxes 2",
        "ring --nodes 5 --directed --gbps 0.5", "torus --dims 2x3x4", "hypercube --dimension 4"}) {
    const std::string file = Path("fabric.json");
    const Outcome made = RunCommand(std::string("topology make ") + kind + " -o " + file);
    EXPECT_EQ(made.code, 0) << made.errors;
    EXPECT_EQ(made.output, "");
    const Outcome checked = RunCommand("topology check " + file);
    EXPECT_EQ(checked.code, 0) << checked.errors;
    EXPECT_NE(checked.output.find("the topology is valid"), std::string::npos);
  }
}

TEST_F(TopologyCommands, ShowsHowTwoFilesDiffer) {
  const std::string small = Path("small.json");
  const std::string large = Path("large.json");
  const std::string make = "topology make leaf-spine --leaves 2 --hosts-per-leaf 1 --spines ";
  ASSERT_EQ(RunCommand(make + "2 -o " + small).code, 0);
  ASSERT_EQ(RunCommand(make + "3 --host-gbps 200 -o " + large).code, 0);
  const Outcome same = RunCommand("topology diff " + small + " " + small);
  EXPECT_EQ(same.code, 0);
  EXPECT_NE(same.output.find("the same nodes and links"), std::string::npos) << same.output;
  const Outcome diff = RunCommand("topology diff " + small + " " + large);
  EXPECT_EQ(diff.code, 0) << diff.errors;
  for (const char* part : {"ADDED", "spine2", "leaf1--spine2", "RATE", "-> 200 Gbit/s"}) {
    EXPECT_NE(diff.output.find(part), std::string::npos) << part << " in " << diff.output;
  }
  const auto json =
      io::ParseJson(RunCommand("topology diff " + small + " " + large + " --json").output, "diff");
  ASSERT_TRUE(json.has_value());
  EXPECT_GE(json->Find("changes")->items.size(), 5U);
  EXPECT_EQ(RunCommand("topology diff " + small + " " + Path("none.json")).code, 2);
}

TEST_F(TopologyCommands, RefusesGridsThatCannotBeBuilt) {
  for (const char* kind : {"torus --dims 4x1", "hypercube --dimension 2x2",
                           "hypercube --dimension 40", "ring --nodes 4 --gbps -1"}) {
    EXPECT_EQ(RunCommand(std::string("topology make ") + kind).code, 2) << kind;
  }
}

TEST_F(TopologyCommands, ChecksAsOneJsonObject) {
  auto spec =
      io::ParseTopology(
          RunCommand("topology make leaf-spine --spines 2 --leaves 2 --hosts-per-leaf 1").output,
          "made")
          ->Spec();
  spec.links[0].state = fabric::LinkState::kDown;  // h0 is cut off
  spec.links[2].state = fabric::LinkState::kDrained;
  ASSERT_TRUE(io::WriteFileDurably(Path("f.json"), io::FormatTopology(spec)).has_value());
  const Outcome checked = RunCommand("topology check --json " + Path("f.json"));
  ASSERT_EQ(checked.code, 0) << checked.errors;
  const auto json = io::ParseJson(checked.output, "output");
  ASSERT_TRUE(json.has_value()) << json.error().message;
  const std::pair<const char*, const char*> expected[] = {
      {"name", "leaf-spine-2x2x1"},
      {"version", "1"},
      {"nodes", "6"},
      {"compute", "2"},
      {"nics", "0"},
      {"switches", "4"},
      {"endpoints", "2"},
      {"links", "6"},
      {"unattached_endpoints", "0"},
      {"links_up", "4"},
      {"links_down", "1"},
      {"links_drained", "1"},
      {"parts", "2"},
      {"tiers", "2"},
      {"fabric",
       "folded Clos of 2 tiers: 2 leaves and 2 spines; all links between switches have one rate"},
      {"theorem", ""},  // with a link down it depends on the flows
  };
  for (const auto& [key, value] : expected) {
    ASSERT_NE(json->Find(key), nullptr) << key;
    EXPECT_EQ(json->Find(key)->text, value) << key;
  }
}

TEST_F(TopologyCommands, SaysWhichTiersItRecognises) {
  const std::string file = Path("fabric.json");
  RunCommand("topology make fat-tree --k 4 -o " + file);
  const std::string tree = RunCommand("topology check " + file).output;
  EXPECT_NE(tree.find("  fabric                folded Clos of 3 tiers: 4 pods of 2 leaves "
                      "and 2 aggregation switches, 2 planes of 2 cores"),
            std::string::npos);
  EXPECT_NE(tree.find("  theorem               a folded Clos that is not narrower upwards: "
                      "`recompute` reaches the least maximum load\n"),
            std::string::npos)
      << tree;
  // Two leaves that are linked to each other.
  auto spec = io::ParseTopology(*io::ReadFile(file), file)->Spec();
  spec.links.push_back(
      {.a = spec.links.front().b, .b = spec.links[2].b, .rate = spec.links.front().rate});
  ASSERT_TRUE(io::WriteFileDurably(file, io::FormatTopology(spec)).has_value());
  const Outcome general = RunCommand("topology check " + file);
  EXPECT_EQ(general.code, 0) << general.errors;
  EXPECT_NE(general.output.find("  theorem               none for all flows"), std::string::npos);
  EXPECT_NE(general.output.find("general fabric, no folded Clos (link leaf0--leaf1 joins two "
                                "switches of tier 0)"),
            std::string::npos)
      << general.output;
}

TEST_F(TopologyCommands, SaysWhatChoosesAmongSeveralUplinks) {
  const std::string file = Path("pairs.json");
  ASSERT_EQ(RunCommand("topology make leaf-spine --leaves 4 --spines 4 --hosts-per-leaf 2 "
                       "--uplinks 2 -o " +
                       file)
                .code,
            0);
  const auto check = [&] { return RunCommand("topology check " + file).output; };
  const std::string hashed = check();
  EXPECT_NE(
      hashed.find(
          "two-tier Clos below which the uplinks of NICs are chosen, too: 2 groups of 2 NICs and 2 "
          "leaves, 4 spines\n"),
      std::string::npos)
      << hashed;
  EXPECT_NE(
      hashed.find("theorem               a two-tier Clos of equal bundles: `recompute` reaches"),
      std::string::npos)
      << hashed;
  EXPECT_EQ(hashed.find("several uplinks"), std::string::npos) << hashed;
  EXPECT_NE(hashed.find("unattached endpoints  0"), std::string::npos) << hashed;
  auto spec = io::ParseTopology(*io::ReadFile(file), file)->Spec();
  const auto write = [&](fabric::UplinkChoice choice) {
    for (fabric::Node& node : spec.nodes) {
      if (node.kind != fabric::NodeKind::kSwitch) node.uplink = choice;
    }
    EXPECT_TRUE(io::WriteFileDurably(file, io::FormatTopology(spec)));
  };
  write(fabric::UplinkChoice::kUnknown);
  EXPECT_NE(
      check().find("4 NICs with several uplinks (h0 to leaf0 and leaf1, h1 to leaf0 and leaf1, "
                   "h2 to leaf2 and leaf3, h3 to leaf2 and leaf3): the file does not state what "
                   "chooses the first hop"),
      std::string::npos)
      << check();
  write(fabric::UplinkChoice::kAffinity);
  EXPECT_NE(check().find("the port affinity of a queue pair chooses the first hop"),
            std::string::npos);
  write(fabric::UplinkChoice::kFixed);
  EXPECT_NE(check().find("their hosts fix the first hop"), std::string::npos);
  EXPECT_NE(check().find("unattached endpoints  4"), std::string::npos);
  write(fabric::UplinkChoice::kHash);
  spec.links.front().rate.value /= 2;
  write(fabric::UplinkChoice::kHash);
  EXPECT_NE(check().find("uplinks of h0 differ in rate"), std::string::npos) << check();
  fabric::Link twin = spec.links[1];
  twin.id = "h0--leaf1#2";
  twin.a_address = twin.b_address = IpAddress();
  spec.links.push_back(twin);
  write(fabric::UplinkChoice::kHash);
  EXPECT_NE(check().find("several uplinks of h0 join one switch"), std::string::npos) << check();
  spec.links.pop_back();
  spec.links.back().members = 4;
  write(fabric::UplinkChoice::kHash);
  EXPECT_NE(check().find("1 link of several members (leaf3--spine3 of 4)"), std::string::npos)
      << check();
}

TEST_F(TopologyCommands, SaysWhatAFabricLacksForSteering) {
  const auto gaps_of = [&](const std::string& text) {
    EXPECT_TRUE(io::WriteFileDurably(Path("gaps.json"), text));
    return RunCommand("topology check " + Path("gaps.json")).output;
  };
  EXPECT_NE(gaps_of(R"({"name": "e", "version": 1, "nodes": [], "links": []})")
                .find("there is nothing to steer"),
            std::string::npos);
  const std::string nodes = R"("nodes": [{"id": "h0", "kind": "COMPUTE"},
      {"id": "h1", "kind": "COMPUTE"}, {"id": "l0", "kind": "SWITCH", "role": "LEAF"},
      {"id": "l1", "kind": "SWITCH", "role": "LEAF"},
      {"id": "s", "kind": "SWITCH", "role": "SPINE"}])";
  const std::string thin = gaps_of(R"({"name": "thin", "version": 1, )" + nodes + R"(, "links": [
      {"a": "h0", "b": "l0", "gbps": 400}, {"a": "h1", "b": "l1", "gbps": 400},
      {"a": "l0", "b": "s", "gbps": 100}, {"a": "l1", "b": "s", "gbps": 100}]})");
  for (const char* gap : {"2 of 2 NICs have no address", "4 of 4 switch ends of links",
                          "l0 has 1 uplink, so that", "l0 is oversubscribed 4 to 1"}) {
    EXPECT_NE(thin.find(gap), std::string::npos) << thin;
  }
  // One more uplink of l0, and addresses at every end.
  const std::string uneven =
      gaps_of(R"({"name": "uneven", "version": 1, )" + nodes + R"(, "links": [
      {"a": "h0", "b": "l0", "gbps": 100, "a_address": "10.0.0.1", "b_address": "10.0.0.2"},
      {"a": "h1", "b": "l1", "gbps": 100, "a_address": "10.0.0.3", "b_address": "10.0.0.4"},
      {"a": "l0", "b": "s", "gbps": 100, "a_address": "10.0.1.1", "b_address": "10.0.1.2"},
      {"a": "l0", "b": "s", "gbps": 100, "a_address": "10.0.1.5", "b_address": "10.0.1.6"},
      {"a": "l1", "b": "s", "gbps": 100, "a_address": "10.0.1.3", "b_address": "10.0.1.4"}]})");
  EXPECT_EQ(uneven.find("no address"), std::string::npos) << uneven;
  EXPECT_EQ(uneven.find("oversubscribed"), std::string::npos) << uneven;
  EXPECT_NE(uneven.find("leaves differ: l1 has 1 uplinks, l0 has 2"), std::string::npos) << uneven;
}

TEST_F(TopologyCommands, TellsBadInputFromFailure) {
  ASSERT_TRUE(io::WriteFileDurably(Path("bad.json"), "{\n \"nodes\": 1}").has_value());
  const Outcome bad = RunCommand("topology check " + Path("bad.json"));
  EXPECT_EQ(bad.code, 2);
  EXPECT_EQ(bad.output, "");
  EXPECT_TRUE(bad.errors.starts_with("espalier: " + Path("bad.json") + ":2:11: ")) << bad.errors;
  EXPECT_EQ(RunCommand("topology check " + Path("none.json")).code, 2);
  EXPECT_EQ(RunCommand("topology check").code, 2);
  EXPECT_EQ(RunCommand("topology").code, 2);
  EXPECT_EQ(RunCommand("topology make ring").code, 2);
  EXPECT_EQ(RunCommand("topology make fat-tree --k 3").code, 2);
  EXPECT_EQ(RunCommand("topology make leaf-spine --spines 4 --leaves 4").code, 2);
  EXPECT_EQ(RunCommand("topology make rails --boxes 0").code, 2);
  const Outcome rate = RunCommand("topology make fat-tree --k 4 --host-gbps fast");
  EXPECT_EQ(rate.code, 2);
  EXPECT_TRUE(rate.errors.starts_with("espalier: --host-gbps: bandwidth")) << rate.errors;
  EXPECT_EQ(RunCommand("topology make fat-tree --k 4 -o " + Path("no/such/folder")).code, 1);
}

}  // namespace
}  // namespace espalier::cli
