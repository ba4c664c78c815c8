#include "tests/bench/reconnect_storm.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <vector>

#include "common/base/check.h"
#include "common/base/unique_fd.h"

namespace espalier::bench {
namespace {

template <typename T>
void Tell(int fd, T value) {
  ESPALIER_CHECK(write(fd, &value, sizeof value) == sizeof value);
}

template <typename T>
T Hear(int fd) {
  T value{};
  ESPALIER_CHECK(read(fd, &value, sizeof value) == sizeof value, "a load process has died");
  return value;
}

// A process with some of the agents, which gets commands and returns times.
struct Part {
  pid_t pid = 0;
  UniqueFd orders;
  UniqueFd answers;
};

[[noreturn]] void BeLoad(const SubjectProcess& subject, const LoadOptions& options, int orders,
                         int answers) {
  Load load(options, subject.endpoint(), [&](int agent) { return subject.KeysOf(agent); });
  Tell(answers, load.Connect());
  Hear<char>(orders);
  Tell(answers, load.Reconnect());
  Hear<char>(orders);
  _exit(0);
}

Part StartPart(const SubjectProcess& subject, const LoadOptions& options) {
  std::array<int, 2> orders{};
  std::array<int, 2> answers{};
  ESPALIER_CHECK(pipe(orders.data()) == 0 && pipe(answers.data()) == 0);
  const pid_t pid = fork();
  ESPALIER_CHECK(pid >= 0);
  if (pid == 0) BeLoad(subject, options, orders[0], answers[1]);
  close(orders[0]);
  close(answers[1]);
  return {pid, UniqueFd(orders[1]), UniqueFd(answers[0])};
}

double LastOf(const std::vector<Part>& parts) {
  double seconds = 0;
  for (const Part& part : parts) seconds = std::max(seconds, Hear<double>(part.answers.get()));
  return seconds;
}

}  // namespace

StormFigures MeasureStorm(const SubjectProcess& subject, const LoadOptions& options,
                          int processes) {
  StormFigures figures;
  const double alone_mib = subject.Measure().resident_mib;
  std::vector<Part> parts;
  for (int i = 0; i < processes; ++i) {
    LoadOptions own = options;
    own.first = options.agents * i / processes;
    own.end = options.agents * (i + 1) / processes;
    parts.push_back(StartPart(subject, own));
  }
  figures.connect_seconds = LastOf(parts);
  figures.resident_mib = subject.Measure().resident_mib;
  figures.kib_per_agent = 1024 * (figures.resident_mib - alone_mib) / options.agents;
  for (const Part& part : parts) Tell(part.orders.get(), 'r');
  figures.reconnect_seconds = LastOf(parts);
  for (const Part& part : parts) {
    Tell(part.orders.get(), 'e');
    waitpid(part.pid, nullptr, 0);
  }
  return figures;
}

}  // namespace espalier::bench
