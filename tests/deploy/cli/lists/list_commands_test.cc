// The lists: filters, order, forms of output, and what they show of the state.
#include "deploy/cli/lists/list_commands.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "common/files/json.h"
#include "deploy/cli/lists/list_specs.h"
#include "tests/deploy/cli/operator/operator_commands_fixture.h"

namespace espalier::cli {
namespace {

class ListCommandsTest : public OperatorCommandsTest {
 protected:
  // The first column of each row of a table.
  std::vector<std::string> FirstColumn(const std::vector<std::string>& words) {
    const Outcome outcome = Run(words);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    std::istringstream lines(outcome.out);
    std::vector<std::string> cells;
    std::string line;
    std::getline(lines, line);  // the titles
    while (std::getline(lines, line) && !line.empty())
      cells.push_back(line.substr(0, line.find(' ')));
    return cells;
  }
  void OpenFlows() {
    for (int from = 0; from < 2; ++from) {
      cluster_.Open(from, {{.id = 20, .to = 2, .job = "big"}, {.id = 9, .to = 3, .job = "big"}});
    }
    cluster_.Settle();
  }
};

TEST_F(ListCommandsTest, FlowsAreSortedFilteredAndLimited) {
  OpenFlows();
  const auto all = FirstColumn({"flows"});
  EXPECT_EQ(std::vector(all.begin(), all.begin() + 3),
            (std::vector<std::string>{"h0:5", "h0:9", "h0:20"}));
  EXPECT_EQ(FirstColumn({"flows", "--job", "big", "--host", "h1"}),
            (std::vector<std::string>{"h1:9", "h1:20"}));
  EXPECT_EQ(FirstColumn({"flows", "--job", "B*", "--sort", "-flow", "--limit", "1"}),
            (std::vector<std::string>{"h1:20"}));
  EXPECT_EQ(FirstColumn({"flows", "--job", "nobody"}), std::vector<std::string>{});
  EXPECT_EQ(FirstColumn({"flows", "--state", "routed"}), FirstColumn({"flows", "--leaf", "leaf0"}));
  EXPECT_TRUE(FirstColumn({"flows", "--down"}).empty());
  const auto json = io::ParseJson(Run({"flows", "--job", "big", "--json"}).out, "flows");
  ASSERT_TRUE(json.has_value());
  EXPECT_EQ(json->Find("flows")->items.size(), 4U);
}

TEST_F(ListCommandsTest, FlowsThatSwitchesSawAndNobodyReportsAreListed) {
  controller::SightingReport report{.source = "sflow", .window = std::chrono::seconds(4)};
  for (const int from : {0, 1}) {
    report.flows.push_back({.source = cluster_.Address(from),
                            .destination = cluster_.Address(3),
                            .protocol = 17,
                            .source_port = 51'234,
                            .destination_port = 4'791,
                            .queue_pair = 99,
                            .bps = 10'000'000'000});
  }
  ASSERT_TRUE(
      cluster_.controller().links().sightings.HandleReport(report, cluster_.controller().Now()));
  EXPECT_EQ(FirstColumn({"flows", "--unannounced"}), (std::vector<std::string>{"h0", "h1"}));
  EXPECT_EQ(FirstColumn({"flows", "--unannounced", "--host", "h1"}),
            (std::vector<std::string>{"h1"}));
  EXPECT_NE(Run({"flows", "--unannounced"}).out.find("10.0 Gbit/s"), std::string::npos);
  EXPECT_EQ(Run({"flows", "--unannounced", "--job", "big"}).exit_code, 2);
  EXPECT_EQ(Run({"flows", "--unannounced", "--ended"}).exit_code, 2);
  EXPECT_TRUE(FirstColumn({"flows", "--attested", "elsewhere"}).empty());
  EXPECT_EQ(FirstColumn({"flows", "--attested", "not_seen"}), FirstColumn({"flows"}));
}

TEST_F(ListCommandsTest, FlowsThatHaveEndedAreFoundAgain) {
  EXPECT_TRUE(FirstColumn({"flows", "--ended"}).empty());
  OpenFlows();
  cluster_.End(1, 9);
  cluster_.End(0, 5);
  cluster_.Settle();
  EXPECT_EQ(FirstColumn({"flows", "--ended"}).size(), 2U);
  const auto json = io::ParseJson(Run({"flows", "--ended", "--job", "big", "--json"}).out, "flows");
  ASSERT_TRUE(json && json->Find("flows")->items.size() == 1);
  const io::JsonValue& ended = json->Find("flows")->items[0];
  EXPECT_EQ(ended.Find("flow")->text, "h1:9");
  EXPECT_EQ(ended.Find("status")->text, "ROUTED");
  EXPECT_NE(ended.Find("via")->text, "");
  EXPECT_EQ(Run({"flows", "--ended", "--down"}).exit_code, 2);

  for (const char* name : {"h1:9", "h1>h3"}) {
    const Outcome explained = Run({"explain", name});
    EXPECT_EQ(explained.exit_code, 0) << explained.err;
    EXPECT_NE(explained.out.find("the flow has ended"), std::string::npos) << explained.out;
    EXPECT_NE(explained.out.find(ended.Find("via")->text), std::string::npos);
  }
  EXPECT_EQ(Run({"explain", "h1:10"}).exit_code, 1);
}

TEST_F(ListCommandsTest, ProbesTellWhichPathAPortTakes) {
  EXPECT_EQ(FirstColumn({"probe", "h0", "h2", "--ports", "3"}).size(), 3U);
  EXPECT_EQ(FirstColumn({"probe", "h0", "h2", "--port", "50000"}),
            std::vector<std::string>{"50000"});
  const Outcome unknown = Run({"probe", "h0", "nowhere", "--json"});
  EXPECT_EQ(unknown.exit_code, 1);
  EXPECT_NE(unknown.out.find("\"error\""), std::string::npos) << unknown.out;
  EXPECT_NE(unknown.err.find("there is no NIC or host \"nowhere\""), std::string::npos);
  EXPECT_EQ(Run({"probe", "h0", "h2", "--ports", "65"}).exit_code, 2);
  EXPECT_EQ(FirstColumn({"probe", "h0", "h2", "--ports", "2", "--port", "50000"}).size(), 2U);
}

TEST_F(ListCommandsTest, ExportsThePathsOfAPairWithWeights) {
  const auto lines = [&] {
    return Run({"paths", "export", "h0", "h2", "--ports", "8", "-o", "csv"}).out;
  };
  EXPECT_EQ(FirstColumn({"paths", "export", "h0", "h2", "--ports", "8"}).size(), 8U);
  EXPECT_NE(lines().find(",0.5,spine0"), std::string::npos) << lines();
  EXPECT_NE(lines().find(",1.0,spine1"), std::string::npos);
  ASSERT_TRUE(cluster_.ChangeNode("spine1", controller::IntentAction::kFail));
  cluster_.Settle();
  EXPECT_EQ(lines().find("spine1"), std::string::npos) << lines();
  EXPECT_NE(lines().find("spine0"), std::string::npos);
  const Outcome unknown = Run({"paths", "export", "h0", "nowhere"});
  EXPECT_EQ(unknown.exit_code, 1);
  EXPECT_NE(unknown.err.find("there is no NIC or host \"nowhere\""), std::string::npos);
  EXPECT_EQ(Run({"paths"}).exit_code, 2);
}

TEST_F(ListCommandsTest, FlowsOfALinkAreThoseOfItsPathsAndNics) {
  OpenFlows();
  EXPECT_EQ(FirstColumn({"flows", "--link", "h1--leaf0"}), FirstColumn({"flows", "--host", "h1"}));
  std::size_t over_spines = 0;
  for (const char* spine : {"0", "1"}) {
    over_spines += FirstColumn({"flows", "--link", std::string("leaf0--spine") + spine}).size();
  }
  EXPECT_EQ(over_spines, FirstColumn({"flows"}).size());
  const Outcome unknown = Run({"flows", "--link", "nowhere"});
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_NE(unknown.err.find("there is no link \"nowhere\""), std::string::npos) << unknown.err;
}

TEST_F(ListCommandsTest, LossyLinksHaveWhatTestsCounted) {
  const fabric::LinkId id = *cluster_.state().topology.FindLink("leaf1--spine1");
  cluster_.state().link_faults[id] = {.direction = {id, false},
                                      .test = {.lost = 31, .sent = 400},
                                      .siblings = {.lost = 0, .sent = 1'600},
                                      .senders = 4,
                                      .receivers = 9};
  ASSERT_EQ(Run({"drain", "link", "leaf0--spine1"}).exit_code, 0);  // applies all states
  const std::string lossy = Run({"links", "--state", "LOSSY"}).out;
  EXPECT_NE(lossy.find("spine1>leaf1 lost 31 of 400 probes, its siblings 0 of 1,600; 4 senders and "
                       "9 receivers agree\n"),
            std::string::npos)
      << lossy;
  EXPECT_EQ(FirstColumn({"links", "--state", "LOSSY"}), std::vector<std::string>{"leaf1--spine1"});
  EXPECT_EQ(Run({"links", "--state", "DRAINED"}).out.find("probes"), std::string::npos);
}

TEST_F(ListCommandsTest, LinksOfHostsComeLastAlsoWithoutFlows) {
  cluster_.End(0, 5);
  cluster_.Settle();
  const auto links = FirstColumn({"links"});
  ASSERT_EQ(links.size(), 8U);
  EXPECT_EQ(links.front(), "leaf0--spine0");
  EXPECT_EQ(links.back(), "h3--leaf1");
}

TEST_F(ListCommandsTest, LinksThatAreNotUpComeFirst) {
  EXPECT_TRUE(FirstColumn({"links", "--down"}).empty());
  Run({"drain", "node", "spine1", "--reason", "new firmware"});
  const auto down = FirstColumn({"links", "--down"});
  EXPECT_EQ(down, (std::vector<std::string>{"leaf0--spine1", "leaf1--spine1"}));
  EXPECT_EQ(FirstColumn({"links"}).front(), "leaf0--spine1");
  // A link that is drained through its node has the node's reason.
  EXPECT_NE(Run({"links", "--state", "DRAINED"}).out.find("new firmware"), std::string::npos);
  const Outcome status = Run({"status"});
  EXPECT_NE(status.out.find("out_of_service           spine1 is drained: by "), std::string::npos)
      << status.out;
  EXPECT_NE(status.out.find(", new firmware\n"), std::string::npos) << status.out;
  EXPECT_EQ(FirstColumn({"nodes", "--down"}), std::vector<std::string>{"spine1"});
  EXPECT_EQ(FirstColumn({"links", "--link", "leaf0--*"}).size(), 2U);
}

TEST_F(ListCommandsTest, NodesTellWhoseAgentIsMissing) {
  EXPECT_TRUE(FirstColumn({"nodes", "--agent", "missing"}).empty());
  cluster_.state().agents.Disconnect(*cluster_.state().agents.FindByName("h3"));
  EXPECT_EQ(FirstColumn({"nodes", "--agent", "missing"}), std::vector<std::string>{"h3"});
  EXPECT_NE(Run({"status"}).out.find("1 of 4 hosts has no agent"), std::string::npos);
  const Outcome agents = Run({"agents"});
  EXPECT_NE(agents.err.find("without an agent: 1 of 4 hosts"), std::string::npos) << agents.err;
}

TEST_F(ListCommandsTest, WhatIsNotKnownIsNoNumber) {
  const Outcome jobs = Run({"jobs"});
  EXPECT_EQ(jobs.out.find(" 0 s "), std::string::npos) << jobs.out;
  const Outcome raw = Run({"jobs", "-o", "csv"});
  EXPECT_NE(raw.out.find("allreduce_seconds"), std::string::npos) << raw.out;
  const Outcome policies = Run({"policy", "list"});
  EXPECT_NE(policies.out.find("no limit"), std::string::npos) << policies.out;
  EXPECT_EQ(policies.out.find("9223372036854775807"), std::string::npos) << policies.out;
}

TEST_F(ListCommandsTest, JobsHaveTheirFlowsAndWeights) {
  OpenFlows();
  Run({"weight", "big", "3"});
  const Outcome jobs = Run({"jobs", "--job", "big", "-o", "csv"});
  EXPECT_EQ(jobs.out.find("job,flows,"), 0U) << jobs.out;
  EXPECT_NE(jobs.out.find("\r\nbig,4,0,"), std::string::npos) << jobs.out;
  EXPECT_NE(jobs.out.find(",3,no"), std::string::npos) << jobs.out;
}

// A job that had ended once stood first under "Slowest jobs".
TEST_F(ListCommandsTest, JobsThatHaveEndedComeLast) {
  cluster_.Open(1, {{.id = 30, .to = 2, .job = "0-first-by-name"}});
  cluster_.Advance(std::chrono::milliseconds(200));
  cluster_.End(1, 30);
  cluster_.Advance(std::chrono::seconds(1));
  OpenFlows();
  EXPECT_EQ(FirstColumn({"jobs"}), (std::vector<std::string>{"A", "big", "0-first-by-name"}));
  const std::string top = Run({"top", "--once"}).out;
  EXPECT_LT(top.find("\nbig "), top.find("\n0-first-by-name ")) << top;
}

TEST_F(ListCommandsTest, EventsAreNewestFirstAndHaveATime) {
  Run({"drain", "node", "spine1"});
  Run({"undrain", "node", "spine1"});
  const Outcome events = Run({"events", "-n", "1"});
  EXPECT_NE(events.out.find("node_undrained"), std::string::npos) << events.out;
  EXPECT_EQ(std::ranges::count(events.out, '\n'), 2);
  EXPECT_EQ(FirstColumn({"events", "--kind", "node_*"}).size(), 2U);
  EXPECT_EQ(FirstColumn({"events", "--since", "2000-01-01T00:00Z"}).size(),
            FirstColumn({"events"}).size());
  EXPECT_EQ(Run({"events", "--since", "yesterday"}).exit_code, 2);
  EXPECT_NE(Run({"audit", "-n", "1"}).out.find("undrain node"), std::string::npos);
}

TEST_F(ListCommandsTest, RefusesUnknownColumnsAndNumbersOutOfRange) {
  const Outcome column = Run({"links", "--sort", "colour"});
  EXPECT_EQ(column.exit_code, 2);
  EXPECT_NE(column.err.find("the columns are LINK, GBPS"), std::string::npos) << column.err;
  EXPECT_EQ(Run({"flows", "--limit", "-1"}).exit_code, 2);
  EXPECT_EQ(Run({"flows", "--limit", "0"}).exit_code, 2);
  EXPECT_EQ(Run({"flows", "--watch", "-1"}).exit_code, 2);
  EXPECT_EQ(Run({"flows", "-o", "xml"}).exit_code, 2);
}

// Every column of every list is a member of what the controller sends.
TEST_F(ListCommandsTest, ColumnsAreThoseOfTheApi) {
  OpenFlows();
  Run({"drain", "node", "spine1", "--reason", "x"});
  for (const ListSpec& spec : ListSpecs()) {
    const auto json = io::ParseJson(Run({spec.name, "--json"}).out, spec.name);
    ASSERT_TRUE(json.has_value()) << spec.name;
    const io::JsonValue* const rows = json->Find(spec.name);
    ASSERT_NE(rows, nullptr) << spec.name;
    if (rows->items.empty()) continue;
    std::vector<Column> columns = spec.columns;
    columns.insert(columns.end(), spec.wide_columns.begin(), spec.wide_columns.end());
    for (const Column& column : columns) {
      if (column.key.find('.') != std::string::npos) continue;  // absent without such traffic
      if (column.key.ends_with("_words")) continue;             // made of other members
      EXPECT_NE(rows->items.front().Find(column.key), nullptr) << spec.name << " " << column.key;
    }
    EXPECT_EQ(Run({spec.name, "-o", "wide"}).exit_code, 0);
  }
}

TEST_F(ListCommandsTest, FiltersThatMatchNothingNameWhatThereIs) {
  OpenFlows();
  const Outcome job = Run({"flows", "--job", "nosuch"});
  EXPECT_EQ(job.exit_code, 0);
  EXPECT_EQ(job.err, "espalier: --job nosuch matches nothing (there are: A, big)\n");
  EXPECT_NE(Run({"flows", "--job", "nosuch", "--json"}).err.find("A, big"), std::string::npos);
  EXPECT_EQ(Run({"flows", "--job", "big"}).err, "");
  EXPECT_EQ(Run({"links", "--down"}).err, "espalier: no row is down\n");
  EXPECT_NE(Run({"events", "--kind", "agent_upp"}).err.find("did you mean agent_up?"),
            std::string::npos);
}

TEST_F(ListCommandsTest, UnknownStatesAndKindsAreRefused) {
  const Outcome state = Run({"flows", "--state", "bogus"});
  EXPECT_EQ(state.exit_code, 2);
  EXPECT_EQ(Run({"links", "--state", "broken"}).exit_code, 2);
  EXPECT_EQ(Run({"nodes", "--kind", "router"}).exit_code, 2);
  EXPECT_EQ(Run({"nodes", "--agent", "gone"}).exit_code, 2);
  EXPECT_EQ(Run({"links", "--state", "d*"}).exit_code, 0);
  const Outcome kind = Run({"events", "--kind", "nosuch"});
  EXPECT_EQ(kind.exit_code, 2);
  EXPECT_NE(kind.err.find("there is no kind of event \"nosuch\""), std::string::npos) << kind.err;
  EXPECT_EQ(Run({"events", "--kind", "link_lossy"}).exit_code, 0);
}

TEST_F(ListCommandsTest, PredictionsAreSentences) {
  const Outcome outcome = Run({"predict"});
  EXPECT_NE(outcome.out.find("NEXT FLOWS"), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find("not known: no rhythm was found"), std::string::npos) << outcome.out;
  EXPECT_EQ(outcome.out.find("in advance"), std::string::npos) << "of what nobody expects";
  EXPECT_EQ(Run({"predict", "-o", "csv"}).out.find("job,on,period_seconds,next_in_seconds"), 0U);
}

TEST_F(ListCommandsTest, WindowsAndIntentsAreShownInWords) {
  const Outcome added = Run({"maintenance", "add", "node", "spine1", "--until", "2h"});
  EXPECT_NE(added.out.find("maintenance m1 (drain node spine1 from 20"), std::string::npos)
      << added.out;
  for (const Outcome& intents : {Run({"intents"}), Run({"intents", "list"})}) {
    EXPECT_NE(intents.out.find("drain node spine1 from 20"), std::string::npos) << intents.out;
    EXPECT_EQ(intents.out.find("checked"), std::string::npos) << intents.out;
  }
  EXPECT_NE(Run({"intents", "-o", "csv"}).out.find("checked spine1"), std::string::npos);
  EXPECT_EQ(Run({"maintenance", "list"}).out, Run({"maintenance"}).out);
}

TEST_F(ListCommandsTest, ActionsOnUnknownJobsWarn) {
  cluster_.Open(1, {{.id = 30, .to = 2, .job = "two words"}});
  cluster_.Settle();
  EXPECT_EQ(Run({"weight", "two words", "2"}).err.find("warning"), std::string::npos);
  const std::string controller = std::exchange(address_, "unix:" + folder_.path() + "/none.sock");
  EXPECT_EQ(Run({"weight", "B", "2"}).err.find("warning"), std::string::npos) << "nobody knows";
  address_ = controller;
  const Outcome weight = Run({"weight", "B", "2"});
  EXPECT_EQ(weight.exit_code, 0);
  EXPECT_EQ(weight.err.find("warning: no job is named \"B\" now (there are: A)\n"), 0U)
      << weight.err;
  EXPECT_NE(Run({"steering", "off", "--job", "AA"}).err.find("did you mean A?"), std::string::npos);
  EXPECT_EQ(Run({"weight", "A", "2"}).err.find("warning"), std::string::npos);
}

TEST_F(ListCommandsTest, TopShowsHealthLinksAndJobs) {
  OpenFlows();
  const Outcome top = Run({"top", "--once", "--rows", "3"});
  EXPECT_EQ(top.exit_code, 0) << top.err;
  EXPECT_NE(top.out.find(": ok\n"), std::string::npos) << top.out;
  EXPECT_NE(top.out.find("Busiest links, by the last 100 ms\nLINK"), std::string::npos) << top.out;
  EXPECT_NE(top.out.find("big"), std::string::npos) << top.out;
  const auto json = io::ParseJson(Run({"top", "--once", "--json"}).out, "top");
  ASSERT_TRUE(json.has_value());
  EXPECT_FALSE(json->Find("links")->items.empty());
}

}  // namespace
}  // namespace espalier::cli
