#include "controller/telemetry/polls/poller.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "common/fabric/builders.h"
#include "common/http/http.h"
#include "common/http/http_server.h"
#include "controller/telemetry/polls/state_reports.h"
#include "tests/common/loop/asio_harness.h"
#include "tests/temporary_folder.h"

namespace espalier::telemetry {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

// Fake switches, polled as the daemon does it, and a fake controller that keeps what is reported.
class PollerTest : public testing::Test {
 protected:
  static fabric::Topology MakeTopology() {
    fabric::TopologySpec spec = *fabric::BuildLeafSpine({});
    for (fabric::Link& link : spec.links) {
      link.a_port = "to-" + spec.nodes[link.b.Index()].id;
      link.b_port = "to-" + spec.nodes[link.a.Index()].id;
    }
    return *fabric::Topology::Build(spec);
  }
  // Ends reports and commands in progress, for which the others would wait.
  void TearDown() override {
    controller_.reset();
    std::ofstream(folder_.path() + "/over");
  }

  std::unique_ptr<io::HttpServer> Serve(std::function<io::HttpResponse(const io::HttpRequest&)> f) {
    return io::HttpServer::Listen(loop_, "127.0.0.1:0", io::HttpServer::Handler(std::move(f)))
        .value();
  }
  void AddPoll(const std::string& node, const std::string& reader, const std::string& target) {
    polls_.push_back({.node = *topology_.FindNode(node),
                      .reader = FindPortReader(reader),
                      .target = ParsePollTarget(SplitWords(target).value()).value(),
                      .ports = {}});
  }
  // A command that prints the contents of a file.
  std::string Printing(const std::string& text) {
    const std::string path = folder_.path() + "/answer" + std::to_string(polls_.size());
    std::ofstream(path) << text;
    return "cat " + path;
  }
  // Runs until this holds. Calls what the daemon calls twice a second more often.
  bool RunUntil(const std::function<bool()>& holds) {
    if (!switches_) {
      switches_ = std::make_unique<PolledSwitches>(
          topology_, polls_, PolledSwitches::Options{kInterval, kInterval}, metrics_, loop_.Now());
      states_ = std::make_unique<StateReports>(feed_, topology_, switches_->links(), metrics_);
      poller_ = std::make_unique<Poller>(
          loop_, *switches_, Poller::Options{.interval = kInterval, .timeout = timeout_, .seed = 7},
          [this] { states_->Send(); });
    }
    return io::RunUntil(loop_, [&] {
      switches_->Tick(loop_.Now());
      states_->Send();
      return holds();
    });
  }
  const PolledSwitches::Source& Source(std::size_t poll) { return switches_->SourceOf(poll); }
  std::size_t SourcesThatFailed(std::uint64_t times) {
    std::size_t failed = 0;
    for (std::size_t i = 0; i < polls_.size(); ++i) failed += Source(i).failures >= times ? 1 : 0;
    return failed;
  }
  // Runs until so many more answers are read.
  bool RunForAnswers(std::size_t poll, std::uint64_t more) {
    const std::uint64_t before = Source(poll).answers;
    return RunUntil([&] { return Source(poll).answers >= before + more; });
  }

  static constexpr Duration kInterval = 200ms;  // of which three are a long time for a slow machine
  Duration timeout_ = 30s;
  const TemporaryFolder folder_;
  const fabric::Topology topology_ = MakeTopology();
  Metrics metrics_;
  io::AsioEventLoop loop_;
  std::vector<std::string> reports_;
  int controller_status_ = 200;
  std::unique_ptr<io::HttpServer> controller_ = Serve([this](const io::HttpRequest& request) {
    if (controller_status_ == 200) reports_.push_back(request.body);
    return io::HttpResponse{controller_status_, "application/json", "{}"};
  });
  ControllerFeed feed_{
      loop_, topology_, {.controller = controller_->address(), .source = "telemetry"}, metrics_};
  std::vector<Poll> polls_;
  std::unique_ptr<PolledSwitches> switches_;
  std::unique_ptr<StateReports> states_;
  std::unique_ptr<Poller> poller_;
};

constexpr const char* kUp = "node_network_carrier{device=\"to-spine0\"} 1\n";
constexpr const char* kDown = "node_network_carrier{device=\"to-spine0\"} 0\n";

TEST_F(PollerTest, ReportsThatALinkDiesAndReturns) {
  std::string text = kUp;
  std::string path;
  const auto exporter = Serve([&](const io::HttpRequest& request) {
    path = request.path;
    return io::HttpResponse{200, "text/plain", text};
  });
  AddPoll("leaf0", "prometheus", "http://" + exporter->address());
  ASSERT_TRUE(RunUntil([&] { return reports_.size() == 1; }));
  EXPECT_EQ(path, "/metrics");
  EXPECT_EQ(reports_[0], "{\"link\":\"leaf0--spine0\",\"up\":true,\"source\":\"telemetry\"}\n");
  text = kDown;
  ASSERT_TRUE(RunUntil([&] { return reports_.size() == 2; }));
  EXPECT_EQ(reports_[1], "{\"link\":\"leaf0--spine0\",\"up\":false,\"source\":\"telemetry\"}\n");
  ASSERT_TRUE(RunForAnswers(0, 3));
  EXPECT_EQ(reports_.size(), 2U) << "nothing is reported twice";
  text = kUp;
  ASSERT_TRUE(RunUntil([&] { return reports_.size() == 3; }));
  EXPECT_THAT(reports_[2], HasSubstr("\"up\":true"));
}

TEST_F(PollerTest, ReportsAgainWhatTheControllerDidNotAnswer) {
  controller_status_ = 503;
  AddPoll("leaf0", "frr", Printing(R"({"to-spine0": {"operationalStatus": "down"}})"));
  ASSERT_TRUE(RunUntil([&] { return !feed_.problem().empty(); }));
  EXPECT_TRUE(reports_.empty());
  controller_status_ = 200;
  ASSERT_TRUE(RunUntil([&] { return !reports_.empty(); }));
  EXPECT_THAT(reports_[0], HasSubstr("\"up\":false"));
}

TEST_F(PollerTest, ASwitchThatFallsSilentAndReturnsIsNeverDown) {
  int status = 200;
  const auto exporter = Serve([&](const io::HttpRequest&) {
    return io::HttpResponse{status, "text/plain", status == 200 ? kUp : ""};
  });
  AddPoll("leaf0", "prometheus", "http://" + exporter->address() + "/ports?collect[]=netclass");
  ASSERT_TRUE(RunUntil([&] { return reports_.size() == 1; }));
  status = 500;
  ASSERT_TRUE(RunUntil([&] { return Source(0).is_silent; }));
  EXPECT_EQ(switches_->links().Of(*topology_.FindLink("leaf0--spine0")), PortState::kUnknown);
  EXPECT_THAT(Source(0).problem, HasSubstr("status 500"));
  status = 200;
  ASSERT_TRUE(RunUntil([&] { return !Source(0).is_silent; }));
  EXPECT_EQ(switches_->links().Of(*topology_.FindLink("leaf0--spine0")), PortState::kUp);
  EXPECT_EQ(reports_.size(), 1U);
}

TEST_F(PollerTest, SlowSwitchesDoNotDelayOthers) {
  // Each fails twice at once, and from then on hangs until the test ends.
  const std::string hang =
      "sh -c \"if test -e {0}/twice{1}; then while ! test -e {0}/over; do sleep 0.05; done; fi; "
      "test -e {0}/once{1} && touch {0}/twice{1}; touch {0}/once{1}; exit 1\"";
  constexpr std::size_t kSlow = 2 * (Poller::kPromptWorkers + Poller::kSlowWorkers);
  for (std::size_t i = 0; i < kSlow; ++i) {
    AddPoll("spine0", "ports", fmt::format(fmt::runtime(hang), folder_.path(), i));
  }
  AddPoll("leaf0", "ports", Printing(R"({"ports": [{"name": "to-spine0", "state": "up"}]})"));
  timeout_ = 10min;
  ASSERT_TRUE(RunUntil([&] { return SourcesThatFailed(Poller::kSlowAfter) == kSlow; }));
  ASSERT_TRUE(RunForAnswers(kSlow, 10));
  for (std::size_t i = 0; i < kSlow; ++i) EXPECT_EQ(Source(i).failures, 2U);
}

TEST_F(PollerTest, ACommandThatHangsIsEnded) {
  AddPoll("leaf0", "ports", "sleep 1000");
  timeout_ = 50ms;
  ASSERT_TRUE(RunUntil([&] { return Source(0).failures >= 2; }));
  EXPECT_THAT(Source(0).problem, HasSubstr("sleep: not done after 50 ms"));
}

TEST_F(PollerTest, WhatCommandsPrintIsBoundedAndPrintable) {
  AddPoll("leaf0", "ports", "cat /dev/zero");
  AddPoll("leaf0", "ports", "sh -c \"printf 'a\\033[2J\\n' >&2; exit 3\"");
  AddPoll("leaf0", "frr", Printing("{\"a\x1b\": 1"));
  AddPoll("leaf0", "frr", "/no/such/program");
  const auto flood = Serve([&](const io::HttpRequest&) {
    return io::HttpResponse{200, "text/plain", std::string(PortReader::kMostBytes + 1, 'x')};
  });
  AddPoll("leaf0", "prometheus", "http://" + flood->address());
  ASSERT_TRUE(RunUntil([&] { return SourcesThatFailed(1) == polls_.size(); }));
  EXPECT_THAT(Source(0).problem, HasSubstr("prints more than 4194304 bytes"));
  EXPECT_THAT(Source(1).problem, HasSubstr("exit code 3: a?[2J?"));
  EXPECT_THAT(Source(2).problem, HasSubstr("answer:1:"));
  EXPECT_THAT(Source(3).problem, HasSubstr("/no/such/program"));
  EXPECT_THAT(Source(4).problem, HasSubstr("body limit exceeded"));
  for (std::size_t i = 0; i < polls_.size(); ++i) {
    EXPECT_EQ(Source(i).answers, 0U);
    for (const char c : Source(i).problem) EXPECT_TRUE(c >= ' ' && c <= '~') << i;
  }
  EXPECT_TRUE(reports_.empty());
}

TEST(PollTarget, IsAUrlOrTheWordsOfACommand) {
  const auto parse = [](const std::string& text) {
    return ParsePollTarget(SplitWords(text).value());
  };
  EXPECT_EQ(parse("http://10.0.0.1:9100")->path, "/metrics");
  EXPECT_EQ(parse("https://leaf0:9100/a?b=c")->address, "https://leaf0:9100");
  EXPECT_EQ(parse("https://[fd00::1]:9100/a?b=c")->path, "/a?b=c");
  EXPECT_THAT(parse("ssh leaf0 \"vtysh -c 'show interface json'\" ''")->argv,
              testing::ElementsAre("ssh", "leaf0", "vtysh -c 'show interface json'", ""));
  for (const char* wrong : {"", "''", "http://10.0.0.1", "http://:9100", "http://a:0/x",
                            "http://a:99999/", "http://a:9100/ b", "https://"}) {
    EXPECT_FALSE(parse(wrong)) << wrong;
  }
  EXPECT_FALSE(SplitWords("a 'b"));
}

}  // namespace
}  // namespace espalier::telemetry
