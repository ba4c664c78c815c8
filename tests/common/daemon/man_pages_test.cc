#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <regex>
#include <set>

#include "common/daemon/daemon.h"

namespace espalier::io {
namespace {

std::set<std::string> Find(const std::string& text, const std::string& pattern) {
  const std::regex expression(pattern);
  std::set<std::string> found;
  for (std::sregex_iterator one(text.begin(), text.end(), expression), end; one != end; ++one) {
    found.insert((*one)[1]);
  }
  return found;
}

// The daemons' man pages are written by hand, as most of their text cannot be generated.
TEST(DaemonManPages, HaveTheOptionsOfTheCommandLine) {
  Daemon daemon("espalier-agent", "What it does", "Check the configuration");
  const char* const words[] = {"espalier-agent", "--help"};
  testing::internal::CaptureStdout();
  EXPECT_EQ(daemon.Parse(2, words), 0);
  const std::set<std::string> options =
      Find(testing::internal::GetCapturedStdout(), "--([a-z][a-z-]*)");
  EXPECT_EQ(options.size(), 5U);
  for (const char* name : {"controller", "agent", "engine", "dpdk", "telemetry"}) {
    std::ifstream file(std::string(ESPALIER_MAN_PAGES) + "/espalier-" + name + ".8");
    const std::string page(std::istreambuf_iterator<char>(file), {});
    EXPECT_EQ(Find(page, "Fl -([a-z][a-z-]*)"), options) << name;
  }
}

}  // namespace
}  // namespace espalier::io
