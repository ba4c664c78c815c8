// A network partition, in the test's own network namespace.
#include <gtest/gtest.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <string>

#include "common/base/unique_fd.h"
#include "common/bus/zmq_dealer_bus.h"
#include "common/bus/zmq_router_bus.h"
#include "tests/common/bus/bus_end.h"
#include "tests/common/loop/asio_harness.h"

namespace espalier::io {
namespace {

// Packets are lost while the network is down; no connection is closed.
bool SetLoopback(bool is_up) {
  const UniqueFd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request{};
  std::strcpy(request.ifr_name, "lo");
  request.ifr_flags = is_up ? IFF_UP | IFF_RUNNING : 0;
  return ::ioctl(socket.get(), SIOCSIFFLAGS, &request) == 0;
}

bool IsInOwnNetwork() {
  std::error_code ignored;
  return std::filesystem::read_symlink("/proc/thread-self/ns/net", ignored) !=
         std::filesystem::read_symlink("/proc/" + std::to_string(::getppid()) + "/ns/net", ignored);
}

TEST(ZmqPartition, BreaksTheConnectionAtBothEndsAndTheNextOneWorks) {
  if (!IsInOwnNetwork()) GTEST_SKIP() << "no network of its own that could be lost";
  constexpr auto kLimit = std::chrono::seconds(1);
  AsioEventLoop loop;
  auto router =
      ZmqRouterBus::Bind(loop, {.endpoint = "tcp://127.0.0.1:*", .silence_limit = kLimit});
  ASSERT_TRUE(router) << router.error().message;
  const std::string endpoint = (*router)->endpoint();
  BusEnd controller(std::move(*router));
  BusEnd agent(std::move(
      ZmqDealerBus::Connect(loop, {.endpoint = endpoint, .silence_limit = kLimit}).value()));
  agent->Send(kControllerPeer, "hello");
  ASSERT_TRUE(RunUntil(loop, [&] { return !controller.received.empty(); }));
  const PeerId before = controller.received.front().from;
  ASSERT_TRUE(SetLoopback(false));
  // The agent sends nothing, but must notice.
  EXPECT_TRUE(RunUntil(loop, [&] { return !agent.gone.empty(); }));
  EXPECT_TRUE(RunUntil(loop, [&] {
    controller->Send(before, "are you there?");
    return !controller.gone.empty();
  }));
  ASSERT_TRUE(SetLoopback(true));
  EXPECT_TRUE(RunUntil(loop, [&] {
    agent->Send(kControllerPeer, "hello again");
    return controller.received.back().bytes == "hello again";
  }));
  EXPECT_NE(controller.received.back().from, before);
}

}  // namespace
}  // namespace espalier::io
