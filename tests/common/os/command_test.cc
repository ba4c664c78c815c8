#include "common/os/command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>

namespace espalier {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

constexpr CommandLimits kAmple = {.timeout = 60s, .most_bytes = 1 << 20};

Command Shell(const std::string& script) {
  return {.argv = {"sh", "-c", script}, .environment = {}, .node = ""};
}

// Whether the process runs. One that is dead may have an entry until its parent has waited for it.
bool IsAlive(int process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/stat");
  const std::string stat{std::istreambuf_iterator<char>(file), {}};
  return !stat.empty() && stat.find(") Z ") == std::string::npos;
}

TEST(RunWithin, ReturnsOutputErrorsAndExitCode) {
  const auto done = RunWithin(kAmple, Shell("cat; echo out; echo err >&2; exit 3"));
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_EQ(done->exit_code, 3);
  EXPECT_EQ(done->out, "out\n");
  EXPECT_EQ(done->err, "err\n");
}

TEST(RunWithin, ReadsMoreThanAPipeHolds) {
  const auto done = RunWithin(kAmple, Shell("head -c 1048576 /dev/zero"));
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_EQ(done->out.size(), kAmple.most_bytes);
}

TEST(RunWithin, EndsAProgramThatPrintsTooMuch) {
  for (const char* script : {"cat /dev/zero", "cat /dev/zero >&2"}) {
    const auto done = RunWithin(kAmple, Shell(script));
    ASSERT_FALSE(done) << script;
    EXPECT_EQ(done.error().code, ErrorCode::kResourceExhausted);
    EXPECT_THAT(done.error().message, HasSubstr("more than 1048576 bytes"));
  }
}

TEST(RunWithin, EndsAProgramThatHangsWithThoseThatItStarted) {
  const auto done =
      RunWithin({.timeout = 100ms, .most_bytes = 1'000}, Shell("sleep 1000 & sleep 1000; wait"));
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(done.error().message, HasSubstr("not done after 100 ms"));
}

TEST(RunWithin, DoesNotAwaitWhatAProgramLeavesBehind) {
  const auto done = RunWithin(kAmple, Shell("sleep 1000 & echo $!"));
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_EQ(done->exit_code, 0);
  const int left = std::atoi(done->out.c_str());
  ASSERT_GT(left, 0);
  const auto deadline = std::chrono::steady_clock::now() + 60s;
  while (IsAlive(left) && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
  EXPECT_FALSE(IsAlive(left));
}

TEST(RunWithin, SaysThatThereIsNoSuchProgram) {
  EXPECT_EQ(
      RunWithin(kAmple, {.argv = {"no-such-program"}, .environment = {}, .node = ""}).error().code,
      ErrorCode::kNotFound);
  const auto done =
      RunWithin(kAmple, {.argv = {"/no/such/program"}, .environment = {}, .node = ""});
  ASSERT_TRUE(done);
  EXPECT_EQ(done->exit_code, 127);
  EXPECT_THAT(done->err, HasSubstr("No such file"));
}

}  // namespace
}  // namespace espalier
