#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>

namespace espalier::agent {

// The job that a process belongs to, where its program does not announce one: ESPALIER_JOB, else
// SLURM_JOB_ID of its environment, else its cgroup, else "". Names that are no job names
// (IsJobName) do not count.
std::string JobOfProcess(pid_t pid);

// From the contents of /proc/PID/environ.
std::string JobFromEnvironment(std::string_view environment);

// From the contents of /proc/PID/cgroup: the id of a batch system's "job_ID" group, which is the
// same on all hosts; else the path of the group, its last 63 characters. What init made for users
// and services (user.slice, system.slice, init.scope) is no job.
std::string JobFromCgroup(std::string_view cgroup);

}  // namespace espalier::agent
