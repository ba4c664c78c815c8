#include "deploy/cli/setup/import_commands.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <tuple>

#include "common/files/file.h"
#include "common/files/topology_file.h"
#include "controller/offline/imports/formats.h"
#include "tests/deploy/cli/run_command.h"
#include "tests/temporary_folder.h"

namespace espalier::cli {
namespace {

Outcome RunCommand(const std::string& arguments) {
  return cli::RunCommand(
      [](CLI::App& app, int& exit_code) {
        AddImportCommands(*app.add_subcommand("topology"), exit_code);
      },
      arguments);
}

class ImportCommands : public testing::Test {
 protected:
  std::string Path(const std::string& name) const { return (folder_ / name).string(); }
  std::string Write(const std::string& name, const std::string& text) const {
    EXPECT_TRUE(io::WriteFileDurably(Path(name), text).has_value());
    return Path(name);
  }

  TemporaryFolder temporary_;
  std::filesystem::path folder_ = temporary_.path();
};

const std::string kHead = "a_device,a_port,b_device,b_port\n";

TEST_F(ImportCommands, ListTheFormatsInTheHelp) {
  const Outcome help = RunCommand("topology import --help");
  EXPECT_EQ(help.code, 0);
  for (const imports::Format& format : imports::Formats()) {
    EXPECT_NE(help.output.find("\n  " + std::string(format.name) + " "), std::string::npos)
        << format.name;
  }
}

TEST_F(ImportCommands, JoinFilesAndSayWhatIsAssumedAndMissing) {
  const std::string hosts = Write("hosts.csv", kHead + "h0,eth0,b1,e1\nh1,eth0,b2,e1\n");
  const std::string more = Write("more.csv", kHead + "b1,e9,a1,e1\nb2,e9,a1,e2\n");
  const std::string rates = Write("rates.dot", "graph g { b1:e9 -- a1:e1 [speed=\"400G\"] }");
  const Outcome made =
      RunCommand("topology import csv " + hosts + " " + more + " --with dot=" + rates +
                 " --gbps 50 --switches 'a*,b*' -o " + Path("made.json"));
  ASSERT_EQ(made.code, 0) << made.errors;
  EXPECT_EQ(made.output, "");
  EXPECT_NE(made.errors.find("assumed: by their names, hosts are h0 and h1\n"), std::string::npos);
  EXPECT_NE(made.errors.find("assumed: 3 cables have 50 Gbit/s"), std::string::npos);
  EXPECT_NE(made.errors.find("missing: 2 of 2 NICs have no address"), std::string::npos);
  const auto topology = io::ReadTopologyFile(Path("made.json"));
  ASSERT_TRUE(topology.has_value()) << topology.error().message;
  EXPECT_EQ(topology->name(), "hosts");
  EXPECT_EQ(topology->link(*topology->FindLink("b1--a1")).rate.value, 400'000'000'000);
  EXPECT_EQ(topology->link(*topology->FindLink("b2--a1")).rate.value, 50'000'000'000);
}

TEST_F(ImportCommands, RefuseWrongOptionsAndContradictions) {
  const std::string file = Write("f.csv", kHead + "x,e0,leaf0,p0\n");
  const std::string other = Write("g.csv", kHead + "x,e0,leaf1,p0\n");
  const std::tuple<std::string, std::string> cases[] = {
      {"csv " + file + " --gbps fast", "--gbps: bandwidth \"fast\""},
      {"csv " + file + " --with " + other, "--with \""},
      {"csv " + file + " --with yaml=" + other, "--with \"yaml="},
      {"csv " + file + " --hosts z", "--hosts \"z\": no device has such a name"},
      {"csv " + file + " " + other,
       other + ":2:1: x:e0 leads to leaf1:p0, but to leaf0:p0 at " + file + ":2:1 (correct one)"},
      {"dot " + file, file + ":1:1: expected graph"},
  };
  for (const auto& [arguments, expected] : cases) {
    const Outcome bad = RunCommand("topology import " + arguments);
    EXPECT_EQ(bad.code, 2) << arguments;
    EXPECT_EQ(bad.output, "");
    EXPECT_TRUE(bad.errors.starts_with("espalier: " + expected)) << bad.errors;
  }
  EXPECT_EQ(RunCommand("topology import csv").code, 2);
}

TEST_F(ImportCommands, ConvertsFloodnsTopologies) {
  // Three tiers: ToRs 0 and 1, switches 2 and 3 above them, 4 above all; three servers.
  const std::string good =
      "# a comment\n\nnum_nodes=8\r\nnum_undirected_edges=9\nswitches=incl_range(0,4)\n"
      "switches_which_are_tors=set(0, 1)\nservers=set(5,6,7)\n"
      "undirected_edges=set(2:3-4,0:1-2:3,5-0,6:7-1)\nlink_data_rate_bit_per_ns=2.5\n";
  const auto import = [&](const std::string& text) {
    EXPECT_TRUE(io::WriteFileDurably(Path("t.properties"), text).has_value());
    return RunCommand("topology import floodns " + Path("t.properties"));
  };
  const Outcome made = import(good);
  ASSERT_EQ(made.code, 0) << made.errors;
  const auto topology = io::ParseTopology(made.output, "made");
  ASSERT_TRUE(topology.has_value()) << topology.error().message;
  std::string links;
  for (const fabric::Link& link : topology->links()) {
    links += link.id + " ";
    EXPECT_EQ(link.rate.value, 2'500'000'000);
  }
  EXPECT_EQ(links,
            "h0--tor0 h1--tor1 h2--tor1 tor0--spine0 tor0--spine1 tor1--spine0 tor1--spine1 "
            "spine0--core0 spine1--core0 ");
  EXPECT_EQ(topology->node(*topology->FindNode("tor1")).role, fabric::SwitchRole::kLeaf);
  EXPECT_EQ(topology->node(*topology->FindNode("spine1")).role, fabric::SwitchRole::kSpine);
  EXPECT_EQ(topology->node(*topology->FindNode("core0")).role, fabric::SwitchRole::kCore);

  const std::tuple<std::string, std::string, std::string> cases[] = {
      {"num_nodes=8", "", "1:1: the line \"num_nodes=...\" is missing"},
      {"num_nodes=8", "num_nodes=9", "7:9: node 8 is neither"},
      {"num_nodes=8", "num_nodes=x", "3:11: \"x\" is not a whole number"},
      {"num_nodes=8", "nodes", "3:1: the line is not KEY=VALUE"},
      {"num_nodes=8", "delay=3", "3:1: unknown key \"delay\""},
      {"num_nodes=8", "servers=set()", "7:1: a second line \"servers=...\""},
      {"edges=9", "edges=8", "4:22: num_undirected_edges is 8, but 9 edges"},
      {"incl_range(0,4)", "incl_range(4,0)", "5:10: incl_range takes"},
      {"incl_range(0,4)", "range(0,4)", "5:10: switches must be set(...)"},
      {"set(0, 1)", "set(0,5)", "6:25: node 5 is not a switch"},
      {"set(5,6,7)", "set(4,5,6,7)", "7:9: node 4 is listed twice"},
      {"6:7-1", "6:8-1", "8:42: \"8\" is not a whole number from 0 to 7"},
      {"6:7-1", "6:7-1,6-1", "8:46: edge 6-1 is listed twice"},
      {"6:7-1", "6-7", "8:40: servers 6 and 7 are connected"},
      {"6:7-1", "1-1", "8:40: node 1 is connected to itself"},
      {"6:7-1", "6", "8:40: an edge must be two node numbers"},
      {"ns=2.5", "ns=fast", "9:27: "},
  };
  for (const auto& [from, to, expected] : cases) {
    std::string text = good;
    text.replace(text.find(from), from.size(), to);
    const Outcome bad = import(text);
    EXPECT_EQ(bad.code, 2) << to;
    EXPECT_EQ(bad.output, "");
    EXPECT_TRUE(bad.errors.starts_with("espalier: " + Path("t.properties") + ":" + expected))
        << bad.errors << "  instead of " << expected;
  }
  EXPECT_EQ(RunCommand("topology import floodns " + Path("none")).code, 2);
  EXPECT_EQ(RunCommand("topology import").code, 2);
}

}  // namespace
}  // namespace espalier::cli
