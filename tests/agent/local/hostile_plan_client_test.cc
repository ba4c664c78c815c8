// Programs that attack the socket for rank plans, without the library's client.
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/local/rank_plan_server.h"
#include "tests/agent/manual_loop.h"
#include "tests/attack/local_socket.h"
#include "tests/temporary_folder.h"

namespace espalier::agent {
namespace {

using namespace std::chrono_literals;
using attack::AskFor;
using attack::AsUser;
using attack::LocalSocket;
using attack::PlanAsk;
using attack::PlanTold;
using attack::PlanWord;

constexpr uid_t kOwner = 61'001;
constexpr uid_t kThief = 61'002;
constexpr uid_t kEngine = 61'003;
constexpr int kGiven = 10;
constexpr int kRefused = 11;
constexpr int kCutOff = 12;
constexpr int kNothing = 13;
constexpr int kNotOffloaded = 14;

class HostilePlanClient : public testing::Test {
 protected:
  void Start(RankPlanServerOptions options = {}) {
    ::chmod(folder_.path().c_str(), 0755);
    options.path = path_;
    auto server = RankPlanServer::Listen(loop_, options, metrics_);
    ASSERT_TRUE(server) << server.error().message;
    server_ = std::move(*server);
    server_->OnReport([this](const wire::CollectiveReport&) { ++reports_; });
  }
  void Serve() {
    for (int i = 0; i < 4; ++i) server_->HandleReady();
  }
  void GivePlan(std::uint32_t rank, const std::string& user = "", bool offload = true) {
    wire::RankPlan plan;
    plan.job = "train";
    plan.rank = rank;
    plan.ranks = 4;
    plan.version = 1;
    plan.program = "the program";
    plan.user = user;
    plan.offload = offload;
    server_->SetPlan(plan);
  }
  std::int64_t Count(const std::string& name) { return metrics_.MakeCounter(name, "").Value(); }
  std::int64_t Dropped() { return Count("espalier_agent_plan_reports_dropped_total"); }
  std::int64_t Refused() { return Count("espalier_agent_plan_clients_refused_total"); }

  // Returns what a program of that user gets.
  int Ask(uid_t user, const PlanAsk& ask) {
    return AsUser(
        user, [&] { return AskHere(ask); }, [this] { Serve(); });
  }
  // The same in a container, as in a pod.
  int AskInContainer(uid_t user, const PlanAsk& ask) {
    return AsUser(
        0,
        [&] {
          return ::unshare(CLONE_NEWPID) != 0 ? kNothing
                                              : AsUser(
                                                    user, [&] { return AskHere(ask); }, [] {});
        },
        [this] { Serve(); });
  }
  int AskHere(const PlanAsk& ask) const {
    const LocalSocket socket(path_);
    socket.Send(&ask, sizeof(ask));
    PlanTold told;
    if (socket.Receive(&told, sizeof(told), true) != sizeof(told)) return kCutOff;
    return MeaningOf(told);
  }
  static int MeaningOf(const PlanTold& told) {
    if (told.bytes == attack::kNotOffloadedPlan) return kNotOffloaded;
    return told.bytes == attack::kRefusedPlan ? kRefused : kGiven;
  }

  // Connects a program of that user, which sends its request and waits.
  std::unique_ptr<LocalSocket> WaitAs(uid_t user, const PlanAsk& ask) {
    EXPECT_EQ(::seteuid(user), 0);
    auto socket = std::make_unique<LocalSocket>(path_);
    EXPECT_EQ(::seteuid(0), 0);
    Serve();
    EXPECT_TRUE(socket->Send(&ask, sizeof(ask)));
    Serve();
    return socket;
  }
  // Returns what the program has received since.
  static int Told(const LocalSocket& socket) {
    PlanTold told;
    const ssize_t bytes = socket.Receive(&told, sizeof(told));
    if (bytes < 0) return kNothing;
    return bytes == sizeof(told) ? MeaningOf(told) : kCutOff;
  }

  TemporaryFolder folder_;
  const std::string path_ = folder_.path() + "/plans";
  Metrics metrics_;
  ManualLoop loop_;
  std::unique_ptr<RankPlanServer> server_;
  int reports_ = 0;
};

// A loop of reports once made the controller disconnect the whole host.
TEST_F(HostilePlanClient, CannotFloodTheControllerWithReports) {
  Start();
  GivePlan(0);
  const LocalSocket socket(path_);
  const PlanAsk ask = AskFor("train", 0);
  ASSERT_TRUE(socket.Send(&ask, sizeof(ask)));
  Serve();
  const auto flood = [&](int count) {
    const PlanWord word;
    for (int i = 0; i < count; ++i) {
      ASSERT_TRUE(socket.Send(&word, sizeof(word)));
      Serve();
    }
  };
  flood(1'000);
  EXPECT_EQ(reports_, 16) << "a burst";
  EXPECT_EQ(Dropped(), 984);
  loop_.Advance(95ms);
  flood(1'000);
  EXPECT_EQ(reports_, 25) << "one for each 10 ms";
}

TEST_F(HostilePlanClient, CannotReportForRanksWithoutAPlan) {
  Start();
  const LocalSocket socket(path_);
  const PlanAsk ask = AskFor("no-such-job", 7);
  ASSERT_TRUE(socket.Send(&ask, sizeof(ask)));
  const PlanWord word;
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(socket.Send(&word, sizeof(word)));
  for (int i = 0; i < 20; ++i) Serve();
  EXPECT_EQ(reports_, 0);
  EXPECT_EQ(Dropped(), 10);
}

// A rank plan holds the key of its job. Any local user could once get any rank plan.
TEST_F(HostilePlanClient, CannotHaveThePlanOfAnotherUser) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root to become other users";
  Start({.engine_user = kEngine});
  GivePlan(0);
  const PlanAsk ask = AskFor("train", 0);
  EXPECT_EQ(Ask(kOwner, ask), kGiven);
  EXPECT_EQ(Ask(kThief, ask), kRefused);
  EXPECT_EQ(Refused(), 1);
  EXPECT_EQ(Ask(kOwner, ask), kGiven) << "its owner may come again";
  PlanAsk in_anothers_name = ask;
  in_anothers_name.user_and_one = kOwner + 1;
  EXPECT_EQ(Ask(kThief, in_anothers_name), kCutOff);
  EXPECT_EQ(Ask(kEngine, in_anothers_name), kGiven);
  in_anothers_name.user_and_one = kThief + 1;
  EXPECT_EQ(Ask(kEngine, in_anothers_name), kRefused);
  EXPECT_EQ(Ask(0, ask), kGiven) << "root needs not be its owner";
}

// The first user to ask once got the rank, and the job's key, of another user's job.
TEST_F(HostilePlanClient, CannotHaveAnothersJobByBeingFirst) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root to become other users";
  Start({.engine_user = kEngine});
  GivePlan(0, std::to_string(kOwner));
  const PlanAsk ask = AskFor("train", 0);
  EXPECT_EQ(Ask(kThief, ask), kRefused);
  PlanAsk in_anothers_name = ask;
  in_anothers_name.user_and_one = kOwner + 1;
  EXPECT_EQ(Ask(kThief, in_anothers_name), kCutOff);
  in_anothers_name.user_and_one = kThief + 1;
  EXPECT_EQ(Ask(kEngine, in_anothers_name), kRefused) << "the engine asks for the thief";
  EXPECT_EQ(Ask(kEngine, ask), kRefused) << "the engine itself is no program of the job";
  EXPECT_EQ(Refused(), 4);
  EXPECT_EQ(Ask(kOwner, ask), kGiven);
  in_anothers_name.user_and_one = kOwner + 1;
  EXPECT_EQ(Ask(kEngine, in_anothers_name), kGiven);
  EXPECT_EQ(Ask(0, ask), kGiven);
}

TEST_F(HostilePlanClient, CannotHaveAnothersJobByWaitingForItsPlan) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root to become other users";
  Start({.engine_user = kEngine});
  const PlanAsk ask = AskFor("train", 0);
  PlanAsk for_thief = ask;
  for_thief.user_and_one = kThief + 1;
  const auto thief = WaitAs(kThief, ask);
  const auto engine = WaitAs(kEngine, for_thief);
  const auto owner = WaitAs(kOwner, ask);
  EXPECT_EQ(Told(*thief), kNothing);
  EXPECT_EQ(Told(*owner), kNothing) << "nobody owns a rank without a plan";
  GivePlan(0, std::to_string(kOwner));
  EXPECT_EQ(Told(*thief), kRefused);
  EXPECT_EQ(Told(*thief), kCutOff);
  EXPECT_EQ(Told(*engine), kRefused);
  EXPECT_EQ(Told(*owner), kGiven);
  EXPECT_EQ(Refused(), 2);
}

TEST_F(HostilePlanClient, LosesARankThatGoesToAnotherUser) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root to become other users";
  Start();
  const PlanAsk ask = AskFor("train", 0);
  const auto first = WaitAs(kThief, ask);
  const auto second = WaitAs(kOwner, ask);
  GivePlan(0);
  EXPECT_EQ(Told(*first), kGiven) << "a plan that names nobody goes to who was first";
  EXPECT_EQ(Told(*second), kRefused);
  GivePlan(0, std::to_string(kOwner));
  EXPECT_EQ(Told(*first), kRefused);
  EXPECT_EQ(Ask(kThief, ask), kRefused);
  EXPECT_EQ(Ask(kOwner, ask), kGiven);
}

// The system looks a name up, which may take long. Until then no program gets the rank plan.
TEST_F(HostilePlanClient, GetsNothingWhileAUserIsLookedUp) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root to become other users";
  std::function<void()> answer;
  RankPlanServerOptions options;
  options.background = [&](std::function<void()> work, std::function<void()> done) {
    answer = [work = std::move(work), done = std::move(done)] {
      work();
      done();
    };
  };
  options.look_up_user = [](const std::string& name) {
    return name == "alice" ? std::optional<uid_t>(kOwner) : std::nullopt;
  };
  Start(options);
  GivePlan(0, "alice");
  const auto thief = WaitAs(kThief, AskFor("train", 0));
  const auto owner = WaitAs(kOwner, AskFor("train", 0));
  const PlanWord word;
  ASSERT_TRUE(thief->Send(&word, sizeof(word)));
  Serve();
  EXPECT_EQ(reports_, 0);
  EXPECT_EQ(Dropped(), 1);
  EXPECT_EQ(Told(*thief), kNothing);
  EXPECT_EQ(Told(*owner), kNothing);
  ASSERT_TRUE(answer);
  answer();
  EXPECT_EQ(Told(*thief), kRefused);
  EXPECT_EQ(Told(*owner), kGiven);
}

TEST_F(HostilePlanClient, CannotHaveTheJobOfAnUnknownUserNorFloodTheDirectory) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root to become other users";
  int look_ups = 0;
  std::optional<uid_t> alice;
  RankPlanServerOptions options;
  options.look_up_user = [&](const std::string&) {
    ++look_ups;
    return alice;
  };
  Start(options);
  GivePlan(0, "alice");
  const PlanAsk ask = AskFor("train", 0);
  for (int i = 0; i < 20; ++i) {
    const auto thief = WaitAs(kThief, ask);
    loop_.Advance(10ms);
    EXPECT_EQ(Told(*thief), kRefused);
  }
  EXPECT_EQ(look_ups, 1);
  EXPECT_EQ(Ask(0, ask), kGiven);
  alice = kOwner;  // the user is made
  loop_.Advance(JobUsers::kAskAgain);
  const auto owner = WaitAs(kOwner, ask);
  loop_.Advance(10ms);
  EXPECT_EQ(Told(*owner), kGiven);
  EXPECT_EQ(look_ups, 2);
}

// The engine once got the key of every job, and so did whoever took it over.
TEST_F(HostilePlanClient, CannotHaveJobsThatDoNotUseTheEngineFromIt) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root to become other users";
  Start({.engine_user = kEngine});
  GivePlan(0, "", false);
  PlanAsk ask = AskFor("train", 0);
  ask.user_and_one = kOwner + 1;
  EXPECT_EQ(Ask(kEngine, ask), kNotOffloaded);
  ask.user_and_one = 0 + 1;
  EXPECT_EQ(Ask(kEngine, ask), kNotOffloaded) << "root's rights are not lent";
  GivePlan(0, std::to_string(kOwner), true);
  EXPECT_EQ(Ask(kEngine, ask), kRefused) << "root's programs are another user's";
  ask.user_and_one = kOwner + 1;
  EXPECT_EQ(Ask(kEngine, ask), kGiven);
}

// Root of a pod without any capability once got every plan, and a pod with the engine's number,
// too.
TEST_F(HostilePlanClient, HasNoRightsByItsNumberInAContainer) {
  if (!attack::CanMakeNamespaces()) GTEST_SKIP() << "no namespaces here";
  Start({.engine_user = kEngine});
  GivePlan(0, std::to_string(kOwner));
  const PlanAsk ask = AskFor("train", 0);
  PlanAsk in_anothers_name = ask;
  in_anothers_name.user_and_one = kOwner + 1;
  EXPECT_EQ(AskInContainer(0, ask), kRefused);
  EXPECT_EQ(AskInContainer(0, in_anothers_name), kCutOff);
  EXPECT_EQ(AskInContainer(kEngine, in_anothers_name), kCutOff);
  EXPECT_EQ(Ask(0, ask), kGiven) << "root of the host";
  EXPECT_EQ(Ask(kEngine, in_anothers_name), kGiven) << "the host's engine";
}

// Containers may run as any user id.
TEST_F(HostilePlanClient, CannotHaveAnotherContainersRankByTheSameNumber) {
  if (!attack::CanMakeNamespaces()) GTEST_SKIP() << "no namespaces here";
  Start({.engine_user = kEngine});
  GivePlan(0, std::to_string(kOwner));
  const PlanAsk ask = AskFor("train", 0);
  const auto owner = WaitAs(kOwner, ask);
  EXPECT_EQ(Told(*owner), kGiven);
  EXPECT_EQ(AskInContainer(kOwner, ask), kRefused);
  GivePlan(0, std::to_string(kOwner));
  EXPECT_EQ(Told(*owner), kGiven) << "it keeps the rank";
  EXPECT_EQ(AskInContainer(kOwner, ask), kRefused);
  owner->Close();
  Serve();
  EXPECT_EQ(AskInContainer(kOwner, ask), kGiven) << "the rank may move to another container";
}

TEST_F(HostilePlanClient, CannotHaveTheEngineHideItsContainer) {
  if (!attack::CanMakeNamespaces()) GTEST_SKIP() << "no namespaces here";
  Start({.engine_user = kEngine});
  GivePlan(0);
  PlanAsk ask = AskFor("train", 0);
  ask.user_and_one = kOwner + 1;
  ask.process = ::getpid();  // of the host
  const auto host = WaitAs(kEngine, ask);
  EXPECT_EQ(Told(*host), kGiven);
  const pid_t contained = ::fork();
  if (contained == 0) ::_exit(::unshare(CLONE_NEWUSER) == 0 && ::pause() != 0 ? 0 : 1);
  const std::string link = "/proc/" + std::to_string(contained) + "/uid_map";
  while (std::ifstream(link).peek() != std::ifstream::traits_type::eof()) Serve();
  ask.process = contained;
  EXPECT_EQ(Ask(kEngine, ask), kRefused);
  ask.process = ::getpid();
  EXPECT_EQ(Ask(kEngine, ask), kGiven);
  ::kill(contained, SIGKILL);
  ::waitpid(contained, nullptr, 0);
}

// Two user ids once took all places.
TEST_F(HostilePlanClient, LeavesPlacesForAThirdUserWhereTwoActTogether) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root to become other users";
  Start({.max_clients = 8, .max_clients_of_user = 4});
  GivePlan(0);
  std::vector<std::unique_ptr<LocalSocket>> own;
  for (int i = 0; i < 4; ++i) {
    own.push_back(WaitAs(kThief, AskFor("other", 0)));
    own.push_back(WaitAs(kEngine, AskFor("other", 0)));
  }
  EXPECT_EQ(Refused(), 0);
  EXPECT_EQ(Ask(kOwner, AskFor("train", 0)), kGiven);
  EXPECT_EQ(Refused(), 1) << "one client gave way";
}

TEST_F(HostilePlanClient, GivesWayWhereItStaysSilent) {
  Start({.max_clients = 8, .max_clients_of_user = 8});
  GivePlan(0);
  std::vector<std::unique_ptr<LocalSocket>> silent;
  for (int i = 0; i < 100; ++i) {
    silent.push_back(std::make_unique<LocalSocket>(path_));
    Serve();
  }
  const LocalSocket honest(path_);
  const PlanAsk ask = AskFor("train", 0);
  ASSERT_TRUE(honest.Send(&ask, sizeof(ask)));
  Serve();
  PlanTold told;
  EXPECT_EQ(honest.Receive(&told, sizeof(told)), static_cast<ssize_t>(sizeof(told)));
  EXPECT_EQ(Refused(), 93);
  char byte = 0;
  EXPECT_EQ(silent.front()->Receive(&byte, 1), 0) << "the oldest was cut off";
  EXPECT_EQ(silent.back()->Receive(&byte, 1), -1) << "the newest was not";
}

TEST_F(HostilePlanClient, CannotKeepOtherUsersOut) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root to become other users";
  Start({.max_clients = 8, .max_clients_of_user = 4});
  GivePlan(0);
  std::vector<std::unique_ptr<LocalSocket>> own;
  const PlanAsk ask = AskFor("other", 0);
  for (int i = 0; i < 20; ++i) {
    own.push_back(std::make_unique<LocalSocket>(path_));
    own.back()->Send(&ask, sizeof(ask));
    Serve();
  }
  EXPECT_EQ(Refused(), 16);
  EXPECT_EQ(Ask(kOwner, AskFor("train", 0)), kGiven);
}

}  // namespace
}  // namespace espalier::agent
