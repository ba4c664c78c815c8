#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>

namespace espalier::agent {

// Returns the job of a process whose program does not announce one: ESPALIER_JOB, else SLURM_JOB_ID
// of its environment, else a name from its cgroup, else "". Invalid job names (IsJobName) do not
// count.
std::string JobOfProcess(pid_t pid);

// Returns the job in the contents of /proc/PID/environ, else "".
std::string JobFromEnvironment(std::string_view environment);

// Returns the job in the contents of /proc/PID/cgroup: the ID of a batch system's group "job_ID",
// which is the same on all hosts; else the last 63 characters of the group's path; else "". Groups
// that init makes for users and services (user.slice, system.slice, init.scope) are no jobs.
std::string JobFromCgroup(std::string_view cgroup);

}  // namespace espalier::agent
