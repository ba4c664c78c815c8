#include "deploy/cli/session/controller_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <thread>

#include "common/http/http.h"
#include "common/http/http_server.h"
#include "common/loop/asio_event_loop.h"
#include "controller/api/operator_api.h"
#include "tests/controller/cluster.h"
#include "tests/temporary_folder.h"

namespace espalier::cli {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr Duration kPatience = std::chrono::seconds(60);

// Names of what a simulated cluster has, from its controller's API over a real unix socket.
class ControllerNamesTest : public testing::Test {
 protected:
  ControllerNamesTest()
      : cluster_({.spines = 2, .leaves = 2, .hosts_per_leaf = 2}),
        api_(cluster_.controller(), metrics_, [] { return io::HttpResponse{}; }) {
    cluster_.ConnectAll();
  }
  ~ControllerNamesTest() override {
    loop_.Stop();
    if (thread_.joinable()) thread_.join();
  }

  void Serve(io::HttpServer::LateHandler handler) {
    auto server = io::HttpServer::Listen(loop_, session_.controller, std::move(handler));
    ASSERT_TRUE(server.has_value()) << server.error().message;
    server_ = std::move(*server);
    thread_ = std::thread([this] { loop_.Run(); });
  }
  void ServeCluster() {
    cluster_.Settle();
    Serve([this](const io::HttpRequest& request, io::HttpServer::Respond respond) {
      api_.Handle(request, std::move(respond));
      cluster_.Settle();
    });
  }
  std::vector<std::string> Ask(NameKind kind, std::string_view partial = "") const {
    return AskNames(session_, kind, partial, kPatience);
  }

  Metrics metrics_;
  controller::Cluster cluster_;
  controller::OperatorApi api_;
  TemporaryFolder folder_;
  int exit_code_ = 0;
  Session session_{exit_code_};
  io::AsioEventLoop loop_;
  std::unique_ptr<io::HttpServer> server_;
  std::thread thread_;

  void SetUp() override { session_.controller = "unix:" + folder_.path() + "/api.sock"; }
};

TEST_F(ControllerNamesTest, AreThoseOfTheRunningController) {
  cluster_.Open(0, {{.id = 5, .to = 2, .job = "train"}});
  ServeCluster();
  EXPECT_THAT(Ask(NameKind::kLink, "leaf1--"), ElementsAre("leaf1--spine0", "leaf1--spine1"));
  EXPECT_THAT(Ask(NameKind::kNode, "spine"), ElementsAre("spine0", "spine1"));
  EXPECT_THAT(Ask(NameKind::kAgent), ElementsAre("h0", "h1", "h2", "h3"));
  EXPECT_THAT(Ask(NameKind::kFlow), ElementsAre("h0:5"));
  EXPECT_THAT(Ask(NameKind::kJob), ElementsAre("train"));
  EXPECT_THAT(Ask(NameKind::kPolicy), Contains("algorithm"));
  EXPECT_THAT(Ask(NameKind::kTreeJob), IsEmpty());
  EXPECT_THAT(Ask(NameKind::kWindow), IsEmpty());
  EXPECT_THAT(Ask(NameKind::kEventKind, "agent_"), Contains("agent_up"));
  const auto started =
      Send(session_, "POST", "/api/v1/jobs/start", R"({"name": "trees", "ranks": ["h0", "h2"]})");
  ASSERT_TRUE(started.has_value());
  EXPECT_THAT(Ask(NameKind::kTreeJob), ElementsAre("trees")) << started->body;
}

TEST_F(ControllerNamesTest, LeaveOutThoseThatAShellMightRun) {
  cluster_.Open(0, {{.id = 5, .to = 2, .job = "$(touch hacked)"},
                    {.id = 6, .to = 2, .job = "-rf"},
                    {.id = 7, .to = 3, .job = "a b"},
                    {.id = 8, .to = 3, .job = "good"}});
  ServeCluster();
  EXPECT_THAT(Ask(NameKind::kJob), ElementsAre("good"));
}

TEST_F(ControllerNamesTest, ComeFromAllPages) {
  for (std::uint64_t id = 0; id < 2'500; ++id) cluster_.Open(0, {{.id = id, .to = 2}});
  ServeCluster();
  EXPECT_EQ(Ask(NameKind::kFlow).size(), 2'500U);
  EXPECT_THAT(Ask(NameKind::kFlow, "h0:249"), testing::SizeIs(11));
}

TEST_F(ControllerNamesTest, AreNoneWhereNobodyAnswers) {
  testing::internal::CaptureStderr();
  EXPECT_THAT(Ask(NameKind::kLink), IsEmpty());
  session_.token_file = folder_.path() + "/none";
  EXPECT_THAT(Ask(NameKind::kLink), IsEmpty());
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST_F(ControllerNamesTest, AreNoneWhereTheAnswerIsNoList) {
  std::string body;
  Serve([&](const io::HttpRequest&, const io::HttpServer::Respond& respond) {
    respond({.body = body});
  });
  for (const char* answer : {"", "[", "7", "[]", "{}", R"({"links": 7})", R"({"links": [7, {}]})",
                             R"({"links": [{"id": ["x"]}], "next": ""})"}) {
    body = answer;
    EXPECT_THAT(Ask(NameKind::kLink), IsEmpty()) << answer;
  }
}

// A controller that takes the request and never answers.
TEST_F(ControllerNamesTest, EndWithTheLimit) {
  Serve([](const io::HttpRequest&, const io::HttpServer::Respond&) {});
  EXPECT_THAT(AskNames(session_, NameKind::kLink, "", std::chrono::milliseconds(20)), IsEmpty());
}

TEST(ControllerNames, TakesNoNameForSafeThatAShellMightRun) {
  for (const char* safe : {"leaf0--spine0", "h0:5", "job_1.b", "rack/7@east+2"}) {
    EXPECT_TRUE(IsSafeName(safe)) << safe;
  }
  for (const char* unsafe :
       {"",      "-rf", "$(id)", "`id`", "a b", "a;b",   "a\nb",     "a\tb",
        "a|b",   "a'b", "a\"b",  "a\\b", "*",   "~root", "\x1b[31m", "h\xc3\xa9",
        ":file", "a,b", "a=b",   "!!",   "{a}", "#x"}) {
    EXPECT_FALSE(IsSafeName(unsafe)) << unsafe;
  }
  EXPECT_FALSE(IsSafeName(std::string(256, 'a')));
}

}  // namespace
}  // namespace espalier::cli
