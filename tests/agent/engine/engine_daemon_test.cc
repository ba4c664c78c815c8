// Tests espalier-engine as a process: its privileges, its end, and what programs see of it.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "common/http/http_client.h"
#include "tests/attack/engine_program.h"
#include "tests/attack/raw_tcp.h"
#include "tests/temporary_folder.h"

namespace espalier::engine {
namespace {

using attack::EngineProgram;
using namespace std::chrono_literals;
using testing::HasSubstr;

class EngineDaemon : public testing::Test {
 protected:
  EngineDaemon() {
    ::chmod(folder_.path().c_str(), 0755);
    WriteConfig("network: \"127.0.0.0/8\"\n");
  }
  ~EngineDaemon() override { Kill(SIGKILL); }

  std::string Path(const std::string& name) const { return folder_.path() + "/" + name; }

  void WriteConfig(const std::string& more) {
    std::ofstream(Path("engine.conf"))
        << "agent_socket: \"" << Path("agent.sock") << "\"\nhttp: \"unix:" << Path("http.sock")
        << "\"\nlog_level: \"error\"\n"
        << more;
  }
  // Starts it with the given listening socket as descriptor 3, if there is one.
  void Start(int listener = -1) {
    process_ = ::fork();
    if (process_ == 0) {
      if (listener >= 0) {
        ::dup2(listener, 3);
        ::setenv("LISTEN_FDS", "1", 1);
        ::setenv("LISTEN_PID", std::to_string(::getpid()).c_str(), 1);
      }
      ::execl(ESPALIER_PROGRAMS "/espalier-engine", "espalier-engine", "--config",
              Path("engine.conf").c_str(), nullptr);
      ::_exit(127);
    }
    const auto deadline = std::chrono::steady_clock::now() + 60s;
    while (!io::HttpFetch("unix:" + Path("http.sock"), "GET", "/healthz", "", 10s)) {
      ASSERT_EQ(::waitpid(process_, nullptr, WNOHANG), 0) << "it has ended";
      ASSERT_LT(std::chrono::steady_clock::now(), deadline);
      std::this_thread::sleep_for(5ms);
    }
  }
  int Kill(int signal) {
    if (process_ <= 0) return 0;
    ::kill(process_, signal);
    int status = 0;
    ::waitpid(process_, &status, 0);
    process_ = 0;
    return status;
  }
  // Returns the lines of /proc/PID/status.
  std::map<std::string, std::string> Status() const {
    std::ifstream file("/proc/" + std::to_string(process_) + "/status");
    std::map<std::string, std::string> status;
    for (std::string line; std::getline(file, line);) {
      const auto colon = line.find(":\t");
      if (colon != std::string::npos) status[line.substr(0, colon)] = line.substr(colon + 2);
    }
    return status;
  }
  std::string Metric(const std::string& name) const {
    const auto answer = io::HttpFetch("unix:" + Path("http.sock"), "GET", "/metrics", "", 30s);
    std::istringstream lines(answer ? answer->body : "");
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with(name + " ")) return line.substr(name.size() + 1);
    }
    return "";
  }
  void ExpectServes() {
    EngineProgram program(Path("agent.sock.offload"));
    ASSERT_TRUE(program.is_connected());
    const auto joined = program.Join(EngineProgram::GroupOfOne(FreeStore()));
    EXPECT_EQ(joined.code, 0) << joined.words;
  }
  static std::string FreeStore() {
    static int last = 8'000 + ::getpid() % 1'000;
    return "tcp://127.0.0.1:" + std::to_string(++last);
  }

  TemporaryFolder folder_;
  pid_t process_ = 0;
};

// The engine once ran inside the agent, with the agent's capabilities.
TEST_F(EngineDaemon, HasNoPrivilegesToLose) {
  Start();
  auto status = Status();
  for (const char* set : {"CapInh", "CapPrm", "CapEff", "CapAmb"}) {
    EXPECT_EQ(status[set], "0000000000000000") << set;
  }
  EXPECT_EQ(status["NoNewPrivs"], "1");
  EXPECT_EQ(status["Seccomp"], "2");
  // Every thread has the filter, including those that serve programs.
  ExpectServes();
  EngineProgram program(Path("agent.sock.offload"));
  ASSERT_EQ(program.Join(EngineProgram::GroupOfOne(FreeStore())).code, 0);
  EXPECT_NE(Metric("espalier_engine_sessions"), "0");
}

TEST_F(EngineDaemon, BecomesTheUserOfItsConfiguration) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root becomes another user";
  WriteConfig("network: \"127.0.0.0/8\"\nuser: \"nobody\"\n");
  ::chmod(folder_.path().c_str(), 0777);  // for the socket of /metrics
  Start();
  EXPECT_THAT(Status()["Uid"], testing::Not(testing::StartsWith("0\t")));
  ExpectServes();
}

TEST_F(EngineDaemon, TellsProgramsWhenItIsKilledAndComesBack) {
  Start();
  EngineProgram program(Path("agent.sock.offload"));
  ASSERT_EQ(program.Join(EngineProgram::GroupOfOne(FreeStore())).code, 0);
  Kill(SIGKILL);
  EXPECT_EQ(program.Do({}), -1) << "the program sees that its engine has gone";
  Start();  // what the killed one left behind is no obstacle
  ExpectServes();
  EXPECT_TRUE(WIFEXITED(Kill(SIGTERM)));
}

// systemd keeps the socket while the service restarts, so that programs always find it.
TEST_F(EngineDaemon, TakesItsSocketFromSystemd) {
  const int listener = ::socket(AF_UNIX, SOCK_SEQPACKET, 0);
  sockaddr_un at = {};
  at.sun_family = AF_UNIX;
  const std::string path = Path("agent.sock.offload");
  std::memcpy(at.sun_path, path.data(), path.size());
  ASSERT_EQ(::bind(listener, reinterpret_cast<sockaddr*>(&at), sizeof(at)), 0);
  ASSERT_EQ(::listen(listener, 16), 0);
  for (int life = 0; life < 2; ++life) {
    EngineProgram early(path);
    EXPECT_TRUE(early.is_connected());
    Start(listener);
    EXPECT_EQ(early.Join(EngineProgram::GroupOfOne(FreeStore())).code, 0);
    Kill(SIGKILL);
  }
  ::close(listener);
}

// Two user ids once took all 128 ranks, with sessions that one refused request left for good.
TEST_F(EngineDaemon, ServesAThirdUserWhereTwoHaveTakenAllRanks) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root to become other users";
  Start();
  std::vector<std::unique_ptr<EngineProgram>> ranks;
  const auto add = [&](uid_t user) {
    EXPECT_EQ(::seteuid(user), 0);
    ranks.push_back(std::make_unique<EngineProgram>(Path("agent.sock.offload")));
    EXPECT_EQ(::seteuid(0), 0);
    return ranks.back().get();
  };
  for (const uid_t user : {61'001, 61'002}) {
    for (int i = 0; i < 64; ++i) {
      EXPECT_NE(add(user)->Ask({.kind = EngineProgram::kRelease}).code, -1);
    }
  }
  EXPECT_EQ(Metric("espalier_engine_sessions"), "128");
  for (int i = 0; i < 8; ++i) {
    const auto joined = add(61'003)->Join(EngineProgram::GroupOfOne(FreeStore()));
    EXPECT_EQ(joined.code, 0) << joined.words;
  }
  EXPECT_EQ(Metric("espalier_engine_sessions"), "128");
}

// What a group's store owed was nobody's memory, and a plan on another file system could stop it
// for good. Within the sandbox.
TEST_F(EngineDaemon, CountsWhatAStoreOwesAndTakesPlansFromMemoryOnly) {
  constexpr std::size_t kValue = 64 << 10;
  Start();
  const std::string store = FreeStore();
  const auto port = static_cast<std::uint16_t>(std::stoi(store.substr(store.rfind(':') + 1)));
  EngineProgram program(Path("agent.sock.offload"));
  ASSERT_EQ(program.Join(EngineProgram::GroupOfOne(store)).code, 0);
  std::vector<std::unique_ptr<attack::RawTcp>> members;
  for (int i = 0; i < 150; ++i) {
    attack::RawTcp setter(port);
    ASSERT_TRUE(setter.Receive(attack::kStoreGreetingBytes));
    setter.Send(attack::StoreRequest('s', "attack/value", std::string(kValue, 'v')));
    ASSERT_TRUE(setter.Receive(attack::kStoreAnswerBytes));
    members.push_back(std::make_unique<attack::RawTcp>(port, 2'048));
    ASSERT_TRUE(members.back()->Receive(attack::kStoreGreetingBytes));
    members.back()->Send(attack::StoreRequest('g', "attack/value"));
  }
  const double used = std::stod(Metric("espalier_engine_memory_bytes"));
  EXPECT_GT(used, 2 << 20);
  EXPECT_LT(used, 6 << 20);
  const std::string plan(4'096, '\0');
  std::ofstream(Path("plan")) << plan;
  const int file = ::open(Path("plan").c_str(), O_RDWR);
  const bool is_in_memory = ::fcntl(file, F_GET_SEALS) >= 0;  // the folder may be
  const auto refused = program.Ask({.kind = EngineProgram::kUse}, file);
  ::close(file);
  EXPECT_GT(refused.code, 0);
  EXPECT_TRUE(is_in_memory || std::strstr(refused.words, "memory file") != nullptr);
  EXPECT_TRUE(WIFEXITED(Kill(SIGTERM)));
}

TEST_F(EngineDaemon, RefusesAWrongConfigurationClearly) {
  const auto check = [&](const std::string& more) {
    WriteConfig(more);
    const std::string command =
        ESPALIER_PROGRAMS "/espalier-engine --check --config " + Path("engine.conf") + " 2>&1";
    FILE* const pipe = ::popen(command.c_str(), "r");
    std::string text(1'000, '\0');
    text.resize(std::fread(text.data(), 1, text.size(), pipe));
    const int status = ::pclose(pipe);
    return std::to_string(WEXITSTATUS(status)) + " " + text;
  };
  EXPECT_THAT(check(""), testing::StartsWith("0 "));
  EXPECT_THAT(check("network: \"10.0.0.1/8\"\n"), HasSubstr("engine.conf: network:"));
  EXPECT_THAT(check("network: \"everywhere\"\n"), testing::StartsWith("2 "));
  EXPECT_THAT(check("nonsense: 1\n"), testing::StartsWith("2 "));
}

}  // namespace
}  // namespace espalier::engine
