#include "common/os/command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <cstdlib>
#include <string>

namespace espalier {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

constexpr CommandLimits kAmple = {.timeout = 60s, .most_bytes = 1 << 20};

Command Shell(const std::string& script) {
  return {.argv = {"sh", "-c", script}, .environment = {}, .node = ""};
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
  // Killed; its entry is there until init, or whoever adopts orphans, has waited for it.
  EXPECT_TRUE(kill(left, 0) != 0 || RunWithin(kAmple, Shell("grep -q 'State:.*Z' /proc/" +
                                                            std::to_string(left) + "/status"))
                                            .value()
                                            .exit_code != 1);
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
