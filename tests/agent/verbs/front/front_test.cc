// Programs with the front and the engine, fake copies of libibverbs, and a real local API.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <future>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/agent/local/local_api_fixture.h"

namespace espalier::agent {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const std::string kFakes = ESPALIER_FAKES;
const std::string kReach = ESPALIER_REACH;
constexpr std::uint16_t kPort = 0xC123;
constexpr const char* kSteered = "label 291\n";  // of that port
constexpr const char* kUnsteered = "label 0\n";
const std::string kPreload = "LD_PRELOAD=" + kReach + "/libespalier-verbs.so";

std::string OutputOf(const std::string& command) {
  std::FILE* const pipe = popen((command + " 2>&1; echo exit $?").c_str(), "re");
  EXPECT_NE(pipe, nullptr);
  std::string output;
  std::array<char, 4096> part{};
  for (std::size_t size = 0; (size = std::fread(part.data(), 1, part.size(), pipe)) > 0;) {
    output.append(part.data(), size);
  }
  pclose(pipe);
  return output;
}

// The output as if no port had been chosen.
std::string WithoutPorts(std::string output) {
  for (std::size_t at = 0; (at = output.find(kSteered)) != std::string::npos;) {
    output.replace(at, std::string(kSteered).size(), kUnsteered);
  }
  return output;
}

// A copy of libibverbs as of one release of rdma-core, for programs without one of their own.
class Front : public LocalApi, public ::testing::WithParamInterface<int> {
 protected:
  // Runs a program without the front and with it, and expects that there is no other difference
  // than ports. Returns what it prints with it.
  std::string Run(const std::string& variables, const std::string& program,
                  const std::string& path_before = "") {
    const std::string at = kFakes + "/" + Release();
    const std::string without = OutputOf("env LD_LIBRARY_PATH=" + at + ":" + kFakes + "/users " +
                                         kFakes + "/front_program_" + program);
    auto running = std::async(std::launch::async, [&] {
      return OutputOf("env " + variables + " LD_LIBRARY_PATH=" + path_before + at + ":" + kFakes +
                      "/users ESPALIER_AGENT_SOCKET=" + path_ +
                      " ESPALIER_VERBS_WAIT_MS=60000 ESPALIER_VERBS_ANNOUNCE_BYTES=1048576 " +
                      kFakes + "/front_program_" + program);
    });
    while (running.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
      pollfd ready{server_->fd(), POLLIN, 0};
      poll(&ready, 1, 1);
      Turn();
      for (const FlowSample& flow : server_->Flows()) Choose(flow);
    }
    const std::string with = running.get();
    EXPECT_EQ(WithoutPorts(with), without);
    return with;
  }
  std::string Release() const { return std::to_string(GetParam()); }

  std::string folder() const { return folder_; }

 private:
  void Choose(const FlowSample& flow) {
    if (!chosen_.insert(flow.id).second) return;
    wire::PathSet set;
    set.flow = flow.id;
    set.paths.push_back({.source_port = kPort, .encoding = {}});
    ASSERT_TRUE(server_->Apply(set));
  }
  std::set<wire::LocalFlowId> chosen_;
};
INSTANTIATE_TEST_SUITE_P(Releases, Front, ::testing::Values(28, 44, 65), [](const auto& release) {
  return "Rdmacore" + std::to_string(release.param);
});

TEST_P(Front, SteersProgramsThatAreLinked) {
  EXPECT_THAT(Run(kPreload, "linked linked"), HasSubstr("copy " + Release() + " " + kSteered));
}

TEST_P(Front, SteersProgramsThatOpenTheLibrary) {
  for (const char* const how : {"nccl", "nvshmem"}) {
    EXPECT_THAT(Run(kPreload, std::string("unlinked ") + how),
                HasSubstr("copy " + Release() + " " + kSteered));
  }
}

TEST_P(Front, SteersProgramsThatUnloadTheLibraryAndOpenItAgain) {
  EXPECT_THAT(Run(kPreload, "unlinked nccl nvshmem nccl"), Not(HasSubstr(kUnsteered)));
  EXPECT_THAT(Run("A=b", "unlinked nccl nccl nccl", kReach + ":"), Not(HasSubstr(kUnsteered)));
}

// Also with LD_PRELOAD, so that there are two fronts in the program.
TEST_P(Front, SteersByTheFolderAndByNcclsVariable) {
  const std::string nccl = "NCCL_IBVERBS_LIB=" + kReach + "/libibverbs.so";
  for (const std::string& also : {std::string(), kPreload + " "}) {
    EXPECT_THAT(Run(also, "unlinked nccl", kReach + ":"), HasSubstr(kSteered));
    EXPECT_THAT(Run(also + nccl, "unlinked nccl"), HasSubstr(kSteered));
    EXPECT_THAT(Run(also + nccl, "linked linked nccl"), HasSubstr(kSteered));
  }
}

TEST_P(Front, SteersNcclWhoseVariableNamesTheFrontThatIsLoaded) {
  EXPECT_THAT(Run(kPreload + " NCCL_IBVERBS_LIB=libespalier-verbs.so", "unlinked nccl"),
              HasSubstr(kSteered));
}

// The fake ends the program if one copy gets an object of another.
TEST_P(Front, SteersSeveralCopiesInOneProgram) {
  // A program that is linked with libibverbs has its functions everywhere.
  EXPECT_THAT(Run(kPreload, "linked linked own-copy nccl"), Not(HasSubstr("renamed")));
  const std::string output = Run(kPreload, "unlinked own-copy nccl own-copy nvshmem own-copy");
  EXPECT_THAT(output, HasSubstr(std::string("copy renamed ") + kSteered));
  EXPECT_THAT(output, HasSubstr("copy " + Release() + " " + kSteered));
  EXPECT_THAT(output, Not(HasSubstr(kUnsteered)));
}

TEST_P(Front, LeavesSearchPathsAndErrorsOfTheCaller) {
  const std::string output = Run(kPreload, "unlinked own-file missing");
  EXPECT_THAT(output, HasSubstr("own file 7\n"));
  EXPECT_THAT(output, HasSubstr("missing 1 libno-such-library.so: "));
}

// Only the caller's own search path has this copy, so the program gets it and is not steered.
TEST(FrontWithSearchPath, LeavesTheCallerItsPrivateCopy) {
  const std::string command =
      " LD_LIBRARY_PATH=" + kFakes + "/users " + kFakes + "/front_program_unlinked private";
  EXPECT_THAT(OutputOf("env " + kPreload + command), HasSubstr("own file 40\n"));
  EXPECT_EQ(OutputOf("env " + kPreload + command), OutputOf("env" + command));
}

TEST_P(Front, KeepsItsOrderAmongLibrariesThatReplaceTheSameFunctions) {
  const std::string other = kFakes + "/libinterposer.so";
  const std::string front = kReach + "/libespalier-verbs.so";
  const std::string alone =
      OutputOf("env LD_LIBRARY_PATH=" + kFakes + "/" + Release() + " LD_PRELOAD=" + other + " " +
               kFakes + "/front_program_linked linked");
  ASSERT_THAT(alone, HasSubstr("interposed\n"));
  for (const std::string& order : {other + ":" + front, front + ":" + other}) {
    const std::string with = OutputOf("env LD_LIBRARY_PATH=" + kFakes + "/" + Release() +
                                      " ESPALIER_AGENT_SOCKET=/nonexistent LD_PRELOAD=" + order +
                                      " " + kFakes + "/front_program_linked linked");
    EXPECT_EQ(with, alone);
  }
}

TEST_P(Front, OutlivesThreadsForksAndClosedDescriptors) {
  EXPECT_THAT(Run(kPreload, "linked threads linked fork linked closeall linked fork threads"),
              HasSubstr("failures 0\n"));
}

TEST_P(Front, IsSwitchedOff) {
  EXPECT_THAT(Run("ESPALIER_VERBS=off " + kPreload, "linked linked nccl"),
              Not(HasSubstr(kSteered)));
  std::filesystem::copy(kReach, folder() + "/reach");
  std::ofstream(folder() + "/reach/off");
  EXPECT_THAT(Run("LD_PRELOAD=" + folder() + "/reach/libespalier-verbs.so", "linked linked nccl"),
              Not(HasSubstr(kSteered)));
}

// A copy of the folder in which something is wrong.
TEST_P(Front, PassesCallsOnWithoutTheEngine) {
  namespace fs = std::filesystem;
  const std::string reach = folder() + "/reach";
  const std::string engine = reach + "/libespalier-engine.so";
  const std::string preload = "LD_PRELOAD=" + reach + "/libespalier-verbs.so";
  fs::copy(kReach, reach);
  fs::remove(engine);
  EXPECT_THAT(Run(preload, "linked linked nccl own-copy fork"), Not(HasSubstr(kSteered)));
  std::ofstream(engine) << "not a library\n";
  EXPECT_THAT(Run(preload, "linked linked nccl"), Not(HasSubstr(kSteered)));
  fs::copy(kFakes + "/strange/libespalier-engine.so", engine, fs::copy_options::overwrite_existing);
  EXPECT_THAT(Run(preload, "linked linked nccl"), Not(HasSubstr(kSteered)));
  fs::copy(kFakes + "/libinterposer.so", engine, fs::copy_options::overwrite_existing);
  EXPECT_THAT(Run(preload, "linked linked nccl"), Not(HasSubstr(kSteered)));
  fs::remove(reach + "/libibverbs.so");
  EXPECT_THAT(Run(preload, "linked linked nccl"), Not(HasSubstr(kSteered)));
  // Where it is asked for, the reason is printed, once.
  const std::string output =
      OutputOf("env LD_LIBRARY_PATH=" + kFakes + "/" + Release() + " ESPALIER_VERBS_VERBOSE=1 " +
               preload + " " + kFakes + "/front_program_linked linked linked");
  const std::string reason = "espalier-verbs: libespalier-engine.so beside the front";
  EXPECT_THAT(output, HasSubstr(reason));
  EXPECT_EQ(output.find(reason), output.rfind(reason));
}

TEST_P(Front, FindsItsFolderBehindALink) {
  std::filesystem::create_symlink(kReach + "/libespalier-verbs.so", folder() + "/front.so");
  EXPECT_THAT(Run("LD_PRELOAD=" + folder() + "/front.so", "linked linked nccl"),
              HasSubstr(kSteered));
}

TEST(FrontFiles, NeedNothingThatAProcessMayLack) {
  for (const char* const file : {"libespalier-verbs.so", "libibverbs.so"}) {
    const std::string path = kReach + "/" + file;
    const std::string dynamic = OutputOf("readelf -dW " + path);
    EXPECT_THAT(dynamic, HasSubstr("SONAME")) << file;
    EXPECT_THAT(dynamic, Not(HasSubstr("(VERNEED)"))) << file;
    EXPECT_THAT(dynamic, Not(HasSubstr("(INIT"))) << file;
    EXPECT_THAT(dynamic, Not(HasSubstr("(TEXTREL)"))) << file;
    EXPECT_THAT(dynamic, HasSubstr("NODELETE")) << file;
    EXPECT_THAT(OutputOf("nm -D --undefined-only " + path), Not(HasSubstr(" U "))) << file;
  }
  const auto needed = [](const char* file) {
    return OutputOf("readelf -dW " + kReach + "/" + file + " | grep -o 'NEEDED.*'");
  };
  EXPECT_EQ(needed("libespalier-verbs.so"), "exit 1\n");
  EXPECT_THAT(needed("libibverbs.so"),
              ::testing::MatchesRegex("NEEDED.*.libibverbs.so.1.\nexit 0\n"));
  EXPECT_FALSE(std::filesystem::exists(kReach + "/libibverbs.so.1"));
}

// The front for this distribution has the real libibverbs behind it, in the ways of the first
// releases.
TEST(FrontOfTheHost, HasAllFunctionsOfTheRealLibrary) {
  const std::string front = kReach + "/../libespalier-verbs.so";
  const std::string program = " " + kFakes + "/front_program_unlinked nccl nvshmem";
  const std::string plain = OutputOf("env" + program);
  EXPECT_THAT(plain, Not(HasSubstr("missing")));
  EXPECT_EQ(OutputOf("env NCCL_IBVERBS_LIB=" + front + program), plain);
  const std::string folder = "env LD_LIBRARY_PATH=" + kReach + "/../espalier-verbs";
  EXPECT_EQ(OutputOf(folder + program), plain);
  EXPECT_EQ(OutputOf(folder + " ibv_devices"), OutputOf("ibv_devices"));
  EXPECT_EQ(OutputOf("env LD_PRELOAD=" + front + " ibv_devices"), OutputOf("ibv_devices"));
}

// A preloaded library without libibverbs: nothing of the program may change.
TEST(FrontFiles, ChangeNoOtherProgram) {
  for (const char* const program : {"true", "ls /", "false", "no-such-program", "sh -c 'ls; ls'"}) {
    const std::string with = OutputOf("env " + kPreload + " " + program);
    EXPECT_EQ(with, OutputOf(std::string("env ") + program));
  }
}

}  // namespace
}  // namespace espalier::agent
