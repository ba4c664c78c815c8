// Programs without rights against the real agent, most of them with several user ids. What a victim
// still has is seen at the real controller, or in the agent's metrics.
#include <pwd.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <cerrno>
#include <memory>

#include "tests/attack/flow_program.h"
#include "tests/attack/local_socket.h"
#include "tests/controller/daemon/daemon_fixture.h"
#include "tests/own_network.h"

namespace espalier::controller {
namespace {

using attack::AskFor;
using attack::AsUser;
using attack::FlowProgram;
using attack::LocalSocket;
using attack::PlanAsk;
using attack::PlanTold;

constexpr uid_t kFirst = 61'001;
constexpr uid_t kSecond = 61'002;
constexpr uid_t kThird = 61'003;
// Answers of the agent to a program that asks for a plan.
constexpr int kGiven = 10;
constexpr int kRefused = 11;
constexpr int kHungUp = 12;
constexpr int kNotOffloaded = 13;

class AgentUnderAttack : public Daemon {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root to become other users";
    rlimit files{};
    ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &files), 0);
    files.rlim_cur = files.rlim_max;
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &files), 0);
    if (files.rlim_cur < 8'192) GTEST_SKIP() << "needs 8192 descriptors";
    ::chmod(folder_.path().c_str(), 0755);
    std::ofstream(Path("topology.json")) << R"({"name": "two", "version": 1, "nodes": [
      {"id": "h0", "kind": "COMPUTE", "addresses": ["10.0.0.1"]},
      {"id": "h1", "kind": "COMPUTE", "addresses": ["10.0.0.2"]},
      {"id": "leaf0", "kind": "SWITCH", "role": "LEAF"},
      {"id": "leaf1", "kind": "SWITCH", "role": "LEAF"},
      {"id": "spine0", "kind": "SWITCH", "role": "SPINE"}], "links": [
      {"a": "h0", "b": "leaf0", "gbps": 100}, {"a": "h1", "b": "leaf1", "gbps": 100},
      {"a": "leaf0", "b": "spine0", "gbps": 100}, {"a": "leaf1", "b": "spine0", "gbps": 100}]})";
    WriteConfig("insecure_plaintext: true\n");
  }

  void StartAgent(const std::string& more, std::vector<std::string> within = {},
                  const std::string& name = "h1") {
    const std::string file = Path(name + ".conf");
    std::ofstream(file) << "name: \"" << name << "\" insecure_plaintext: true log_level: \"error\" "
                        << "local_socket: \"" << Path(name + ".sock")
                        << "\" http: \"unix:" << Path(name + ".http")
                        << "\" controller: \"tcp://127.0.0.1:" << bus_port_
                        << "\" engine_user: \"nobody\" " << more;
    Command command{.argv = std::move(within)};
    for (const std::string& word :
         {std::string(ESPALIER_PROGRAMS "/espalier-agent"), std::string("--config"), file}) {
      command.argv.push_back(word);
    }
    auto started = ChildProcess::Start(command);
    ASSERT_TRUE(started) << started.error().message;
    agents_.push_back(std::move(*started));
    Await("agent " + name, [&] { return !Metrics(name).empty(); });
  }
  // Of the agent under attack.
  std::string Socket() const { return Path("h1.sock"); }
  std::string Metrics(const std::string& name = "h1") const {
    auto answer = io::HttpFetch("unix:" + Path(name + ".http"), "GET", "/metrics", "", 30s);
    return answer ? answer->body : "";
  }
  std::int64_t Metric(const std::string& name) const {
    const std::string text = Metrics();
    const std::size_t at = text.find("\n" + name + " ");
    return at == std::string::npos ? -1 : std::stoll(text.substr(at + name.size() + 2));
  }
  template <typename Condition>
  void Await(const std::string& what, const Condition& holds) {
    const auto deadline = std::chrono::steady_clock::now() + 120s;
    while (!holds()) {
      ASSERT_LT(std::chrono::steady_clock::now(), deadline) << what;
      std::this_thread::sleep_for(5ms);
    }
  }
  void AwaitJob(const std::string& name) {
    Await("job " + name, [&] {
      return CallUnix("GET", "jobs?limit=1000").body.find("\"" + name + "\"") != std::string::npos;
    });
  }
  // A client at the socket for rank plans, as that user.
  std::unique_ptr<LocalSocket> AskForPlan(uid_t user, const PlanAsk& ask) const {
    EXPECT_EQ(::seteuid(user), 0);
    auto socket = std::make_unique<LocalSocket>(Socket() + ".plans");
    EXPECT_EQ(::seteuid(0), 0);
    EXPECT_TRUE(socket->Send(&ask, sizeof(ask)));
    return socket;
  }

  // What the agent's next message means.
  static int MeaningOf(const LocalSocket& socket) {
    PlanTold told;
    if (socket.Receive(&told, sizeof(told), true) != sizeof(told)) return kHungUp;
    if (told.bytes == attack::kNotOffloadedPlan) return kNotOffloaded;
    return told.bytes == attack::kRefusedPlan ? kRefused : kGiven;
  }
  // The answer to a program that runs as this user in a container.
  int AskInContainer(uid_t user, const PlanAsk& ask) const {
    const auto in_container = [&] {
      const LocalSocket socket(Socket() + ".plans");
      socket.Send(&ask, sizeof(ask));
      return MeaningOf(socket);
    };
    const auto wait = [] { std::this_thread::sleep_for(1ms); };
    return AsUser(
        0, [&] { return ::unshare(CLONE_NEWPID) != 0 ? -1 : AsUser(user, in_container, wait); },
        wait);
  }

  std::vector<ChildProcess> agents_;
};

// Two user ids took all flows of the host, and one took all elephants: another user's flow was
// unknown to the controller for good.
TEST_F(AgentUnderAttack, TwoUsersLeaveFlowsAndElephantsForAThird) {
  Start();
  StartAgent("no_probing: true");
  std::vector<std::unique_ptr<FlowProgram>> programs;
  for (const auto& [user, count] : {std::pair(kFirst, 12), std::pair(kSecond, 12)}) {
    for (int i = 0; i < count; ++i) {
      programs.push_back(std::make_unique<FlowProgram>(Socket(), user));
      ASSERT_TRUE(programs.back()->is_welcome()) << i;
      programs.back()->Open({.flags = FlowProgram::kPathFixed | FlowProgram::kAlone},
                            FlowProgram::kSlots);
    }
  }
  Await("elephants", [&] { return Metric("espalier_agent_flows_tracked") == 8'192; });
  FlowProgram honest(Socket(), kThird);
  ASSERT_TRUE(honest.is_welcome());
  honest.Open({.job = "honest"}, 1);
  AwaitJob("honest");
  EXPECT_EQ(Metric("espalier_agent_flows_tracked"), 8'192);
  for (const auto& program : programs) EXPECT_FALSE(program->IsHungUp());
}

// Two user ids took all clients of the local API and of the socket for rank plans.
TEST_F(AgentUnderAttack, TwoUsersLeaveClientsForAThird) {
  StartAgent("no_probing: true");
  std::vector<std::unique_ptr<FlowProgram>> programs;
  for (const uid_t user : {kFirst, kSecond}) {
    for (int i = 0; i < 800; ++i) {
      programs.push_back(std::make_unique<FlowProgram>(Socket(), user));
    }
  }
  EXPECT_EQ(Metric("espalier_agent_local_clients"), 1'024);
  EXPECT_EQ(FlowProgram(Socket(), kSecond).status(), EUSERS);
  const FlowProgram honest(Socket(), kThird);
  EXPECT_TRUE(honest.is_welcome());
  std::vector<std::unique_ptr<LocalSocket>> waiting;
  for (const uid_t user : {kFirst, kSecond}) {
    for (int i = 0; i < 512; ++i) waiting.push_back(AskForPlan(user, AskFor("none", 0)));
  }
  const auto third = AskForPlan(kThird, AskFor("none", 0));
  // An answer of the agent to a later client shows that it has read the request of this one.
  const PlanAsk wrong = {.magic = 0};
  char byte = 0;
  EXPECT_EQ(AskForPlan(kThird, wrong)->Receive(&byte, 1, true), 0);
  EXPECT_EQ(third->Receive(&byte, 1), -1) << "it waits for its plan";
}

// Each user of a Debian host has 65,536 subordinate ids.
TEST_F(AgentUnderAttack, SubordinateIdsAreOneUser) {
  if (!attack::CanMakeNamespaces()) GTEST_SKIP() << "no namespaces here";
  if (::access("/etc/subuid", F_OK) != 0) GTEST_SKIP() << "no /etc/subuid to replace";
  std::ofstream(Path("subuid")) << "somebody:200000:65536\n";
  const std::string script = "mount --bind " + Path("subuid") + " /etc/subuid && exec \"$@\"";
  StartAgent("no_probing: true", {"unshare", "-m", "sh", "-c", script, "sh"});
  std::vector<std::unique_ptr<FlowProgram>> programs;
  int welcome = 0;
  for (uid_t i = 0; i < 800; ++i) {
    programs.push_back(std::make_unique<FlowProgram>(Socket(), 200'000 + i));
    welcome += programs.back()->is_welcome() ? 1 : 0;
  }
  EXPECT_EQ(welcome, 768) << "the limit of one user";
  EXPECT_TRUE(FlowProgram(Socket(), kThird).is_welcome());
}

// Root of a pod got every plan and so the key of every job; the engine's number did, too.
TEST_F(AgentUnderAttack, NumbersOfUsersAreNoRightsInAContainer) {
  if (!attack::CanMakeNamespaces()) GTEST_SKIP() << "no namespaces here";
  Start();
  for (const char* name : {"h0", "h1"}) StartAgent("no_probing: true", {}, name);
  std::string answer;
  Await("the job's start", [&] {
    const auto started = io::HttpFetch(
        "unix:" + Path("api.sock"), "POST", "/api/v1/jobs/start",
        R"({"name": "train", "ranks": ["h0", "h1"], "bytes": 1000, "user": "61001"})", 60s);
    answer = started ? started->body : "";
    return started && started->status == 200;  // not before both agents are there
  });
  SCOPED_TRACE(answer);
  const PlanAsk ask = AskFor("train", 1);
  const auto owner = AskForPlan(kFirst, ask);
  EXPECT_EQ(MeaningOf(*owner), kGiven);
  EXPECT_EQ(MeaningOf(*AskForPlan(kSecond, ask)), kRefused);
  EXPECT_EQ(MeaningOf(*AskForPlan(0, ask)), kGiven) << "root of the host";
  for (const uid_t user : {uid_t{0}, kFirst})
    EXPECT_EQ(AskInContainer(user, ask), kRefused) << user;
  const passwd* const engine = ::getpwnam("nobody");
  ASSERT_NE(engine, nullptr);
  PlanAsk for_owner = ask;
  for_owner.user_and_one = kFirst + 1;
  EXPECT_EQ(AskInContainer(engine->pw_uid, for_owner), kHungUp);
  EXPECT_EQ(AskInContainer(0, for_owner), kHungUp);
  EXPECT_EQ(MeaningOf(*AskForPlan(engine->pw_uid, for_owner)), kNotOffloaded);
}

// After 300 flows from loopback addresses no probe left the NIC of the host any more.
TEST_F(AgentUnderAttack, InventedSourcesLeaveProbesForTheNic) {
  const std::string problem = EnterOwnNetwork();
  if (!problem.empty()) GTEST_SKIP() << problem;
  for (const char* command :
       {"link set lo up", "link add eth0 type veth peer name eth1", "addr add 10.0.0.2/24 dev eth0",
        "link set eth0 up", "link set eth1 up"}) {
    ASSERT_EQ(::system((std::string("ip ") + command).c_str()), 0) << command;
  }
  StartAgent("nic: \"eth0\" dead_after_ms: 20");
  {
    FlowProgram hostile(Socket(), kFirst);
    ASSERT_TRUE(hostile.is_welcome());
    for (std::uint32_t i = 0; i < 1'000; ++i) {
      const std::uint32_t source = (i % 2 == 0 ? 0x7f000100U : 0x0a090100U) + i;
      hostile.Open({.source = source,
                    .destination = i % 4 < 2 ? 0x7f000001U : 0x0a000001U,
                    .source_port = 50'000,
                    .flags = FlowProgram::kAlone,
                    .outstanding_bytes = 1 << 20});
    }
    hostile.Wake();
    Await("elephants", [&] { return Metric("espalier_agent_flows_tracked") == 250; });
  }
  Await("its end", [&] { return Metric("espalier_agent_flows_tracked") == 0; });
  const std::int64_t before = Metric("espalier_agent_probes_sent_total");
  FlowProgram honest(Socket(), kThird);
  honest.Open({.flags = 0, .outstanding_bytes = 1 << 20}, 1);
  Await("a probe", [&] { return Metric("espalier_agent_probes_sent_total") > before; });
}

}  // namespace
}  // namespace espalier::controller
