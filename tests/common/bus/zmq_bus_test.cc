#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <random>

#include "common/base/unique_fd.h"
#include "common/bus/zmq_dealer_bus.h"
#include "common/bus/zmq_router_bus.h"
#include "common/bus/zmq_socket.h"
#include "tests/common/bus/bus_contract.h"
#include "tests/common/bus/bus_end.h"
#include "tests/common/loop/asio_harness.h"

namespace espalier::io {
namespace {

class ZmqHarness : public BusHarness {
 public:
  explicit ZmqHarness(std::string endpoint, bool with_keys = false)
      : endpoint_(std::move(endpoint)), with_keys_(with_keys) {}

  bool RunUntil(std::function<bool()> done) override { return io::RunUntil(loop_, done); }

  std::unique_ptr<Bus> MakeController() override {
    std::unique_ptr<ZmqRouterBus> bus;
    // The previous socket may take a moment to close, in libzmq's own thread.
    EXPECT_TRUE(RunUntil([&] {
      ZmqRouterOptions options{.endpoint = endpoint_};
      if (with_keys_) {
        options.curve = CurveServer{controller_keys_.secret_key,
                                    [](std::string_view key) { return std::string(key); }};
      }
      Result<std::unique_ptr<ZmqRouterBus>> bound = ZmqRouterBus::Bind(loop_, options);
      if (bound) bus = std::move(*bound);
      return bus != nullptr;
    }));
    endpoint_ = bus->endpoint();  // a later controller uses the same port
    return bus;
  }

  std::unique_ptr<Bus> MakeAgent() override {
    ZmqDealerOptions options{.endpoint = endpoint_};
    if (with_keys_) options.curve = CurveClient{MakeCurveKeys(), {controller_keys_.public_key}};
    return std::move(ZmqDealerBus::Connect(loop_, options).value());
  }

  AsioEventLoop& loop() { return loop_; }
  const std::string& endpoint() const { return endpoint_; }

 private:
  AsioEventLoop loop_;
  std::string endpoint_;
  const bool with_keys_;
  const CurveKeys controller_keys_ = MakeCurveKeys();
};

std::unique_ptr<BusHarness> OverTcp() { return std::make_unique<ZmqHarness>("tcp://127.0.0.1:*"); }

std::unique_ptr<BusHarness> OverCurve() {
  return std::make_unique<ZmqHarness>("tcp://127.0.0.1:*", true);
}

std::unique_ptr<BusHarness> OverUnixSockets() {
  const testing::UnitTest& test = *testing::UnitTest::GetInstance();
  return std::make_unique<ZmqHarness>("ipc://" + testing::TempDir() + "/espalier_bus_" +
                                      std::to_string(getpid()) + "_" +
                                      std::to_string(test.current_test_info()->line()));
}

// A port without a listener.
std::uint16_t FreePort() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  EXPECT_EQ(bind(fd, reinterpret_cast<const sockaddr*>(&address), size), 0);
  EXPECT_EQ(getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size), 0);
  close(fd);
  return ntohs(address.sin_port);
}

class ZmqBus : public testing::Test {
 protected:
  void RunUntil(const std::function<bool()>& done) { ASSERT_TRUE(harness_.RunUntil(done)); }

  ZmqHarness harness_{"tcp://127.0.0.1:*"};
};

TEST(ZmqBusErrors, NameTheEndpoint) {
  AsioEventLoop loop;
  for (const std::string endpoint :
       {"", "nonsense", "tcp://", "tcp://127.0.0.1:99999", "tcp://127.0.0.1:7x", "foo://x"}) {
    const auto bound = ZmqRouterBus::Bind(loop, {.endpoint = endpoint});
    ASSERT_FALSE(bound) << endpoint;
    EXPECT_EQ(bound.error().code, ErrorCode::kInvalidArgument) << bound.error().message;
    EXPECT_THAT(bound.error().message, testing::HasSubstr(endpoint));
    const auto connected = ZmqDealerBus::Connect(loop, {.endpoint = endpoint});
    ASSERT_FALSE(connected) << endpoint;
    EXPECT_EQ(connected.error().code, ErrorCode::kInvalidArgument) << connected.error().message;
  }
  const auto first = ZmqRouterBus::Bind(loop, {.endpoint = "tcp://127.0.0.1:*"});
  ASSERT_TRUE(first);
  const auto second = ZmqRouterBus::Bind(loop, {.endpoint = (*first)->endpoint()});
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, ErrorCode::kUnavailable) << second.error().message;
}

TEST_F(ZmqBus, AnAgentMayStartBeforeItsController) {
  const std::string endpoint = "tcp://127.0.0.1:" + std::to_string(FreePort());
  BusEnd agent(std::move(ZmqDealerBus::Connect(harness_.loop(), {.endpoint = endpoint}).value()));
  // Several attempts fail before there is a controller.
  const TimePoint later = harness_.loop().Now() + std::chrono::milliseconds(400);
  RunUntil([&] { return harness_.loop().Now() > later; });
  BusEnd controller(std::move(ZmqRouterBus::Bind(harness_.loop(), {.endpoint = endpoint}).value()));
  RunUntil([&] {
    if (controller.received.empty()) agent->Send(kControllerPeer, "hello");
    return !controller.received.empty();
  });
  EXPECT_TRUE(agent.gone.empty());  // there was no connection that could break
}

TEST_F(ZmqBus, AFloodLeavesRoomForTimers) {
  BusEnd controller(harness_.MakeController());
  constexpr std::size_t kAgents = 8;
  std::vector<std::unique_ptr<BusEnd>> agents;
  for (std::size_t a = 0; a < kAgents; ++a) {
    agents.push_back(std::make_unique<BusEnd>(harness_.MakeAgent()));
  }
  RunUntil([&] {
    for (auto& agent : agents) (*agent)->Send(kControllerPeer, "flood");
    return controller.received.size() > 1000;
  });
  // Every message takes longer than the timer waits, so that both are always due.
  TimerPtr timer;
  std::size_t ticks = 0;
  std::function<void()> tick = [&] {
    ++ticks;
    timer = harness_.loop().After(Duration(1), tick);
  };
  tick();
  const std::size_t before = controller.received.size();
  std::size_t sent = 0;
  for (auto& agent : agents) {
    while ((*agent)->Send(kControllerPeer, "flood")) ++sent;
  }
  ticks = 0;
  RunUntil([&] { return controller.received.size() >= before + sent; });
  EXPECT_GE(ticks, sent / ZmqSocket::kMessagesPerTurn);
}

TEST_F(ZmqBus, AMessageThatIsTooLargeBreaksItsConnectionOnly) {
  std::unique_ptr<ZmqRouterBus> bus =
      std::move(ZmqRouterBus::Bind(harness_.loop(),
                                   {.endpoint = "tcp://127.0.0.1:*", .max_message_bytes = 1000})
                    .value());
  const ZmqDealerOptions to{.endpoint = bus->endpoint()};
  BusEnd controller(std::move(bus));
  BusEnd good(std::move(ZmqDealerBus::Connect(harness_.loop(), to).value()));
  BusEnd bad(std::move(ZmqDealerBus::Connect(harness_.loop(), to).value()));
  good->Send(kControllerPeer, "good");
  bad->Send(kControllerPeer, std::string(1000, 'x'));
  RunUntil([&] { return controller.received.size() == 2; });
  bad->Send(kControllerPeer, std::string(1001, 'x'));
  RunUntil([&] { return !bad.gone.empty(); });
  good->Send(kControllerPeer, "still good");
  RunUntil([&] { return controller.received.size() == 3; });
  EXPECT_EQ(controller.received.back().bytes, "still good");
  EXPECT_TRUE(good.gone.empty());
}

TEST_F(ZmqBus, StrangersOnThePortChangeNothing) {
  BusEnd controller(harness_.MakeController());
  BusEnd agent(harness_.MakeAgent());
  const std::string& endpoint = harness_.endpoint();
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port =
      htons(static_cast<std::uint16_t>(std::stoi(endpoint.substr(endpoint.rfind(':') + 1))));
  std::mt19937 random(1);
  std::vector<int> strangers;
  for (int i = 0; i < 50; ++i) {
    strangers.push_back(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    ASSERT_EQ(
        connect(strangers.back(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    std::string noise(1 + random() % 200, '\0');
    for (char& c : noise) c = static_cast<char>(random());
    if (i % 2 == 0) noise.front() = '\xff';  // like the first byte of a greeting
    EXPECT_GE(send(strangers.back(), noise.data(), noise.size(), MSG_NOSIGNAL), 0);
  }
  for (int i = 0; i < 20; ++i) {
    agent->Send(kControllerPeer, "x");
    const std::size_t want = static_cast<std::size_t>(i) + 1;
    RunUntil([&] { return controller.received.size() == want; });
  }
  for (const int stranger : strangers) close(stranger);
  EXPECT_TRUE(std::all_of(controller.received.begin(), controller.received.end(),
                          [](const auto& message) { return message.bytes == "x"; }));
}

// A process without free descriptors keeps running and connects when there are some again.
TEST(ZmqSockets, ThatCannotBeMadeAreAnError) {
  AsioEventLoop loop;
  auto router = ZmqRouterBus::Bind(loop, {.endpoint = "tcp://127.0.0.1:*"});
  ASSERT_TRUE(router) << router.error().message;
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  const UniqueFd first_free(dup(0));
  rlimit none = limit;
  none.rlim_cur = static_cast<rlim_t>(first_free.get()) + 1;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const auto refused = ZmqDealerBus::Connect(loop, {.endpoint = (*router)->endpoint()});
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kResourceExhausted) << refused.error().message;
  EXPECT_TRUE(ZmqDealerBus::Connect(loop, {.endpoint = (*router)->endpoint()}));
}

}  // namespace

INSTANTIATE_TEST_SUITE_P(ZmqTcp, BusContract, testing::Values(&OverTcp));
INSTANTIATE_TEST_SUITE_P(ZmqCurve, BusContract, testing::Values(&OverCurve));
INSTANTIATE_TEST_SUITE_P(ZmqIpc, BusContract, testing::Values(&OverUnixSockets));

}  // namespace espalier::io
