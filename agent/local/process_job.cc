#include "agent/local/process_job.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>

#include "agent/local/espalier_agent.h"
#include "agent/local/flow_description.h"
#include "common/base/unique_fd.h"

namespace espalier::agent {
namespace {

constexpr std::size_t kMaxFileBytes = 1 << 20;

// Returns "" if the file cannot be read: the process is another user's, or has ended.
std::string ReadProcFile(pid_t pid, std::string_view name) {
  const UniqueFd file(open(fmt::format("/proc/{}/{}", pid, name).c_str(), O_RDONLY | O_CLOEXEC));
  std::string text;
  std::array<char, 4096> block;
  while (file && text.size() < kMaxFileBytes) {
    const ssize_t size = read(file.get(), block.data(), block.size());
    if (size <= 0) break;
    text.append(block.data(), static_cast<std::size_t>(size));
  }
  return text;
}

// Removes the text up to the separator (or the end) from the front and returns it.
std::string_view TakeUntil(std::string_view& text, char separator) {
  const std::size_t end = text.find(separator);
  const std::string_view taken = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return taken;
}

std::string_view BatchJob(std::string_view path) {
  constexpr std::string_view kPrefix = "job_";
  while (!path.empty()) {
    const std::string_view part = TakeUntil(path, '/');
    if (part.size() > kPrefix.size() && part.starts_with(kPrefix)) {
      return part.substr(kPrefix.size());
    }
  }
  return {};
}

bool IsOfInit(std::string_view path) {
  const std::string_view top = TakeUntil(path, '/');
  return top.empty() || top == "user.slice" || top == "system.slice" || top == "init.scope";
}

}  // namespace

std::string JobFromEnvironment(std::string_view environment) {
  constexpr std::string_view kOwn = "ESPALIER_JOB=";
  constexpr std::string_view kSlurm = "SLURM_JOB_ID=";
  std::string slurm;
  while (!environment.empty()) {
    std::string_view variable = TakeUntil(environment, '\0');
    const bool own = variable.starts_with(kOwn);
    if (!own && !variable.starts_with(kSlurm)) continue;
    variable.remove_prefix(own ? kOwn.size() : kSlurm.size());
    if (variable.empty() || !IsJobName(variable)) continue;
    if (own) return std::string(variable);
    slurm = variable;
  }
  return slurm;
}

std::string JobFromCgroup(std::string_view cgroup) {
  std::string group;
  while (!cgroup.empty()) {
    std::string_view line = TakeUntil(cgroup, '\n');
    TakeUntil(line, ':');  // hierarchy
    TakeUntil(line, ':');  // controllers
    if (!line.starts_with('/')) continue;
    line.remove_prefix(1);
    const std::string_view job = BatchJob(line);
    if (!job.empty() && IsJobName(job)) return std::string(job);
    if (!group.empty() || IsOfInit(line)) continue;
    line.remove_prefix(line.size() - std::min<std::size_t>(line.size(), ESPALIER_JOB_BYTES - 1));
    if (IsJobName(line)) group = line;
  }
  return group;
}

std::string JobOfProcess(pid_t pid) {
  std::string job = JobFromEnvironment(ReadProcFile(pid, "environ"));
  return job.empty() ? JobFromCgroup(ReadProcFile(pid, "cgroup")) : job;
}

}  // namespace espalier::agent
