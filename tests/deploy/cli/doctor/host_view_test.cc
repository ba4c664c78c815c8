#include "deploy/cli/doctor/host_view.h"

#include <sys/stat.h>
#include <unistd.h>

#include "tests/deploy/cli/doctor/recorded_host.h"

namespace espalier::doctor {
namespace {

TEST(HostView, ReadsSmallFilesOnly) {
  RecordedHost host;
  host.Write("/a", "7 \n\n");
  EXPECT_EQ(host.view.Read("/a"), "7");
  EXPECT_EQ(host.view.ReadNumber("/a"), 7U);
  host.Write("/a", "");
  EXPECT_EQ(host.view.Read("/a"), "");
  EXPECT_FALSE(host.view.ReadNumber("/a").has_value());
  host.Write("/a", std::string(64 * 1024, 'x'));
  EXPECT_TRUE(host.view.Read("/a").has_value());
  host.Write("/a", std::string(64 * 1024 + 1, 'x'));
  EXPECT_FALSE(host.view.Read("/a").has_value());
  EXPECT_FALSE(host.view.Read("/none").has_value());
  EXPECT_FALSE(host.view.Read("/").has_value());
  EXPECT_TRUE(host.view.List("/a").empty());
  // Reading it would wait for ever.
  ASSERT_EQ(::mkfifo((host.view.root + "/pipe").c_str(), 0600), 0);
  EXPECT_FALSE(host.view.Read("/pipe").has_value());
}

TEST(HostView, ReadsNumbersAndMetricsExactly) {
  for (const char* const text :
       {"", " 7", "7 ", "-7", "+7", "0x7", "7.0", "1e9", "18446744073709551616"}) {
    EXPECT_FALSE(ParseNumber(text).has_value()) << text;
  }
  const std::string metrics = "# HELP a b\na_total 9\na{x=\"1\"} 5\na 7.5\nb \nc 1";
  EXPECT_EQ(MetricOf(metrics, "a"), 7.5);
  EXPECT_EQ(MetricOf(metrics, "c"), 1);
  EXPECT_FALSE(MetricOf(metrics, "b").has_value());
  EXPECT_FALSE(MetricOf(metrics, "d").has_value());
  EXPECT_FALSE(MetricOf("", "a").has_value());
}

TEST(HostView, IsThisMachineOrAProcessOfIt) {
  const auto own = ViewOfThisHost("unix:/none", 0);
  ASSERT_TRUE(own.has_value());
  EXPECT_TRUE(own->Read("/proc/sys/kernel/osrelease").has_value());
  EXPECT_FALSE(own->ask_agent("/healthz").has_value());
  EXPECT_EQ(own->run({"printf", "%s", "a b"}).value_or(""), "a b");
  EXPECT_EQ(own->run({"no-such-program"}).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(own->run({"false"}).error().code, ErrorCode::kUnsupported);
  const auto process = ViewOfThisHost("unix:/none", ::getpid());
  ASSERT_TRUE(process.has_value());
  EXPECT_EQ(process->environment.count("PATH"), own->environment.count("PATH"));
  EXPECT_EQ(process->loads_shim, false);
  EXPECT_FALSE(ViewOfThisHost("unix:/none", 999'999'999).has_value());
}

}  // namespace
}  // namespace espalier::doctor
