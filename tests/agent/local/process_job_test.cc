#include "agent/local/process_job.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

namespace espalier::agent {
namespace {

using namespace std::string_literals;

TEST(ProcessJob, EnvironmentNamesIt) {
  EXPECT_EQ(JobFromEnvironment("A=1\0ESPALIER_JOB=bloom\0B=2\0"s), "bloom");
  EXPECT_EQ(JobFromEnvironment("SLURM_JOB_ID=77\0"s), "77");
  EXPECT_EQ(JobFromEnvironment("SLURM_JOB_ID=77\0ESPALIER_JOB=bloom\0"s), "bloom");
  EXPECT_EQ(JobFromEnvironment("ESPALIER_JOB=bloom"s), "bloom");
}

TEST(ProcessJob, WhatIsNoNameDoesNotCount) {
  EXPECT_EQ(JobFromEnvironment(""), "");
  EXPECT_EQ(JobFromEnvironment("XESPALIER_JOB=a\0ESPALIER_JOBS=b\0ESPALIER_JOB\0"s), "");
  EXPECT_EQ(JobFromEnvironment("ESPALIER_JOB=\0SLURM_JOB_ID=5\0"s), "5");
  EXPECT_EQ(JobFromEnvironment("ESPALIER_JOB=a\nb\0"s), "");
  EXPECT_EQ(JobFromEnvironment("ESPALIER_JOB=" + std::string(64, 'x')), "");
}

TEST(ProcessJob, BatchSystemsGroupNamesIt) {
  EXPECT_EQ(JobFromCgroup("0::/system.slice/slurmstepd.scope/job_123/step_0/user/task_0\n"), "123");
  EXPECT_EQ(JobFromCgroup("12:cpu:/\n4:memory:/slurm/uid_1000/job_9/step_1\n0::/x\n"), "9");
}

TEST(ProcessJob, ContainersGroupNamesItButInitsDoesNot) {
  EXPECT_EQ(JobFromCgroup("0::/kubepods/pod1/c\n"), "kubepods/pod1/c");
  EXPECT_EQ(JobFromCgroup("0::/\n"), "");
  EXPECT_EQ(JobFromCgroup("0::/user.slice/user-0.slice/session-1.scope\n"), "");
  EXPECT_EQ(JobFromCgroup("0::/system.slice/ssh.service\n"), "");
  EXPECT_EQ(JobFromCgroup("0::/init.scope\n"), "");
  EXPECT_EQ(JobFromCgroup("nonsense\n:::\n"), "");
  EXPECT_EQ(JobFromCgroup("0::/" + std::string(100, 'a') + "end").size(), 63u);
  EXPECT_TRUE(JobFromCgroup("0::/" + std::string(100, 'a') + "end").ends_with("end"));
}

TEST(ProcessJob, IsReadFromALiveProcess) {
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    // sleep's own environment is the job's; the pipe closes when exec has replaced the process.
    close(ready[0]);
    fcntl(ready[1], F_SETFD, FD_CLOEXEC);
    const char* const environment[] = {"ESPALIER_JOB=from-env", nullptr};
    const char* const arguments[] = {"sleep", "1000", nullptr};
    execve("/bin/sleep", const_cast<char**>(arguments), const_cast<char**>(environment));
    _exit(1);
  }
  close(ready[1]);
  char byte = 0;
  EXPECT_EQ(read(ready[0], &byte, 1), 0);
  EXPECT_EQ(JobOfProcess(child), "from-env");
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_EQ(JobOfProcess(-1), "");
}

}  // namespace
}  // namespace espalier::agent
