// The switches of a lab report their links over netlink.
#include "deploy/lab/link_watch.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <string>

#include "common/base/unique_fd.h"
#include "deploy/lab/link_faults.h"
#include "tests/deploy/lab/lab_fixture.h"

namespace espalier::lab {
namespace {

// Watches in a separate process, as that moves permanently into the lab, and writes a line for each
// change.
class Watcher {
 public:
  explicit Watcher(const Lab& lab, std::chrono::milliseconds load_interval = {}) {
    std::array<int, 2> pipe{};
    EXPECT_EQ(::pipe(pipe.data()), 0);
    lines_ = UniqueFd(pipe[0]);
    const UniqueFd writer(pipe[1]);
    child_ = ::fork();
    if (child_ == 0) ::_exit(Watch(lab, load_interval, writer.get()));
  }
  ~Watcher() {
    ::kill(child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
  }
  Watcher(const Watcher&) = delete;
  Watcher& operator=(const Watcher&) = delete;

  // Waits for the process.
  std::string NextLine() {
    std::string line;
    char c = 0;
    pollfd readable{lines_.get(), POLLIN, 0};
    while (::poll(&readable, 1, 20'000) == 1 && ::read(lines_.get(), &c, 1) == 1 && c != '\n') {
      line += c;
    }
    return line;
  }

 private:
  static int Watch(const Lab& lab, std::chrono::milliseconds load_interval, int writer) {
    Result<LinkWatch> watch = LinkWatch::Start(lab);
    if (watch && load_interval.count() > 0) watch->MeasureLoads(load_interval);
    while (watch) {
      const auto changes = watch->Next();
      if (!changes) break;
      for (const LinkChange& change : *changes) {
        const std::string line =
            fmt::format("{} {}\n", lab.topology().link(change.link).id, change.up ? "up" : "down");
        if (::write(writer, line.data(), line.size()) < 0) return 1;
      }
      std::size_t loads = 0;
      for (const LinkLoad& load : watch->TakeLoads()) loads += load.bps >= 0 ? 1 : 0;
      if (loads == 0) continue;
      const std::string line = fmt::format("{} loads\n", loads);
      if (::write(writer, line.data(), line.size()) < 0) return 1;
    }
    return 1;
  }

  UniqueFd lines_;
  pid_t child_ = -1;
};

TEST(LinkWatch, TellsOfLinksThatAreDownGoDownAndComeUp) {
  ESPALIER_LAB_OR_SKIP(lab, {.spines = 2, .leaves = 2, .hosts_per_leaf = 1});
  ASSERT_TRUE(FailLink(lab, "leaf0--spine1").value());
  Watcher watcher(lab);
  EXPECT_EQ(watcher.NextLine(), "leaf0--spine1 down") << "it was down before anybody watched";
  ASSERT_TRUE(FailLink(lab, "leaf1--spine0", LinkEnd::kA).value());
  EXPECT_EQ(watcher.NextLine(), "leaf1--spine0 down");
  ASSERT_TRUE(FailLink(lab, "h0--leaf0").value());  // not between switches, so not reported
  ASSERT_TRUE(RestoreLink(lab, "leaf0--spine1").value());
  EXPECT_EQ(watcher.NextLine(), "leaf0--spine1 up");
}

TEST(LinkWatch, MeasuresTheLoadsOfBothDirections) {
  ESPALIER_LAB_OR_SKIP(lab, {.spines = 2, .leaves = 2, .hosts_per_leaf = 1});
  Watcher watcher(lab, std::chrono::milliseconds(100));
  EXPECT_EQ(watcher.NextLine(), "8 loads");
  EXPECT_EQ(watcher.NextLine(), "8 loads");
  ASSERT_TRUE(FailLink(lab, "leaf0--spine1").value());
  std::string line = watcher.NextLine();
  for (int i = 0; i < 100 && line == "8 loads"; ++i) line = watcher.NextLine();
  EXPECT_EQ(line, "leaf0--spine1 down");
}

}  // namespace
}  // namespace espalier::lab
