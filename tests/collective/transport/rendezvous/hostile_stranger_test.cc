// Strangers on the network that attack groups of ranks, without the library's client.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "collective/transport/stores/file_store.h"
#include "collective/transport/stores/tcp_store.h"
#include "collective/transport/stores/tcp_store_server.h"
#include "collective/transport/tcp/tcp_transport.h"
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
    auto server = TcpStoreServer::Listen("127.0.0.1", 0, members_);
    ASSERT_TRUE(server) << server.error().message;
    server_ = std::move(*server);
  }
  void ExpectServes() {
    auto store = TcpStore::At("127.0.0.1", server_->port(), members_);
    ASSERT_TRUE(store);
    const auto set = (*store)->Set("honest", "value", InAWhile());
    EXPECT_TRUE(set) << set.error().message;
    const auto got = (*store)->Get("honest", InAWhile());
    ASSERT_TRUE(got) << got.error().message;
    EXPECT_EQ(*got, "value");
  }
  // A group without a key, as at a loopback address, which lets strangers in.
  GroupCredentials members_;
  std::unique_ptr<TcpStoreServer> server_;
};

// A group with a key that the stranger does not have.
class StrangerWithoutKey : public HostileStranger {
 protected:
  StrangerWithoutKey() { members_.key = JobKey::Draw(); }
};

// Regression: answers piled up for a client that asked and did not read, 3,500 bytes for each byte
// of its own. A connection gets one answer.
TEST_F(HostileStranger, WhoAsksTwiceIsCutOff) {
  RawTcp other(server_->port());
  ASSERT_TRUE(other.Send(StoreRequest('s', "k", std::string(64 << 10, 'v'))));
  ASSERT_TRUE(other.Receive(attack::kStoreGreetingBytes + attack::kStoreAnswerBytes));
  RawTcp stranger(server_->port());
  for (int i = 0; i < 600 && stranger.Send(StoreRequest('g', "k")); ++i) {
  }
  std::size_t got = 0;
  EXPECT_TRUE(stranger.IsHungUpOn(&got));
  EXPECT_LE(got, attack::kStoreGreetingBytes + attack::kStoreAnswerBytes + (64 << 10));
  ExpectServes();
}

TEST_F(HostileStranger, CannotFillTheStoresMemory) {
  const std::string value(60'000, 'v');
  const auto is_taken = [&](int number) {
    RawTcp stranger(server_->port());
    return stranger.Send(StoreRequest('s', std::to_string(number), value)) &&
           stranger.Receive(attack::kStoreGreetingBytes + attack::kStoreAnswerBytes);
  };
  int taken = 0;
  while (taken < 1'000 && is_taken(taken)) ++taken;
  // 16 MiB, not the 4 GiB of all keys.
  EXPECT_EQ(taken, (16 << 20) / 60'003);
  // Existing keys can be changed, and an honest client is told at once that the store is full.
  auto store = TcpStore::At("127.0.0.1", server_->port(), members_);
  EXPECT_TRUE((*store)->Set("0", "small", InAWhile()));
  ExpectServes();
}

TEST_F(HostileStranger, ManyWhoStaySilentKeepNobodyFromTheStore) {
  std::vector<std::unique_ptr<RawTcp>> silent;
  for (int i = 0; i < 300; ++i) silent.push_back(std::make_unique<RawTcp>(server_->port()));
  ExpectServes();
}

// Of more than 512 silent clients the oldest is dropped, though thousands that have asked fit.
TEST_F(HostileStranger, WhoStaysSilentLongestGivesWay) {
  constexpr rlim_t kFiles = 2'048;  // both ends of each connection are here
  rlimit files = {};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &files), 0);
  if (files.rlim_max < kFiles) GTEST_SKIP() << "this process may have " << files.rlim_max;
  files.rlim_cur = std::max(files.rlim_cur, kFiles);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &files), 0);
  RawTcp waiting(server_->port());
  ASSERT_TRUE(waiting.Send(StoreRequest('g', "later")));
  std::vector<std::unique_ptr<RawTcp>> silent;
  for (int i = 0; i < 600; ++i) {
    silent.push_back(std::make_unique<RawTcp>(server_->port()));
    ASSERT_TRUE(silent.back()->is_connected());
    // A client counts only after the server has accepted it.
    ASSERT_TRUE(silent.back()->Receive(attack::kStoreGreetingBytes));
  }
  for (int i = 0; i < 600 - 512; ++i) {
    EXPECT_TRUE(silent[static_cast<std::size_t>(i)]->HasHungUp()) << i;  // not after a while
  }
  auto store = TcpStore::At("127.0.0.1", server_->port(), members_);
  EXPECT_TRUE((*store)->Set("later", "value", InAWhile()));
  EXPECT_TRUE(waiting.Receive(attack::kStoreGreetingBytes + attack::kStoreAnswerBytes));
}

// Regression: 30 silent strangers delayed a rank by a second each, and the group did not form.
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
    // Some send a part of a hello.
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
  // One second for each stranger would be 400 s, longer than the timeout.
  const auto met = (*transport)->Connect({&to_second, 1}, InAWhile());
  EXPECT_TRUE(met) << met.error().message;
  second.join();
}

// Regression: anybody who reached the store's port could replace a rank's address and relay.
TEST_F(StrangerWithoutKey, NeitherReadsNorWritesTheStore) {
  ExpectServes();
  for (const bool sets : {true, false}) {
    RawTcp stranger(server_->port());
    ASSERT_TRUE(
        stranger.Send(sets ? StoreRequest('s', "honest", "his") : StoreRequest('g', "honest")));
    std::size_t got = 0;
    EXPECT_TRUE(stranger.IsHungUpOn(&got));
    EXPECT_EQ(got, attack::kStoreGreetingBytes);
  }
  auto store = TcpStore::At("127.0.0.1", server_->port(), members_);
  EXPECT_EQ(*(*store)->Get("honest", InAWhile()), "value");
}

TEST_F(StrangerWithoutKey, IsToldWhyWhereItIsOneOfUs) {
  for (const auto& key : {std::optional<JobKey>(), std::optional(JobKey::Draw())}) {
    auto store = TcpStore::At("127.0.0.1", server_->port(), {.key = key});
    const auto set = (*store)->Set("honest", "other", InAWhile());
    ASSERT_FALSE(set);
    EXPECT_NE(set.error().message.find("job key"), std::string::npos) << set.error().message;
  }
}

// A stranger that listens in place of the store and answers anything.
TEST_F(StrangerWithoutKey, CannotStandInForTheStore) {
  const auto listener = Listen(*ParseAddress("127.0.0.1", 0));
  std::thread stand_in([&] {
    ASSERT_TRUE(AwaitSocket(listener->get(), POLLIN, InAWhile()));
    const UniqueFd caller = Accept(listener->get());
    const std::uint32_t head[2] = {0x32535345, 1};
    const std::string greeting =
        std::string(reinterpret_cast<const char*>(head), sizeof(head)) + std::string(32, 'n');
    ASSERT_TRUE(SendWhole(caller.get(), greeting.data(), greeting.size(), InAWhile()));
    std::string request(attack::kStoreAnswerBytes + 6, '\0');
    ASSERT_TRUE(ReceiveWhole(caller.get(), request.data(), request.size(), InAWhile()));
    // The request's nonce and another address, but an invalid code.
    std::string answer = StoreRequest('g', "", "10.6.6.6 23 1 4");
    request.copy(answer.data() + 16, 32, 16);
    ASSERT_TRUE(SendWhole(caller.get(), answer.data(), answer.size(), InAWhile()));
  });
  auto store = TcpStore::At("127.0.0.1", *LocalPort(listener->get()), members_);
  const auto got = (*store)->Get("g/tcp0", InAWhile());
  stand_in.join();
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code, ErrorCode::kPermissionDenied) << got.error().message;
}

// It knows everything but the key: the ranks' addresses, their group number and the handshake.
TEST_F(StrangerWithoutKey, CannotJoinAGroup) {
  TemporaryFolder folder;
  FileStore store(folder.path());
  auto first = JoinTcp(store, "g", 0, 2, {.members = members_});
  ASSERT_TRUE(first) << first.error().message;
  std::uint16_t port = 0;
  attack::RankHello hello;
  std::istringstream place(*store.Get("g/tcp.0", InAWhile()));
  std::string address;
  place >> address >> port >> hello.group;
  std::vector<std::unique_ptr<RawTcp>> strangers;
  const auto call = [&](const attack::RankHello& said) -> RawTcp& {
    strangers.push_back(std::make_unique<RawTcp>(port));
    EXPECT_TRUE(strangers.back()->Send(said.ToBytes()));
    return *strangers.back();
  };
  std::thread attacks([&] {
    // Sends a random code, the peer's own code, or none.
    RawTcp& guesser = call(hello);
    EXPECT_NE(guesser.Take(64), "");
    EXPECT_TRUE(guesser.Send(std::string(32, 'g')));
    EXPECT_TRUE(guesser.IsHungUpOn());
    RawTcp& mirror = call(hello);
    const std::string challenge = mirror.Take(64);
    ASSERT_EQ(challenge.size(), 64U);
    EXPECT_TRUE(mirror.Send(challenge.substr(32)));
    EXPECT_TRUE(mirror.IsHungUpOn());
    attack::RankHello open = hello;
    open.is_keyed = 0;
    EXPECT_TRUE(call(open).IsHungUpOn());
    // Other strangers stop in the middle of the handshake.
    for (int i = 0; i < 300; ++i) call(hello);
    auto second = JoinTcp(store, "g", 1, 2, {.members = members_});
    ASSERT_TRUE(second) << second.error().message;
    const Endpoint to_first = {.peer = 0, .channel = 0};
    const auto met = (*second)->Connect({&to_first, 1}, InAWhile());
    EXPECT_TRUE(met) << met.error().message;
  });
  const Endpoint to_second = {.peer = 1, .channel = 0};
  const auto met = (*first)->Connect({&to_second, 1}, InAWhile());
  EXPECT_TRUE(met) << met.error().message;
  attacks.join();
}

TEST_F(StrangerWithoutKey, CannotStandInForARank) {
  TemporaryFolder folder;
  FileStore store(folder.path());
  const auto listener = Listen(*ParseAddress("127.0.0.1", 0));
  ASSERT_TRUE(store.Set(
      "g/tcp.0", "127.0.0.1 " + std::to_string(*LocalPort(listener->get())) + " 7 4", InAWhile()));
  std::thread stand_in([&] {
    ASSERT_TRUE(AwaitSocket(listener->get(), POLLIN, InAWhile()));
    const UniqueFd caller = Accept(listener->get());
    attack::RankHello hello;
    ASSERT_TRUE(ReceiveWhole(caller.get(), &hello, sizeof(hello), InAWhile()));
    const std::string challenge(64, 'c');
    ASSERT_TRUE(SendWhole(caller.get(), challenge.data(), challenge.size(), InAWhile()));
    char proof = 0;
    EXPECT_FALSE(ReceiveWhole(caller.get(), &proof, 1, InAWhile()));
  });
  auto second = JoinTcp(store, "g", 1, 2, {.members = members_});
  ASSERT_TRUE(second) << second.error().message;
  const Endpoint to_first = {.peer = 0, .channel = 0};
  const auto met = (*second)->Connect({&to_first, 1}, InAWhile());
  ASSERT_FALSE(met);
  EXPECT_EQ(met.error().code, ErrorCode::kPermissionDenied) << met.error().message;
  second->reset();
  stand_in.join();
}

// A hostile rank, or whoever can write to the store, directs the others to another address.
TEST_F(StrangerWithoutKey, SendsNobodyWhereThePlanDoesNot) {
  TemporaryFolder folder;
  FileStore store(folder.path());
  const auto elsewhere = Listen(*ParseAddress("127.0.0.2", 0));
  ASSERT_TRUE(store.Set(
      "g/tcp.0", "127.0.0.2 " + std::to_string(*LocalPort(elsewhere->get())) + " 7 4", InAWhile()));
  const IpAddress planned = IpAddress::Parse("127.0.0.1").value();
  const Endpoint to_first = {.peer = 0, .channel = 0};
  // Refused by the plan's addresses, or by the networks that an operator allows.
  const GroupCredentials by_plan = {.key = members_.key, .addresses = {planned, planned}};
  const GroupCredentials by_network = {.key = members_.key,
                                       .networks = {*IpPrefix::Parse("127.0.0.1/32")}};
  for (const GroupCredentials& members : {by_plan, by_network}) {
    auto second = JoinTcp(store, "g", 1, 2, {.members = members});
    ASSERT_TRUE(second) << second.error().message;
    const auto met = (*second)->Connect({&to_first, 1}, InAWhile());
    ASSERT_FALSE(met);
    EXPECT_EQ(met.error().code, ErrorCode::kPermissionDenied) << met.error().message;
    EXPECT_FALSE(Accept(elsewhere->get()));
  }
}

// Without a key a group does not use addresses that strangers can reach.
TEST(GroupWithoutKey, MeetsAtLoopbackAddressesOnly) {
  TemporaryFolder folder;
  FileStore store(folder.path());
  for (const char* address : {"10.0.0.1", "192.0.2.7", "fd00::1", "0.0.0.0"}) {
    const auto joined = JoinTcp(store, "g", 0, 2, {.address = address});
    ASSERT_FALSE(joined);
    EXPECT_EQ(joined.error().code, ErrorCode::kPermissionDenied) << address;
    const auto server = TcpStoreServer::Listen(address, 0, {});
    ASSERT_FALSE(server);
    EXPECT_EQ(server.error().code, ErrorCode::kPermissionDenied) << address;
    EXPECT_FALSE(TcpStore::At(address, 1, {}));
    EXPECT_TRUE(TcpStore::At(address, 1, {.key = JobKey::Draw()}));
    EXPECT_TRUE(TcpStore::At(address, 1, {.trusts_network = true}));
  }
}

}  // namespace
}  // namespace espalier::transport
