#include "collective/transport/stores/tcp_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "collective/transport/rendezvous/tcp_socket.h"
#include "collective/transport/stores/tcp_store_server.h"
#include "tests/attack/raw_tcp.h"
#include "tests/collective/transport/transport_contract.h"

namespace espalier::transport {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// A different port each time, below the kernel's ephemeral range.
std::uint16_t FreePort() {
  static std::uint16_t last = 10'000;
  return ++last;
}

TEST(TcpStore, GivesWhatWasSetAndWaitsForTheRest) {
  auto server = TcpStoreServer::Listen("127.0.0.1", 0, {});
  ASSERT_TRUE(server) << server.error().message;
  auto store = TcpStore::At("127.0.0.1", (*server)->port(), {});
  ASSERT_TRUE(store);
  const auto early = (*store)->Get("a/b", In(milliseconds(20)));
  ASSERT_FALSE(early);
  EXPECT_EQ(early.error().code, ErrorCode::kUnavailable);
  const std::string long_value(60'000, 'v');
  std::vector<std::thread> waiters;
  for (int i = 0; i < 3; ++i) {
    waiters.emplace_back([&] {
      const auto value = (*store)->Get("a/b", InAWhile());
      ASSERT_TRUE(value) << value.error().message;
      EXPECT_EQ(*value, long_value);
    });
  }
  ExpectDone((*store)->Set("other", "1", InAWhile()));
  ExpectDone((*store)->Set("a/b", long_value, InAWhile()));
  for (std::thread& waiter : waiters) waiter.join();
  EXPECT_EQ(*(*store)->Get("other", InAWhile()), "1");
}

TEST(TcpStore, DecidesForOneOfManyClients) {
  auto server = TcpStoreServer::Listen("127.0.0.1", 0, {});
  ASSERT_TRUE(server);
  auto store = TcpStore::At("127.0.0.1", (*server)->port(), {});
  ASSERT_TRUE(store);
  std::vector<std::thread> clients;
  std::vector<std::string> got(6);
  std::string waited;
  clients.emplace_back([&] { waited = (*store)->Get("who", InAWhile()).value_or("nothing"); });
  for (std::size_t i = 0; i < got.size(); ++i) {
    clients.emplace_back([&, i] {
      got[i] = (*store)->SetOnce("who", std::to_string(i), InAWhile()).value_or("nothing");
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(got, std::vector<std::string>(6, waited));
  EXPECT_NE(waited, "nothing");
}

TEST(TcpStore, SurvivesClientsThatSendNonsense) {
  auto server = TcpStoreServer::Listen("127.0.0.1", 0, {});
  ASSERT_TRUE(server);
  const auto place = ParseAddress("127.0.0.1", (*server)->port());
  for (const std::size_t bytes : {1U, 16U, 100'000U}) {
    auto stranger = Dial(*ParseAddress("127.0.0.1", 0), *place, InAWhile());
    ASSERT_TRUE(stranger);
    const std::string nonsense(bytes, '\x7f');
    // If the server has closed the connection already, sending the rest fails.
    static_cast<void>(SendWhole(stranger->get(), nonsense.data(), bytes, In(milliseconds(100))));
  }
  auto store = TcpStore::At("127.0.0.1", (*server)->port(), {});
  ASSERT_TRUE(store);
  ExpectDone((*store)->Set("key", "value", InAWhile()));
  EXPECT_EQ(*(*store)->Get("key", InAWhile()), "value");
  for (const auto& [key, value] : {std::pair(std::string(2000, 'k'), std::string("v")),
                                   std::pair(std::string("k"), std::string(70'000, 'v'))}) {
    const auto refused = (*store)->Set(key, value, InAWhile());
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  }
}

TEST(TcpStore, IsOpenedByItsName) {
  for (const char* name : {"tcp://", "tcp://127.0.0.1", "tcp://127.0.0.1:", "tcp://127.0.0.1:0",
                           "tcp://127.0.0.1:70000", "tcp://127.0.0.1:1x", "tcp://localhost:80"}) {
    const auto opened = OpenStore(name, 0, {});
    ASSERT_FALSE(opened) << name;
    EXPECT_EQ(opened.error().code, ErrorCode::kInvalidArgument) << name;
  }
  const std::string port = std::to_string(FreePort());
  // The client waits before the server listens.
  std::thread other([&] {
    auto store = OpenStore("tcp://[::1]:" + port, 1, {});
    ASSERT_TRUE(store);
    EXPECT_EQ(*(*store)->Get("key", InAWhile()), "value");
    ExpectDone((*store)->Set("answer", "seen", InAWhile()));
  });
  auto store = OpenStore("tcp://[::1]:" + port, 0, {});
  ASSERT_TRUE(store) << store.error().message;
  const auto second = OpenStore("tcp://[::1]:" + port, 0, {});
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, ErrorCode::kAlreadyExists);
  ExpectDone((*store)->Set("key", "value", InAWhile()));
  EXPECT_EQ(*(*store)->Get("answer", InAWhile()), "seen");
  other.join();
}

// A rank that asks the server of another group waits for that of its own, at the same port.
TEST(TcpStore, WaitsForTheServerOfItsGroup) {
  auto server = TcpStoreServer::Listen("127.0.0.1", 0, {}, {.prefix = "job/0/"});
  ASSERT_TRUE(server) << server.error().message;
  const std::uint16_t port = (*server)->port();
  auto store = TcpStore::At("127.0.0.1", port, {});
  ASSERT_TRUE(store);
  ExpectDone((*store)->Set("job/0/key", "old", InAWhile()));
  const auto soon = In(milliseconds(50));
  const auto early = (*store)->Get("job/1/key", soon);
  ASSERT_FALSE(early);
  EXPECT_EQ(early.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(early.error().message, testing::HasSubstr("it has served another group"));
  std::thread other([&] { ExpectDone((*store)->Set("job/1/key", "new", InAWhile())); });
  server->reset();
  auto next = TcpStoreServer::Listen("127.0.0.1", port, {}, {.prefix = "job/1/"});
  ASSERT_TRUE(next) << next.error().message;
  other.join();
  EXPECT_EQ(*(*store)->Get("job/1/key", InAWhile()), "new");
}

// So does one that is cut off, as by a server with the key of a job that ends, but only for a
// while.
TEST(TcpStore, TriesAgainForAWhileIfItIsCutOff) {
  const GroupCredentials own{.key = JobKey::Draw()};
  auto server = TcpStoreServer::Listen("127.0.0.1", 0, {.key = JobKey::Draw()});
  ASSERT_TRUE(server) << server.error().message;
  const std::uint16_t port = (*server)->port();
  auto store = TcpStore::At("127.0.0.1", port, own);
  ASSERT_TRUE(store);
  const auto start = std::chrono::steady_clock::now();
  const auto refused = (*store)->Set("key", "value", InAWhile());
  ASSERT_FALSE(refused);
  EXPECT_GE(std::chrono::steady_clock::now() - start, milliseconds(900));  // it has tried again
  EXPECT_THAT(refused.error().message, testing::HasSubstr("another job key"));
  server->reset();
  auto ending = Listen(*ParseAddress("127.0.0.1", port));
  ASSERT_TRUE(ending) << ending.error().message;
  std::thread other([&] {
    while (
        !(*store)->Set("key", "value", InAWhile())) {  // on a slow machine a while may be too short
    }
  });
  while (!Accept(ending->get())) std::this_thread::yield();  // and hangs up
  ending->Close();
  auto next = TcpStoreServer::Listen("127.0.0.1", port, own);
  ASSERT_TRUE(next) << next.error().message;
  other.join();
  EXPECT_EQ(*(*store)->Get("key", InAWhile()), "value");
}

// The limit is 16 MiB in all; a replaced value frees its space.
TEST(TcpStore, ReplacesAValueAsOftenAsOneLikes) {
  auto server = TcpStoreServer::Listen("127.0.0.1", 0, {});
  ASSERT_TRUE(server) << server.error().message;
  auto store = TcpStore::At("127.0.0.1", (*server)->port(), {});
  ASSERT_TRUE(store);
  const std::string most(64 << 10, 'v');
  for (int i = 0; i < 300; ++i) {
    const auto set = (*store)->Set("key", most.substr(static_cast<std::size_t>(i)), InAWhile());
    ASSERT_TRUE(set) << i << " " << set.error().message;
  }
  EXPECT_EQ(*(*store)->Get("key", InAWhile()), most.substr(299));
}

TEST(TcpStore, DropsClientsThatStaySilentButNotThoseThatWait) {
  auto server =
      TcpStoreServer::Listen("127.0.0.1", 0, {}, {.silence = std::chrono::milliseconds(20)});
  ASSERT_TRUE(server);
  attack::RawTcp waiting((*server)->port());
  ASSERT_TRUE(waiting.Send(attack::StoreRequest('g', "later")));
  ASSERT_TRUE(waiting.Receive(attack::kStoreGreetingBytes));
  const std::string request = attack::StoreRequest('g', "later");
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, request.size() - 1}) {
    attack::RawTcp silent((*server)->port());
    ASSERT_TRUE(silent.Send(request.substr(0, bytes)));
    EXPECT_TRUE(silent.IsHungUpOn()) << bytes;
  }
  auto store = TcpStore::At("127.0.0.1", (*server)->port(), {});
  ASSERT_TRUE(store);
  while (!(*store)->Set("later", "value", InAWhile())) {  // a slow client may seem silent
  }
  EXPECT_TRUE(waiting.Receive(attack::kStoreAnswerBytes + 5));
}

TEST(TcpStore, TakesOnlySoManyKeysButReplacesValues) {
  auto server = TcpStoreServer::Listen("127.0.0.1", 0, {}, {.keys = 3});
  ASSERT_TRUE(server);
  auto store = TcpStore::At("127.0.0.1", (*server)->port(), {});
  ASSERT_TRUE(store);
  for (const char* key : {"a", "b", "c"}) ExpectDone((*store)->Set(key, "old", InAWhile()));
  EXPECT_FALSE((*store)->Set("d", "old", InAWhile()));
  for (const char* key : {"a", "b", "c"}) ExpectDone((*store)->Set(key, "new", InAWhile()));
  for (const char* key : {"a", "b", "c"}) EXPECT_EQ(*(*store)->Get(key, InAWhile()), "new");
}

// A client has said all with its request, whether it has been answered or waits.
TEST(TcpStore, CutsOffClientsThatGoOnAfterTheirRequest) {
  auto server = TcpStoreServer::Listen("127.0.0.1", 0, {});
  ASSERT_TRUE(server);
  for (const char kind : {'s', 'g'}) {
    attack::RawTcp client((*server)->port());
    ASSERT_TRUE(client.Send(attack::StoreRequest(kind, "none", kind == 's' ? "value" : "")));
    ASSERT_TRUE(client.Receive(attack::kStoreGreetingBytes));
    if (kind == 's') {
      ASSERT_TRUE(client.Receive(attack::kStoreAnswerBytes));
    }
    ASSERT_TRUE(client.Send("x"));
    EXPECT_TRUE(client.IsHungUpOn()) << kind;
    auto store = TcpStore::At("127.0.0.1", (*server)->port(), {});
    ASSERT_TRUE(store);
    ExpectDone((*store)->Set("other", "value", InAWhile()));
  }
}

// Whoever has got the value it waited for gets no other one, though it stays connected.
TEST(TcpStore, AnswersAClientThatWaitsOnce) {
  auto server = TcpStoreServer::Listen("127.0.0.1", 0, {});
  ASSERT_TRUE(server);
  attack::RawTcp waiting((*server)->port());
  ASSERT_TRUE(waiting.Send(attack::StoreRequest('g', "key")));
  ASSERT_TRUE(waiting.Receive(attack::kStoreGreetingBytes));
  auto store = TcpStore::At("127.0.0.1", (*server)->port(), {});
  ASSERT_TRUE(store);
  ExpectDone((*store)->Set("key", "first", InAWhile()));
  ASSERT_TRUE(waiting.Receive(attack::kStoreAnswerBytes + 5));
  ExpectDone((*store)->Set("key", "second", InAWhile()));
  ASSERT_TRUE(waiting.Send("x"));  // ends the connection
  std::size_t more = 0;
  EXPECT_TRUE(waiting.IsHungUpOn(&more));
  EXPECT_EQ(more, 0U);
}

// The header alone says so; nobody waits for the rest.
TEST(TcpStore, CutsOffClientsThatAnnounceTooMuch) {
  auto server = TcpStoreServer::Listen("127.0.0.1", 0, {}, {.silence = std::chrono::hours(1)});
  ASSERT_TRUE(server);
  const std::size_t header = attack::StoreRequest('s', "").size();
  for (const auto& [key, value] : {std::pair(std::size_t{1'025}, std::size_t{1}),
                                   std::pair(std::size_t{1}, std::size_t{65'537})}) {
    attack::RawTcp client((*server)->port());
    const std::string request =
        attack::StoreRequest('s', std::string(key, 'k'), std::string(value, 'v'));
    ASSERT_TRUE(client.Send(request.substr(0, header)));
    EXPECT_TRUE(client.IsHungUpOn()) << key << " " << value;
  }
}

// A server that repeats an answer of the past, which an honest client has not asked for.
TEST(TcpStore, RefusesAnswersToOtherRequests) {
  auto listener = Listen(*ParseAddress("127.0.0.1", 0));
  ASSERT_TRUE(listener);
  const std::uint16_t port = *LocalPort(listener->get());
  std::thread impostor([&] {
    ASSERT_TRUE(AwaitSocket(listener->get(), POLLIN, InAWhile()));
    const UniqueFd client = Accept(listener->get());
    const std::uint32_t greeting[10] = {0x32535345};
    ExpectDone(SendWhole(client.get(), greeting, sizeof(greeting), InAWhile()));
    std::string request(attack::StoreRequest('g', "key").size(), '\0');
    ExpectDone(ReceiveWhole(client.get(), request.data(), request.size(), InAWhile()));
    // The nonce differs by a bit; all else is as it should be.
    std::string answer = request.substr(0, attack::kStoreAnswerBytes);
    std::fill(answer.begin() + 8, answer.begin() + 16, '\0');
    answer[16] = static_cast<char>(answer[16] ^ 1);
    std::fill(answer.end() - 32, answer.end(), '\0');
    ExpectDone(SendWhole(client.get(), answer.data(), answer.size(), InAWhile()));
  });
  auto store = TcpStore::At("127.0.0.1", port, {});
  ASSERT_TRUE(store);
  const auto got = (*store)->Get("key", InAWhile());
  impostor.join();
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code, ErrorCode::kPermissionDenied);
}

}  // namespace
}  // namespace espalier::transport
