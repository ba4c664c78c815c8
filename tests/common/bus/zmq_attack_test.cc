// Hostile peers of the controller's bus with a valid key, over real sockets on the loopback
// interface and without code of the real agents.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "common/bus/zmq_router_bus.h"
#include "tests/attack/zmq_peer.h"
#include "tests/attack/zmtp.h"
#include "tests/common/bus/bus_end.h"
#include "tests/common/loop/asio_harness.h"

namespace espalier::io {
namespace {

using attack::ZmqPeer;
using Cause = PeerRefusal::Cause;

class BusUnderAttack : public testing::Test {
 protected:
  std::unique_ptr<BusEnd> MakeController(ZmqRouterOptions options = {}) {
    options.endpoint = "tcp://127.0.0.1:*";
    options.curve = CurveServer{server_.secret_key, [this](std::string_view key) {
                                  return key == own_.public_key ? std::optional<std::string>("h0")
                                                                : std::nullopt;
                                }};
    auto bus = ZmqRouterBus::Bind(loop_, options);
    EXPECT_TRUE(bus) << bus.error().message;
    router_ = bus->get();
    router_->OnRefusal([this](const PeerRefusal& refusal) { refusals_.push_back(refusal); });
    return std::make_unique<BusEnd>(std::move(*bus));
  }

  std::unique_ptr<ZmqPeer> MakePeer(std::string_view routing_id = "") {
    const ZmqPeer::Keys keys{server_.public_key, own_.public_key, own_.secret_key};
    return std::make_unique<ZmqPeer>(router_->endpoint(), keys, routing_id);
  }

  void RunUntil(const std::function<bool()>& done) { ASSERT_TRUE(io::RunUntil(loop_, done)); }

  bool WasRefused(Cause cause) const {
    return std::ranges::any_of(refusals_, [&](const auto& r) { return r.cause == cause; });
  }

  AsioEventLoop loop_;
  const CurveKeys server_ = MakeCurveKeys();
  const CurveKeys own_ = MakeCurveKeys();
  std::vector<PeerRefusal> refusals_;
  ZmqRouterBus* router_ = nullptr;
};

TEST_F(BusUnderAttack, WhoIgnoresTheGoodbyeIsDisconnectedAllTheSame) {
  const auto controller = MakeController();
  const auto peer = MakePeer();
  peer->Send("hello");
  RunUntil([&] { return controller->received.size() == 1; });
  (*controller)->Disconnect(controller->received.front().from);
  RunUntil([&] {
    peer->Send("still here");
    return peer->is_disconnected();
  });
  EXPECT_EQ(controller->received.size(), 1);
}

TEST_F(BusUnderAttack, AFloodEndsTheConnection) {
  const auto controller = MakeController({.limits = {.messages_per_second = 100}});
  const auto peer = MakePeer();
  RunUntil([&] {
    for (int i = 0; i < 50; ++i) peer->Send("flood");
    return peer->is_disconnected();
  });
  EXPECT_TRUE(WasRefused(Cause::kTooMany));
}

TEST_F(BusUnderAttack, EmptyMessagesAreCountedLikeOthers) {
  const auto controller = MakeController({.limits = {.messages_per_second = 100}});
  const auto peer = MakePeer();
  RunUntil([&] {
    for (int i = 0; i < 50; ++i) peer->Send("");
    return peer->is_disconnected();
  });
  EXPECT_TRUE(WasRefused(Cause::kTooMany));
  EXPECT_TRUE(controller->received.empty());
}

TEST_F(BusUnderAttack, EmptyFramesAreCountedLikeMessages) {
  const auto controller = MakeController({.limits = {.messages_per_second = 100}});
  const auto peer = MakePeer();
  for (int i = 0; i < 1000; ++i) peer->Send("", /*more=*/true);
  peer->Send("end");
  RunUntil([&] { return peer->is_disconnected(); });
  EXPECT_TRUE(WasRefused(Cause::kTooMany));
  EXPECT_TRUE(controller->received.empty());
}

TEST_F(BusUnderAttack, ANewConnectionOfAKeyEndsItsOldestOnes) {
  const auto controller = MakeController();
  std::vector<std::unique_ptr<ZmqPeer>> peers;
  for (int i = 0; i < 7; ++i) {
    peers.push_back(MakePeer());
    peers.back()->Send("hello");
    RunUntil([&] { return controller->received.size() == peers.size(); });
  }
  RunUntil([&] {
    return std::ranges::count_if(peers, [](auto& peer) { return peer->is_disconnected(); }) == 3;
  });
  for (std::size_t i = 0; i < peers.size(); ++i) EXPECT_EQ(peers[i]->is_disconnected(), i < 3);
  EXPECT_EQ(controller->gone.size(), 3);
}

TEST_F(BusUnderAttack, AKeyCannotConnectAsOftenAsItLikes) {
  const auto controller = MakeController();
  std::vector<std::unique_ptr<ZmqPeer>> peers;
  RunUntil([&] {
    if (peers.size() < 500) peers.push_back(MakePeer());
    return WasRefused(Cause::kTooManyConnections);
  });
  EXPECT_EQ(refusals_.front().who, "h0");
}

TEST_F(BusUnderAttack, WhoConnectsAndSaysNothingIsDisconnected) {
  const auto controller = MakeController({.first_message_timeout = std::chrono::seconds(1)});
  const auto peer = MakePeer();
  RunUntil([&] { return peer->is_connected(); });
  RunUntil([&] { return peer->is_disconnected(); });
}

// Sends by hand, as libzmq sends nothing before it has a whole message.
TEST(PlainBusUnderAttack, AMessageThatNeverEndsEndsItsConnection) {
  AsioEventLoop loop;
  auto bus =
      ZmqRouterBus::Bind(loop, {.endpoint = "tcp://127.0.0.1:*", .max_message_bytes = 100'000});
  ASSERT_TRUE(bus) << bus.error().message;
  const std::string endpoint = (*bus)->endpoint();
  std::vector<PeerRefusal> refusals;
  (*bus)->OnRefusal([&](const PeerRefusal& refusal) { refusals.push_back(refusal); });
  BusEnd controller(std::move(*bus));
  attack::ZmtpDealer peer(std::stoi(endpoint.substr(endpoint.rfind(':') + 1)));
  ASSERT_TRUE(peer.is_open());
  const std::string large = std::string("\x03\0\0\0\0\0\0\x20\0", 9) + std::string(0x2000, 'x');
  const std::string small("\x01\x01x", 3);  // with the flag that more frames follow
  int sent = 0;
  EXPECT_TRUE(io::RunUntil(loop, [&] { return !peer.SendRaw(sent++ < 400 ? large : small); }));
  ASSERT_EQ(refusals.size(), 1);
  EXPECT_EQ(refusals.front().cause, Cause::kTooLarge);
  EXPECT_TRUE(controller.received.empty());
}

// Reconnects repeatedly with the routing id under which it was disconnected.
TEST_F(BusUnderAttack, ARoutingIdThatWasSentAwayIsNoPlaceToGoOn) {
  const auto controller = MakeController();
  {
    const auto peer = MakePeer("the same");
    peer->Send("hello");
    RunUntil([&] { return controller->received.size() == 1; });
    (*controller)->Disconnect(controller->received.front().from);
    RunUntil([&] { return peer->is_disconnected(); });
  }
  const auto again = MakePeer("the same");
  RunUntil([&] {
    for (int i = 0; i < 50; ++i) again->Send("again");
    return again->is_disconnected();
  });
  EXPECT_EQ(controller->received.size(), 1);
}

}  // namespace
}  // namespace espalier::io
