#include "common/daemon/service_notifier.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "tests/agent/manual_loop.h"
#include "tests/temporary_folder.h"

namespace espalier::io {
namespace {

using namespace std::chrono_literals;

// A fake service manager.
class ServiceNotifierTest : public testing::Test {
 protected:
  ServiceNotifierTest() : socket_(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
    sockaddr_un at = {};
    at.sun_family = AF_UNIX;
    std::memcpy(at.sun_path, path_.data(), path_.size());
    EXPECT_EQ(::bind(socket_, reinterpret_cast<sockaddr*>(&at), sizeof(at)), 0);
    ::setenv("NOTIFY_SOCKET", path_.c_str(), 1);
    ::setenv("WATCHDOG_USEC", "30000000", 1);
  }
  ~ServiceNotifierTest() override {
    ::close(socket_);
    for (const char* name : {"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"}) ::unsetenv(name);
  }
  std::vector<std::string> Heard() {
    std::vector<std::string> heard;
    char text[100];
    for (ssize_t size = 0; (size = ::recv(socket_, text, sizeof(text), MSG_DONTWAIT)) > 0;) {
      heard.emplace_back(text, static_cast<std::size_t>(size));
    }
    return heard;
  }

  using Words = std::vector<std::string>;
  TemporaryFolder folder_;
  const std::string path_ = folder_.path() + "/notify";
  int socket_;
  agent::ManualLoop loop_;
};

TEST_F(ServiceNotifierTest, TellsItsManagerForAsLongAsTheLoopTurns) {
  {
    const ServiceNotifier notifier(loop_);
    EXPECT_EQ(Heard(), (Words{"READY=1", "WATCHDOG=1"}));
    loop_.Advance(14s);
    EXPECT_EQ(Heard(), Words());
    loop_.Advance(31s);
    EXPECT_EQ(Heard(), (Words{"WATCHDOG=1", "WATCHDOG=1", "WATCHDOG=1"}));
  }
  EXPECT_EQ(Heard(), Words{"STOPPING=1"});
}

TEST_F(ServiceNotifierTest, DoesNotSayThatAServiceStopsThatStartsAgain) {
  {
    ServiceNotifier notifier(loop_);
    notifier.StartAgain();
  }
  const ServiceNotifier next(loop_);
  EXPECT_EQ(Heard(), (Words{"READY=1", "WATCHDOG=1", "READY=1", "WATCHDOG=1"}));
}

TEST_F(ServiceNotifierTest, LeavesTheWatchdogOfAnotherProcessAlone) {
  ::setenv("WATCHDOG_PID", "1", 1);
  const ServiceNotifier notifier(loop_);
  loop_.Advance(60s);
  EXPECT_EQ(Heard(), Words{"READY=1"});
}

TEST_F(ServiceNotifierTest, IsSilentWithoutAManager) {
  ::unsetenv("NOTIFY_SOCKET");
  const ServiceNotifier notifier(loop_);
  loop_.Advance(60s);
  ::setenv("NOTIFY_SOCKET", "/no/such/socket", 1);
  const ServiceNotifier lost(loop_);
  loop_.Advance(60s);
  EXPECT_EQ(Heard(), Words());
}

}  // namespace
}  // namespace espalier::io
