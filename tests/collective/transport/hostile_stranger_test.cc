// Strangers on the network who attack groups of ranks. None of them uses our client.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "collective/transport/tcp_store.h"
#include "collective/transport/tcp_transport.h"
#include "tests/attack/raw_tcp.h"
#include "tests/temporary_folder.h"

namespace espalier::transport {
namespace {

using attack::RawTcp;
using attack::StoreRequest;
using std::chrono::seconds;

Deadline InAWhile() { return std::chrono::steady_clock::now() + seconds(120); }

class HostileStranger : public testing::Test {
 protected:
  void SetUp() override {
    auto server = TcpStoreServer::Listen("127.0.0.1", 0);
    ASSERT_TRUE(server) << server.error().message;
    server_ = std::move(*server);
  }
  void ExpectServes() {
    auto store = TcpStore::At("127.0.0.1", server_->port(), seconds(60));
    ASSERT_TRUE(store);
    const auto set = (*store)->Set("honest", "value");
    EXPECT_TRUE(set) << set.error().message;
    const auto got = (*store)->Get("honest", InAWhile());
    ASSERT_TRUE(got) << got.error().message;
    EXPECT_EQ(*got, "value");
  }
  std::unique_ptr<TcpStoreServer> server_;
};

// Answers once piled up without end for a client that asked and did not read: 3,500 bytes for each
// of its own.
TEST_F(HostileStranger, WhoDoesNotReadAnswersIsCutOff) {
  RawTcp stranger(server_->port());
  ASSERT_TRUE(stranger.Send(StoreRequest('s', "k", std::string(64 << 10, 'v'))));
  // One at a time, each after the server has turned to somebody else, so that it answers each.
  for (int i = 0; i < 600 && stranger.Send(StoreRequest('g', "k")); ++i) {
    RawTcp other(server_->port());
    ASSERT_TRUE(other.Send(StoreRequest('g', "k")));
    ASSERT_TRUE(other.Receive(16 + (64 << 10)));
  }
  std::size_t got = 0;
  EXPECT_TRUE(stranger.IsHungUpOn(&got));
  // What the kernel had taken for it, and not all that it asked for.
  EXPECT_LT(got, std::size_t{600} * (64 << 10));
  ExpectServes();
}

TEST_F(HostileStranger, CannotFillTheStoresMemory) {
  RawTcp stranger(server_->port());
  const std::string value(60'000, 'v');
  int taken = 0;
  while (taken < 1'000 && stranger.Send(StoreRequest('s', std::to_string(taken), value)) &&
         stranger.Receive(16)) {
    ++taken;
  }
  // 16 MiB, not the 4 GiB of all keys.
  EXPECT_EQ(taken, (16 << 20) / 60'003);
  // What is there already can be changed, and who is honest is told at once where there is no room.
  auto store = TcpStore::At("127.0.0.1", server_->port(), seconds(60));
  EXPECT_TRUE((*store)->Set("0", "small"));
  ExpectServes();
}

TEST_F(HostileStranger, ManyWhoStaySilentKeepNobodyFromTheStore) {
  std::vector<std::unique_ptr<RawTcp>> silent;
  for (int i = 0; i < 300; ++i) silent.push_back(std::make_unique<RawTcp>(server_->port()));
  ExpectServes();
}

// 30 strangers who connected and said nothing once took a second of a rank each, and the group did
// not form.
TEST_F(HostileStranger, ManyWhoStaySilentKeepNoGroupFromMeeting) {
  TemporaryFolder folder;
  FileStore store(folder.path());
  auto listener = ListenOn("127.0.0.1", 0);
  ASSERT_TRUE(listener);
  const std::uint16_t port = *LocalPort((*listener)->get());
  std::vector<std::unique_ptr<RawTcp>> strangers;
  for (int i = 0; i < 400; ++i) {
    strangers.push_back(std::make_unique<RawTcp>(port));
    ASSERT_TRUE(strangers.back()->is_connected());
    // Some begin to speak.
    if (i % 2 == 0) strangers.back()->Send(std::string(static_cast<std::size_t>(i % 40), 'H'));
  }
  const Endpoint to_first = {.peer = 0, .channel = 0};
  const Endpoint to_second = {.peer = 1, .channel = 0};
  std::thread second([&] {
    auto transport = JoinTcp(store, "g", 1, 2, {});
    ASSERT_TRUE(transport) << transport.error().message;
    const auto met = (*transport)->Connect({&to_first, 1}, InAWhile());
    EXPECT_TRUE(met) << met.error().message;
  });
  auto transport = JoinTcp(store, "g", 0, 2, {.listener = *listener});
  ASSERT_TRUE(transport) << transport.error().message;
  // One second for each stranger was 400 s: more than anybody waits here.
  const auto met = (*transport)->Connect({&to_second, 1}, InAWhile());
  EXPECT_TRUE(met) << met.error().message;
  second.join();
}

}  // namespace
}  // namespace espalier::transport
