// Labs start, work and end.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <set>

#include "tests/deploy/lab/lab_fixture.h"

namespace espalier::lab {
namespace {

using testing::HasSubstr;

LabOptions Small() { return {.spines = 2, .leaves = 2, .hosts_per_leaf = 2}; }

std::string RunIn(const Lab& lab, const std::string& node, std::vector<std::string> argv) {
  const Result<std::string> out = lab.Run(node, std::move(argv));
  EXPECT_TRUE(out.has_value()) << out.error().message;
  return out.value_or("");
}

bool WaitForEnd(const UniqueFd& process) {
  pollfd waiting{process.get(), POLLIN, 0};
  return ::poll(&waiting, 1, 20'000) == 1;
}

UniqueFd OpenProcess(pid_t pid) {
  return UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
}

class LabFamilies : public testing::TestWithParam<bool> {};

TEST_P(LabFamilies, GivesEveryLinkEndItsAddress) {
  LabOptions options{.spines = 3, .leaves = 2, .hosts_per_leaf = 2, .ipv6 = GetParam()};
  ESPALIER_LAB_OR_SKIP(lab, options);
  const fabric::Topology& topology = lab.topology();
  ASSERT_EQ(topology.links().size(), 4U + 6U);
  const auto has_address = [&](fabric::NodeId node, const std::string& port,
                               const IpAddress& address) {
    const std::string text =
        RunIn(lab, topology.node(node).id, {"ip", "-o", "address", "show", "dev", port});
    EXPECT_THAT(text, HasSubstr(" " + address.ToString() + "/"));
  };
  for (const fabric::Link& link : topology.links()) {
    has_address(link.a, link.a_port, link.a_address);
    has_address(link.b, link.b_port, link.b_address);
  }
}

TEST_P(LabFamilies, TwoLabsWithTheSameAddressesDoNotMeet) {
  LabOptions options = Small();
  options.ipv6 = GetParam();
  ESPALIER_LAB_OR_SKIP(one, options);
  ESPALIER_LAB_OR_SKIP(two, options);
  traffic::Workload workload;
  workload.flows = {OneDatagram("h0", "h3", 50'000)};
  EXPECT_TRUE(Traffic(one, workload).flows[0].IsWhole());
  EXPECT_EQ(ReadFlowCounts(one)->size(), 1U);
  EXPECT_EQ(ReadFlowCounts(two)->size(), 0U);
  EXPECT_TRUE(Traffic(two, workload).flows[0].IsWhole());
  EXPECT_EQ(ReadFlowCounts(two)->size(), 1U);
}

INSTANTIATE_TEST_SUITE_P(Families, LabFamilies, testing::Bool(),
                         [](const auto& family) { return family.param ? "Ipv6" : "Ipv4"; });

TEST(Lab, GivesEachLeafASeedOfItsOwn) {
  ESPALIER_LAB_OR_SKIP(lab, {.spines = 1, .leaves = 4, .hosts_per_leaf = 1});
  std::set<std::string> seeds;
  for (int leaf = 0; leaf < 4; ++leaf) {
    const std::string seed = RunIn(lab, fmt::format("leaf{}", leaf),
                                   {"cat", "/proc/sys/net/ipv4/fib_multipath_hash_seed"});
    EXPECT_NE(seed, "0\n");
    seeds.insert(seed);
  }
  EXPECT_EQ(seeds.size(), 4U);
}

TEST(Lab, RefusesANameThatIsTaken) {
  ESPALIER_LAB_OR_SKIP(lab, Small());
  LabOptions again = Small();
  again.name = lab.record().options.name;
  const Result<Lab> second = Lab::Start(again);
  ASSERT_FALSE(second.has_value());
  EXPECT_EQ(second.error().code, ErrorCode::kAlreadyExists);
  EXPECT_THAT(second.error().message, HasSubstr(again.name));
  EXPECT_TRUE(Lab::Find(again.name).has_value());  // the first lab still runs
}

TEST(Lab, KnowsNoLabOrNodeThatThereIsNot) {
  EXPECT_EQ(Lab::Find("no-such-lab").error().code, ErrorCode::kNotFound);
  EXPECT_EQ(Lab::Stop("no-such-lab").error().code, ErrorCode::kNotFound);
  ESPALIER_LAB_OR_SKIP(lab, Small());
  for (const char* node : {"h4", "leaf2", "spine9", "", "../h0"}) {
    const Result<Command> command = lab.MakeCommand(node, {"true"});
    ASSERT_FALSE(command.has_value()) << node;
    EXPECT_EQ(command.error().code, ErrorCode::kNotFound);
  }
}

TEST(Lab, StopEndsItsProcessesAndLeavesNothing) {
  ESPALIER_LAB_OR_SKIP(lab, Small());
  LabOptions options = Small();
  options.name = lab.record().options.name + "-stopped";
  std::string folder;
  UniqueFd holder;
  {
    const Result<Lab> stopped = Lab::Start(options);
    ASSERT_TRUE(stopped.has_value()) << stopped.error().message;
    folder = std::filesystem::path(stopped->topology_file()).parent_path();
    holder = OpenProcess(stopped->record().pid);
    ASSERT_TRUE(holder);
    Result<ChildProcess> sleeper = ChildProcess::Start(*stopped->MakeCommand("h1", {"cat"}));
    ASSERT_TRUE(sleeper.has_value());
    // Once it echoes it is in the lab; before that it might not be found.
    ASSERT_TRUE(sleeper->Write("x").has_value());
    char echo = 0;
    ASSERT_EQ(::read(sleeper->output(), &echo, 1), 1);
    ASSERT_TRUE(Lab::Stop(options.name).has_value());
    EXPECT_EQ(sleeper->Wait(), 128 + SIGKILL);
  }
  EXPECT_TRUE(WaitForEnd(holder));
  EXPECT_FALSE(std::filesystem::exists(folder));
  EXPECT_EQ(Lab::Find(options.name).error().code, ErrorCode::kNotFound);
  // The other lab is unchanged.
  EXPECT_EQ(RunIn(lab, "h0", {"echo", "here"}), "here\n");
}

TEST(Lab, IsFoundDeadAfterItsHolderWasKilled) {
  LabOptions options = Small();
  options.name = fmt::format("test-killed-{}", ::getpid());
  options.die_with_caller = true;
  const Result<Lab> lab = Lab::Start(options);
  if (!lab && lab.error().code == ErrorCode::kPermissionDenied) GTEST_SKIP() << lab.error().message;
  ASSERT_TRUE(lab.has_value()) << lab.error().message;
  ::kill(lab->record().pid, SIGKILL);
  ASSERT_TRUE(WaitForEnd(OpenProcess(lab->record().pid)));
  EXPECT_EQ(Lab::Find(options.name).error().code, ErrorCode::kUnavailable);
  // The name is free again.
  const Result<Lab> again = Lab::Start(options);
  EXPECT_TRUE(again.has_value()) << again.error().message;
  EXPECT_TRUE(Lab::Stop(options.name).has_value());
}

TEST(Lab, EndsWithItsCaller) {
  LabOptions options = Small();
  options.name = fmt::format("test-orphan-{}", ::getpid());
  options.die_with_caller = true;
  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe(pipe.data()), 0);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const Result<Lab> lab = Lab::Start(options);
    const pid_t holder = lab ? lab->record().pid : -1;
    if (::write(pipe[1], &holder, sizeof holder) < 0) ::_exit(1);
    char byte = 0;
    ::_exit(static_cast<int>(::read(STDIN_FILENO, &byte, 0)));
  }
  pid_t holder = 0;
  ASSERT_EQ(::read(pipe[0], &holder, sizeof holder), static_cast<ssize_t>(sizeof holder));
  ::close(pipe[0]);
  ::close(pipe[1]);
  if (holder < 0) {
    ::waitpid(child, nullptr, 0);
    GTEST_SKIP() << "no namespaces here";
  }
  const UniqueFd process = OpenProcess(holder);  // the process may be gone already
  ::waitpid(child, nullptr, 0);
  EXPECT_TRUE(!process || WaitForEnd(process));
  EXPECT_EQ(Lab::Find(options.name).error().code, ErrorCode::kNotFound);
}

TEST(Lab, HandsOnExitCodesAndNames) {
  ESPALIER_LAB_OR_SKIP(lab, Small());
  const auto code_of = [&](std::vector<std::string> argv) {
    const Result<CommandOutput> output = RunCommand(*lab.MakeCommand("h2", std::move(argv)));
    return output ? output->exit_code : -1;
  };
  EXPECT_EQ(code_of({"true"}), 0);
  EXPECT_EQ(code_of({"sh", "-c", "exit 37"}), 37);
  EXPECT_EQ(code_of({"sh", "-c", "kill -TERM $$"}), 128 + SIGTERM);
  EXPECT_EQ(RunIn(lab, "h2", {"sh", "-c", "echo $ESPALIER_NODE $ESPALIER_AGENT_SOCKET"}),
            "h2 /run/espalier/h2.sock\n");
  const Result<CommandOutput> missing = RunCommand(*lab.MakeCommand("h2", {"no-such-program"}));
  ASSERT_FALSE(missing.has_value());
  EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
}

TEST(Lab, ReachesTheControllerUntilTheManagementLinkFails) {
  ESPALIER_LAB_OR_SKIP(lab, Small());
  const auto connect = [&] {
    // There is no listener: a refusal shows that the packet arrived and an answer came back.
    return RunCommand(*lab.MakeCommand("h3", {"bash", "-c", "exec 3<>/dev/tcp/10.255.0.1/9"}))->err;
  };
  EXPECT_THAT(connect(), HasSubstr("refused"));
  EXPECT_TRUE(FailLink(lab, "mgmt-h3", LinkEnd::kA).value());
  EXPECT_THAT(connect(), testing::Not(HasSubstr("refused")));
  EXPECT_THAT(FailedLinks(lab).value(), testing::ElementsAre("mgmt-h3"));
  EXPECT_TRUE(RestoreLink(lab, "mgmt-h3").value());
  EXPECT_THAT(connect(), HasSubstr("refused"));
}

// A user without privileges, in separate namespaces.
TEST(Lab, ComesUpWithoutRoot) {
  constexpr uid_t kNobody = 65'534;
  constexpr int kForbidden = 77;
  if (::geteuid() != 0) GTEST_SKIP() << "not root: every other test here is this one";
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::unsetenv("XDG_RUNTIME_DIR");
    if (::setgid(kNobody) != 0 || ::setuid(kNobody) != 0 || ::chdir("/") != 0) ::_exit(1);
    ::prctl(PR_SET_DUMPABLE, 1);  // as for a process that started as this user
    LabOptions options = Small();
    options.name = fmt::format("test-rootless-{}", ::getpid());
    options.die_with_caller = true;
    options.link_rate = BitsPerSecond{50'000'000};
    const Result<Lab> lab = Lab::Start(options);
    if (!lab) {
      fmt::print(stderr, "{}\n", lab.error().message);
      ::_exit(lab.error().code == ErrorCode::kPermissionDenied ? kForbidden : 2);
    }
    const Result<std::string> sent =
        lab->Run("h0", {"bash", "-c", "echo x >/dev/udp/10.1.0.1/4791"});
    const auto counts = ReadFlowCounts(*lab);
    const bool good = sent && counts && counts->size() == 1 && FailLink(*lab, "leaf0--spine0") &&
                      RestoreLink(*lab, "leaf0--spine0") && Lab::Stop(options.name);
    ::_exit(good ? 0 : 3);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == kForbidden) GTEST_SKIP() << "user namespaces are forbidden here";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace espalier::lab
