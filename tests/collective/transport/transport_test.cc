#include "collective/transport/transport.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "collective/transport/shared_group.h"
#include "collective/transport/shm_transport.h"
#include "collective/transport/tcp_socket.h"
#include "collective/transport/tcp_store.h"
#include "collective/transport/tcp_transport.h"
#include "tests/temporary_folder.h"

namespace espalier::transport {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

constexpr std::size_t kSlotBytes = 8192;
constexpr int kSlots = 3;

Deadline In(milliseconds time) { return steady_clock::now() + time; }
Deadline InAWhile() { return In(seconds(60)); }

struct Kind {
  std::string name;
  std::function<Result<std::unique_ptr<Transport>>(Store&, int rank, int size, Deadline)> join;
};

std::vector<Kind> Kinds() {
  return {{"shm",
           [](Store& store, int rank, int size, Deadline deadline) {
             return JoinShm(store, "g", rank, size,
                            {.channels = 3, .slots = kSlots, .slot_bytes = kSlotBytes}, deadline);
           }},
          {"tcp", [](Store& store, int rank, int size, Deadline /*deadline*/) {
             return JoinTcp(store, "g", rank, size, {.slots = kSlots, .slot_bytes = kSlotBytes});
           }}};
}

class TransportContract : public ::testing::TestWithParam<Kind> {
 protected:
  // Runs the ranks of one group as threads.
  void RunRanks(int size, const std::function<void(Transport&)>& body) {
    std::vector<std::thread> threads;
    for (int rank = 0; rank < size; ++rank) {
      threads.emplace_back([&, rank] {
        auto transport = GetParam().join(store_, rank, size, InAWhile());
        ASSERT_TRUE(transport) << transport.error().message;
        body(**transport);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

  TemporaryFolder folder_;
  FileStore store_{folder_.path()};
};

void ExpectDone(const Result<void>& result) { ASSERT_TRUE(result) << result.error().message; }

std::byte* AwaitSlot(Transport& transport, Endpoint endpoint) {
  while (true) {
    std::byte* slot = transport.outbox(endpoint).TryAcquire();
    if (slot != nullptr) return slot;
    ExpectDone(transport.Wait(InAWhile()));
  }
}

const Message& AwaitMessage(Transport& transport, Endpoint endpoint) {
  while (true) {
    const Message* message = transport.inbox(endpoint).TryPeek();
    if (message != nullptr) return *message;
    ExpectDone(transport.Wait(InAWhile()));
  }
}

Error AwaitError(Transport& transport, Endpoint endpoint, Deadline deadline = InAWhile()) {
  while (true) {
    EXPECT_EQ(transport.inbox(endpoint).TryPeek(), nullptr);
    auto waited = transport.Wait(deadline);
    if (!waited) return waited.error();
  }
}

std::size_t SizeOfMessage(int sender, int channel, int index) {
  std::mt19937 random(static_cast<unsigned>(sender * 1000 + channel * 100 + index));
  return index % 7 == 0 ? 0 : random() % (kSlotBytes + 1);
}

std::byte ContentOf(int sender, int channel, int index) {
  return static_cast<std::byte>(sender * 37 + channel * 11 + index);
}

TEST_P(TransportContract, DeliversEveryMessageInOrderOnEveryConnection) {
  constexpr int kMessages = 60;
  constexpr int kChannels = 3;
  RunRanks(4, [](Transport& transport) {
    std::vector<Endpoint> endpoints;
    for (int peer = 0; peer < transport.size(); ++peer) {
      for (int channel = 0; channel < kChannels; ++channel) {
        if (peer != transport.rank()) endpoints.push_back({peer, channel});
      }
    }
    ExpectDone(transport.Connect(endpoints, InAWhile()));
    std::vector<int> sent(endpoints.size());
    std::vector<int> received(endpoints.size());
    std::size_t finished = 0;
    while (finished < 2 * endpoints.size()) {
      bool moved = false;
      finished = 0;
      for (std::size_t e = 0; e < endpoints.size(); ++e) {
        const auto [peer, channel] = endpoints[e];
        std::byte* slot =
            sent[e] < kMessages ? transport.outbox(endpoints[e]).TryAcquire() : nullptr;
        if (slot != nullptr) {
          ASSERT_EQ(reinterpret_cast<std::uintptr_t>(slot) % 64, 0U);
          const std::size_t bytes = SizeOfMessage(transport.rank(), channel, sent[e]);
          std::memset(slot, static_cast<int>(ContentOf(transport.rank(), channel, sent[e])), bytes);
          transport.outbox(endpoints[e])
              .Commit(bytes, {static_cast<std::uint64_t>(sent[e]), 2, 3, 4});
          ++sent[e];
          moved = true;
        }
        const Message* message =
            received[e] < kMessages ? transport.inbox(endpoints[e]).TryPeek() : nullptr;
        if (message != nullptr) {
          ASSERT_EQ(message->tag, (MessageTag{static_cast<std::uint64_t>(received[e]), 2, 3, 4}));
          ASSERT_EQ(message->bytes.size(), SizeOfMessage(peer, channel, received[e]));
          for (const std::byte byte : message->bytes) {
            ASSERT_EQ(byte, ContentOf(peer, channel, received[e]));
          }
          transport.inbox(endpoints[e]).Release();
          ++received[e];
          moved = true;
        }
        finished += (sent[e] == kMessages ? 1U : 0U) + (received[e] == kMessages ? 1U : 0U);
      }
      if (!moved && finished < 2 * endpoints.size()) ExpectDone(transport.Wait(InAWhile()));
    }
    ExpectDone(transport.Flush(InAWhile()));
  });
}

// What deadlock freedom rests on: so many messages may be sent that nobody reads yet.
TEST_P(TransportContract, HoldsAsManyMessagesAsItHasSlots) {
  RunRanks(2, [](Transport& transport) {
    const Endpoint endpoint = {1 - transport.rank(), 0};
    ExpectDone(transport.Connect({&endpoint, 1}, InAWhile()));
    for (int i = 0; i < transport.slots(); ++i) {
      ASSERT_NE(transport.outbox(endpoint).TryAcquire(), nullptr) << i;
      transport.outbox(endpoint).Commit(transport.slot_bytes(), {});
    }
    for (int i = 0; i < transport.slots(); ++i) {
      EXPECT_EQ(AwaitMessage(transport, endpoint).bytes.size(), transport.slot_bytes());
      transport.inbox(endpoint).Release();
    }
    ExpectDone(transport.Flush(InAWhile()));
  });
}

// A peer that has sent its last message may go while others still read.
TEST_P(TransportContract, DeliversWhatARankSentBeforeItLeft) {
  RunRanks(3, [](Transport& transport) {
    if (transport.rank() == 2) {
      const Endpoint endpoint = {1, 0};
      ExpectDone(transport.Connect({&endpoint, 1}, InAWhile()));
      AwaitSlot(transport, endpoint)[0] = std::byte{42};
      transport.outbox(endpoint).Commit(1, {});
      ExpectDone(transport.Flush(InAWhile()));
      return;
    }
    const Endpoint other = {1 - transport.rank(), 0};
    ExpectDone(transport.Connect({&other, 1}, InAWhile()));
    if (transport.rank() == 1) {
      const Endpoint leaver = {2, 0};
      ExpectDone(transport.Connect({&leaver, 1}, InAWhile()));
      EXPECT_EQ(AwaitMessage(transport, leaver).bytes[0], std::byte{42});
      transport.inbox(leaver).Release();
      AwaitSlot(transport, other);
      transport.outbox(other).Commit(0, {});
      ExpectDone(transport.Flush(InAWhile()));
    } else {
      AwaitMessage(transport, other);
      transport.inbox(other).Release();
    }
  });
}

TEST_P(TransportContract, TimesOutWhereNothingComes) {
  RunRanks(2, [](Transport& transport) {
    const Endpoint endpoint = {1 - transport.rank(), 0};
    ExpectDone(transport.Connect({&endpoint, 1}, InAWhile()));
    if (transport.rank() == 0) {
      const Error error = AwaitError(transport, endpoint, In(milliseconds(50)));
      EXPECT_EQ(error.code, ErrorCode::kUnavailable);
      AwaitSlot(transport, endpoint);
      transport.outbox(endpoint).Commit(0, {});
      ExpectDone(transport.Flush(InAWhile()));
    } else {
      AwaitMessage(transport, endpoint);
    }
  });
}

TEST_P(TransportContract, TellsEveryRankWhyOneGaveUp) {
  RunRanks(3, [](Transport& transport) {
    std::vector<Endpoint> endpoints;
    for (int peer = 0; peer < 3; ++peer) {
      if (peer != transport.rank()) endpoints.push_back({peer, 0});
    }
    ExpectDone(transport.Connect(endpoints, InAWhile()));
    if (transport.rank() == 1) {
      transport.Abort({ErrorCode::kUnavailable, "rank 1 ran out of patience"});
      return;
    }
    const Error error = AwaitError(transport, {1, 0});
    EXPECT_EQ(error.message, "rank 1 ran out of patience");
    transport.Abort(error);
  });
}

TEST_P(TransportContract, NamesARankThatWasKilled) {
  const pid_t child = ::fork();
  if (child == 0) {
    auto transport = GetParam().join(store_, 1, 2, InAWhile());
    const Endpoint endpoint = {0, 0};
    if (transport && (*transport)->Connect({&endpoint, 1}, InAWhile())) ::raise(SIGKILL);
    ::_exit(1);
  }
  auto transport = GetParam().join(store_, 0, 2, InAWhile());
  ASSERT_TRUE(transport) << transport.error().message;
  const Endpoint endpoint = {1, 0};
  ExpectDone((*transport)->Connect({&endpoint, 1}, InAWhile()));
  const Error error = AwaitError(**transport, endpoint);
  EXPECT_NE(error.message.find("rank 1"), std::string::npos) << error.message;
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status));
}

TEST_P(TransportContract, NamesARankThatDoesNotCome) {
  std::vector<std::thread> threads;
  for (const int rank : {0, 2}) {
    threads.emplace_back([&, rank] {
      auto transport = GetParam().join(store_, rank, 3, In(milliseconds(200)));
      Result<void> ready;
      if (transport) {
        const Endpoint endpoint = {1, 0};
        ready = (*transport)->Connect({&endpoint, 1}, In(milliseconds(200)));
      } else {
        ready = Propagate(transport);
      }
      ASSERT_FALSE(ready);
      EXPECT_EQ(ready.error().code, ErrorCode::kUnavailable);
      EXPECT_TRUE(ready.error().message.find("rank 1") != std::string::npos ||
                  ready.error().message.ends_with("in time: 1"))
          << ready.error().message;
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_P(TransportContract, RefusesRanksAndPeersThatAreNotThere) {
  const auto joined = GetParam().join(store_, 2, 2, InAWhile());
  ASSERT_FALSE(joined);
  EXPECT_EQ(joined.error().code, ErrorCode::kInvalidArgument);
  auto alone = GetParam().join(store_, 0, 1, InAWhile());
  ASSERT_TRUE(alone) << alone.error().message;
  for (const Endpoint& endpoint : {Endpoint{0, 0}, Endpoint{1, 0}, Endpoint{-1, 0}}) {
    const auto connected = (*alone)->Connect({&endpoint, 1}, InAWhile());
    ASSERT_FALSE(connected);
    EXPECT_EQ(connected.error().code, ErrorCode::kInvalidArgument);
  }
}

INSTANTIATE_TEST_SUITE_P(All, TransportContract, ::testing::ValuesIn(Kinds()),
                         [](const auto& test) { return test.param.name; });

// A port that is free now, below those that the kernel hands out by itself.
std::uint16_t FreePort() {
  auto port = static_cast<std::uint16_t>(10'000 + ::getpid() % 10'000);
  while (!Listen(*ParseAddress("::1", port)) || !Listen(*ParseAddress("127.0.0.1", port))) ++port;
  return port;
}

TEST(TcpTransport, ConnectsFromTheChosenSourcePort) {
  TemporaryFolder folder;
  FileStore store(folder.path());
  const std::uint16_t port = FreePort();
  std::thread higher([&] {
    const Endpoint endpoint = {0, 0};
    const PlannedConnections planned = {.sends = {{endpoint, port}}, .receives = {}};
    auto transport = JoinTcp(store, "g", 1, 2, {.planned = planned});
    ASSERT_TRUE(transport);
    ExpectDone((*transport)->Connect({&endpoint, 1}, InAWhile()));
    // Slots are asked for until the end of the connection shows.
    Result<void> waited;
    while (waited) {
      std::byte* slot = (*transport)->outbox(endpoint).TryAcquire();
      if (slot != nullptr) {
        (*transport)->outbox(endpoint).Commit((*transport)->slot_bytes(), {});
      }
      waited = (*transport)->Wait(InAWhile());
    }
    const Error& error = waited.error();
    EXPECT_EQ(error.message, "rank 0 is gone: it sends something else than messages");
  });
  // Stands in for rank 0, and sees where the connection comes from.
  const auto listener = Listen(*ParseAddress("127.0.0.1", 0));
  ASSERT_TRUE(
      store.Set("g/tcp.0", "127.0.0.1 " + std::to_string(*LocalPort(listener->get())) + " 7"));
  ASSERT_TRUE(AwaitSocket(listener->get(), POLLIN, InAWhile()));
  sockaddr_in peer = {};
  socklen_t length = sizeof(peer);
  UniqueFd socket(::accept(listener->get(), reinterpret_cast<sockaddr*>(&peer), &length));
  EXPECT_EQ(ntohs(peer.sin_port), port);
  // Bytes that are no frame end the connection; a message of that rank is not made up of them.
  const std::vector<char> nonsense(200, 'x');
  ASSERT_EQ(::send(socket.get(), nonsense.data(), nonsense.size(), MSG_NOSIGNAL), 200);
  higher.join();
}

TEST(FileStore, GivesWhatWasSetAndWaitsForTheRest) {
  TemporaryFolder folder;
  FileStore store(folder.path() + "/made/when needed");
  const auto early = store.Get("a/b", In(milliseconds(20)));
  ASSERT_FALSE(early);
  EXPECT_EQ(early.error().code, ErrorCode::kUnavailable);
  std::thread later([&] { ExpectDone(store.Set("a/b", std::string(100'000, 'v'))); });
  const auto value = store.Get("a/b", InAWhile());
  later.join();
  ASSERT_TRUE(value);
  EXPECT_EQ(*value, std::string(100'000, 'v'));
}

TEST(TcpStore, GivesWhatWasSetAndWaitsForTheRest) {
  auto server = TcpStoreServer::Listen("127.0.0.1", 0);
  ASSERT_TRUE(server) << server.error().message;
  auto store = TcpStore::At("127.0.0.1", (*server)->port(), seconds(60));
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
  ExpectDone((*store)->Set("other", "1"));
  ExpectDone((*store)->Set("a/b", long_value));
  for (std::thread& waiter : waiters) waiter.join();
  EXPECT_EQ(*(*store)->Get("other", InAWhile()), "1");
}

TEST(TcpStore, OutlivesCallersThatMakeNoSense) {
  auto server = TcpStoreServer::Listen("127.0.0.1", 0);
  ASSERT_TRUE(server);
  const auto place = ParseAddress("127.0.0.1", (*server)->port());
  for (const std::size_t bytes : {1, 16, 100'000}) {
    auto stranger = Dial(*ParseAddress("127.0.0.1", 0), *place, InAWhile());
    ASSERT_TRUE(stranger);
    const std::string nonsense(bytes, '\x7f');
    // Where the server has cut it off already, the rest is not taken.
    static_cast<void>(SendWhole(stranger->get(), nonsense.data(), bytes, In(milliseconds(100))));
  }
  auto store = TcpStore::At("127.0.0.1", (*server)->port(), seconds(60));
  ASSERT_TRUE(store);
  ExpectDone((*store)->Set("key", "value"));
  EXPECT_EQ(*(*store)->Get("key", InAWhile()), "value");
  for (const auto& [key, value] : {std::pair(std::string(2000, 'k'), std::string("v")),
                                   std::pair(std::string("k"), std::string(70'000, 'v'))}) {
    const auto refused = (*store)->Set(key, value);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  }
}

TEST(TcpStore, IsOpenedByItsName) {
  for (const char* name : {"tcp://", "tcp://127.0.0.1", "tcp://127.0.0.1:", "tcp://127.0.0.1:0",
                           "tcp://127.0.0.1:70000", "tcp://127.0.0.1:1x", "tcp://localhost:80"}) {
    const auto opened = OpenStore(name, 0, seconds(1));
    ASSERT_FALSE(opened) << name;
    EXPECT_EQ(opened.error().code, ErrorCode::kInvalidArgument) << name;
  }
  const std::string port = std::to_string(FreePort());
  // The one that waits comes before the one that serves.
  std::thread other([&] {
    auto store = OpenStore("tcp://[::1]:" + port, 1, seconds(60));
    ASSERT_TRUE(store);
    EXPECT_EQ(*(*store)->Get("key", InAWhile()), "value");
    ExpectDone((*store)->Set("answer", "seen"));
  });
  auto store = OpenStore("tcp://[::1]:" + port, 0, seconds(60));
  ASSERT_TRUE(store) << store.error().message;
  const auto second = OpenStore("tcp://[::1]:" + port, 0, seconds(60));
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, ErrorCode::kAlreadyExists);
  ExpectDone((*store)->Set("key", "value"));
  EXPECT_EQ(*(*store)->Get("answer", InAWhile()), "seen");
  other.join();
}

}  // namespace
}  // namespace espalier::transport
