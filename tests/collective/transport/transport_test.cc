#include "collective/transport/base/transport.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "collective/transport/meeting/handshake.h"
#include "collective/transport/meeting/tcp_socket.h"
#include "collective/transport/shm/shared_group.h"
#include "collective/transport/shm/shm_transport.h"
#include "collective/transport/stores/file_store.h"
#include "collective/transport/stores/tcp_store.h"
#include "collective/transport/tcp/tcp_transport.h"
#include "tests/collective/transport/transport_contract.h"
#include "tests/temporary_folder.h"

namespace espalier::transport {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

std::vector<Kind> Kinds() {
  return {{"shm",
           [](Store& store, int rank, int size, Deadline deadline) {
             return JoinShm(store, "g", rank, size,
                            {.channels = 3, .slots = kSlots, .slot_bytes = kSlotBytes}, deadline);
           }},
          {"tcp", [](Store& store, int rank, int size, Deadline /*deadline*/) {
             static const Membership members = {.key = JobKey::Draw()};
             return JoinTcp(store, "g", rank, size,
                            {.slots = kSlots, .slot_bytes = kSlotBytes, .members = members});
           }}};
}

INSTANTIATE_TEST_SUITE_P(All, TransportContract, ::testing::ValuesIn(Kinds()),
                         [](const auto& test) { return test.param.name; });

// Another each time, below those that the kernel hands out by itself.
std::uint16_t FreePort() {
  static std::uint16_t last = 10'000;
  return ++last;
}

// Though there are cores enough for both, if the machine has two.
TEST(SharedGroup, RanksOnOneCoreWaitForOneAnother) {
  constexpr std::uint32_t kTurns = 200;
  TemporaryFolder folder;
  FileStore store(folder.path());
  const auto take_turns = [&](int rank) {
    cpu_set_t allowed;
    ASSERT_EQ(::sched_getaffinity(0, sizeof(allowed), &allowed), 0);
    auto group = SharedGroup::Join(store, "g", rank, 2, 2 * sizeof(Signal), InAWhile());
    ASSERT_TRUE(group);
    int first = 0;
    while (!CPU_ISSET(first, &allowed)) ++first;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    ASSERT_EQ(::sched_setaffinity(0, sizeof(one), &one), 0);
    auto* signals = reinterpret_cast<Signal*>((*group)->memory());
    Signal& theirs = signals[1 - rank];
    for (std::uint32_t turn = 1; turn <= kTurns; ++turn) {
      signals[rank].Set(turn);
      while (theirs.value < turn) {
        ExpectDone((*group)->Await(theirs, turn - 1, InAWhile()));
      }
    }
    EXPECT_GE(theirs.value, kTurns);
  };
  std::thread other([&] { take_turns(1); });
  std::thread one([&] { take_turns(0); });
  one.join();
  other.join();
}

// However few of them each may run on.
// Two ranks of one group, of this process.
struct TwoRanks {
  TwoRanks() {
    std::thread other([&] { groups[1] = Join(1); });
    groups[0] = Join(0);
    other.join();
  }
  std::unique_ptr<SharedGroup> Join(int rank) {
    auto group = SharedGroup::Join(store, "group", rank, 2, sizeof(Signal), InAWhile());
    EXPECT_TRUE(group) << group.error().message;
    return std::move(*group);
  }

  TemporaryFolder folder;
  FileStore store{folder.path()};
  std::unique_ptr<SharedGroup> groups[2];
};

TEST(SharedGroup, WhoGivesUpWaitsForWhoeverReaches) {
  const auto soon = [] { return std::chrono::steady_clock::now() + std::chrono::milliseconds(20); };
  TwoRanks ranks;
  ASSERT_TRUE(ranks.groups[1]->Reach());
  ranks.groups[0]->Abort({ErrorCode::kUnavailable, "rank 0 has waited enough"});
  EXPECT_EQ(ranks.groups[0]->AwaitWithdrawal(soon()), 1);
  std::thread later([&] { ranks.groups[1]->Withdraw(); });
  EXPECT_EQ(ranks.groups[0]->AwaitWithdrawal(InAWhile()), std::nullopt);
  later.join();
}

TEST(SharedGroup, NobodyReachesOnceARankHasGivenUp) {
  TwoRanks ranks;
  ranks.groups[0]->Abort({ErrorCode::kUnavailable, "rank 0 has waited enough"});
  const auto reached = ranks.groups[1]->Reach();
  ASSERT_FALSE(reached);
  EXPECT_EQ(reached.error().message, "rank 0 has waited enough");
  EXPECT_EQ(ranks.groups[0]->AwaitWithdrawal(InAWhile()), std::nullopt);
}

// A rank gives up at any time while another reaches and withdraws as fast as it can: memory that
// has been given back is never touched.
TEST(SharedGroup, MemoryThatHasBeenGivenBackIsNotTouched) {
  for (int round = 0; round < 200; ++round) {
    TwoRanks ranks;
    std::atomic<bool> is_given_back = false;
    std::atomic<int> touched_late = 0;
    std::thread reacher([&] {
      while (touched_late == 0 && ranks.groups[1]->Reach()) {
        if (is_given_back) ++touched_late;
        ranks.groups[1]->Withdraw();
      }
    });
    for (int i = 0; i < round % 20; ++i) std::this_thread::yield();
    ranks.groups[0]->Abort({ErrorCode::kUnavailable, "enough"});
    EXPECT_EQ(ranks.groups[0]->AwaitWithdrawal(InAWhile()), std::nullopt);
    is_given_back = true;
    reacher.join();
    ASSERT_EQ(touched_late, 0) << round;
  }
}

TEST(SharedGroup, CountsTheCoresOfAllRanksTogether) {
  cpu_set_t allowed;
  ASSERT_EQ(::sched_getaffinity(0, sizeof(allowed), &allowed), 0);
  std::vector<std::size_t> cores;
  for (std::size_t core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &allowed)) cores.push_back(core);
  }
  if (cores.size() < 2) GTEST_SKIP() << "one core";
  TemporaryFolder folder;
  FileStore store(folder.path());
  const auto join = [&](const std::string& name, int rank, std::size_t core, bool expected) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    ASSERT_EQ(::sched_setaffinity(0, sizeof(one), &one), 0);
    auto group = SharedGroup::Join(store, name, rank, 2, sizeof(Signal), InAWhile());
    ASSERT_TRUE(group) << group.error().message;
    EXPECT_EQ((*group)->has_cores(), expected) << name;
    EXPECT_EQ((*group)->ranks_a_core(), expected ? 1 : 2) << name;
  };
  for (const std::size_t second : {cores[1], cores[0]}) {
    const std::string name = "g" + std::to_string(second);
    const bool expected = second != cores[0];
    std::thread one([&] { join(name, 0, cores[0], expected); });
    std::thread other([&] { join(name, 1, second, expected); });
    one.join();
    other.join();
  }
}

TEST(TcpTransport, SaysThatAPeerIsOfAnotherVersion) {
  for (const char* const place : {"127.0.0.1 1 5", "127.0.0.1 1 5 999", "something else", ""}) {
    TemporaryFolder folder;
    FileStore store(folder.path());
    ExpectDone(store.Set("g/tcp.0", place));
    auto transport = JoinTcp(store, "g", 1, 2, {});
    ASSERT_TRUE(transport);
    const Endpoint endpoint = {0, 0};
    const auto connected = (*transport)->Connect({&endpoint, 1}, InAWhile());
    ASSERT_FALSE(connected);
    EXPECT_EQ(connected.error().code, ErrorCode::kFailedPrecondition);
    const bool is_a_place = std::string_view(place).ends_with("999");
    EXPECT_NE(connected.error().message.find(is_a_place
                                                 ? "rank 0 (channel 0): it speaks another version"
                                                 : "rank 0 (channel 0): it has published no place"),
              std::string::npos)
        << connected.error().message;
  }
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
      store.Set("g/tcp.0", "127.0.0.1 " + std::to_string(*LocalPort(listener->get())) + " 7 4"));
  ASSERT_TRUE(AwaitSocket(listener->get(), POLLIN, InAWhile()));
  sockaddr_in peer = {};
  socklen_t length = sizeof(peer);
  UniqueFd socket(::accept(listener->get(), reinterpret_cast<sockaddr*>(&peer), &length));
  EXPECT_EQ(ntohs(peer.sin_port), port);
  Hello hello;
  ASSERT_EQ(::recv(socket.get(), &hello, sizeof(hello), MSG_WAITALL), ssize_t{sizeof(hello)});
  EXPECT_EQ(hello.from, 1);
  EXPECT_EQ(hello.to, 0);
  ASSERT_TRUE(SendAtOnce(socket.get(), Challenge()));
  Proof proof;
  ASSERT_EQ(::recv(socket.get(), &proof, sizeof(proof), MSG_WAITALL), ssize_t{sizeof(proof)});
  // Bytes that are no frame end the connection; a message of that rank is not made up of them.
  const std::vector<char> nonsense(200, 'x');
  ASSERT_EQ(::send(socket.get(), nonsense.data(), nonsense.size(), MSG_NOSIGNAL), 200);
  higher.join();
}

// What is lent is larger than what the kernel takes at once; half of it is awaited in place.
TEST(TcpTransport, SendsFromAndReceivesInMemoryOfTheCallers) {
  constexpr std::size_t kBytes = 1 << 20;
  constexpr int kMessages = 8;
  TemporaryFolder folder;
  FileStore store(folder.path());
  const auto run = [&](int rank) {
    auto transport = JoinTcp(store, "g", rank, 2, {.slot_bytes = kBytes});
    ASSERT_TRUE(transport);
    const Endpoint endpoint = {1 - rank, 0};
    ExpectDone((*transport)->Connect({&endpoint, 1}, InAWhile()));
    Outbox& outbox = (*transport)->outbox(endpoint);
    Inbox& inbox = (*transport)->inbox(endpoint);
    std::vector<std::byte> own(kBytes);
    std::vector<std::byte> theirs(kBytes);
    int lent = 0;
    int received = 0;
    int in_place = 0;
    while (received < kMessages || lent < kMessages || outbox.IsLending()) {
      const bool lends = lent < kMessages && outbox.CanLend();
      if (lends) {
        std::fill(own.begin(), own.end(), static_cast<std::byte>(lent + 10 * rank));
        outbox.Lend(own, {static_cast<std::uint64_t>(lent++)});
      }
      const Message* message = nullptr;
      if (received < kMessages) {
        message = received % 2 == 0 ? inbox.TryReceive(theirs.data(), kBytes) : inbox.TryPeek();
      }
      if (message == nullptr) {
        // After a loan the next may be possible at once, and nobody would end the wait.
        if (!lends) ExpectDone((*transport)->Wait(InAWhile()));
        continue;
      }
      ASSERT_EQ(message->tag[0], static_cast<std::uint64_t>(received));
      ASSERT_EQ(message->bytes.size(), kBytes);
      const auto content = static_cast<std::byte>(received + 10 * (1 - rank));
      ASSERT_EQ(std::count(message->bytes.begin(), message->bytes.end(), content), kBytes);
      if (message->bytes.data() == theirs.data()) ++in_place;
      inbox.Release();
      ++received;
    }
    EXPECT_LE(in_place, kMessages / 2);
    ExpectDone((*transport)->Flush(InAWhile()));
  };
  std::thread other([&] { run(1); });
  run(0);
  other.join();
}

// A message of another size than the one awaited goes elsewhere.
TEST(TcpTransport, ReceivesInPlaceWhatFitsExactly) {
  TemporaryFolder folder;
  FileStore store(folder.path());
  const std::string sent = "what was sent";
  std::thread sender([&] {
    auto transport = JoinTcp(store, "g", 1, 2, {});
    const Endpoint endpoint = {0, 0};
    ASSERT_TRUE(transport);
    ExpectDone((*transport)->Connect({&endpoint, 1}, InAWhile()));
    for (int i = 0; i < 2; ++i) {
      while (!(*transport)->outbox(endpoint).CanLend()) ExpectDone((*transport)->Wait(InAWhile()));
      (*transport)->outbox(endpoint).Lend(std::as_bytes(std::span(sent)), {});
    }
    ExpectDone((*transport)->Flush(InAWhile()));
  });
  auto transport = JoinTcp(store, "g", 0, 2, {});
  const Endpoint endpoint = {1, 0};
  ASSERT_TRUE(transport);
  ExpectDone((*transport)->Connect({&endpoint, 1}, InAWhile()));
  std::string place(100, '.');
  auto* bytes = reinterpret_cast<std::byte*>(place.data());
  for (const std::size_t awaited : {sent.size() - 1, sent.size()}) {
    const Message* message = nullptr;
    while (message == nullptr) {
      message = (*transport)->inbox(endpoint).TryReceive(bytes, awaited);
      if (message == nullptr) ExpectDone((*transport)->Wait(InAWhile()));
    }
    EXPECT_EQ(message->bytes.size(), sent.size());
    EXPECT_EQ(message->bytes.data() == bytes, awaited == sent.size());
    (*transport)->inbox(endpoint).Release();
  }
  EXPECT_EQ(place, sent + std::string(100 - sent.size(), '.'));
  sender.join();
}

// A peer of another version is none: the rank that it should be has not come.
// Sends messages of those sizes from rank 1, the bytes of message i counting up from i.
void SendCounting(Store& store, const std::vector<std::size_t>& sizes) {
  auto transport = JoinTcp(store, "g", 1, 2, {});
  const Endpoint endpoint = {0, 0};
  ASSERT_TRUE(transport);
  ExpectDone((*transport)->Connect({&endpoint, 1}, InAWhile()));
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    std::byte* slot = AwaitSlot(**transport, endpoint);
    for (std::size_t at = 0; at < sizes[i]; ++at) slot[at] = static_cast<std::byte>(i + at);
    (*transport)->outbox(endpoint).Commit(sizes[i], {i});
  }
  ExpectDone((*transport)->Flush(InAWhile()));
}

// Large ones in pieces, others as one; what is there already as one too.
TEST(TcpTransport, HandsMessagesOverWhileTheyArrive) {
  constexpr std::size_t kLarge = (1 << 20) - 12;
  const std::vector<std::size_t> sizes = {kLarge, 100, 0, kLarge, 5000, 70'000, kLarge};
  TemporaryFolder folder;
  FileStore store(folder.path());
  std::thread sender([&] { SendCounting(store, sizes); });
  auto transport = JoinTcp(store, "g", 0, 2, {});
  const Endpoint endpoint = {1, 0};
  ASSERT_TRUE(transport);
  ExpectDone((*transport)->Connect({&endpoint, 1}, InAWhile()));
  Inbox& inbox = (*transport)->inbox(endpoint);
  int most_pieces = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    std::size_t end = 0;
    int pieces = 0;
    const auto take = [&](const Piece& piece) -> Result<void> {
      EXPECT_EQ(piece.offset, end);
      EXPECT_EQ(piece.offset % 64, 0U);
      EXPECT_EQ(piece.whole, sizes[i]);
      EXPECT_EQ(piece.tag[0], i);
      for (const std::byte byte : piece.bytes) {
        if (byte != static_cast<std::byte>(i + end++)) ADD_FAILURE() << "byte " << end;
      }
      ++pieces;
      return {};
    };
    // Asked for with another size, a message is handed over all the same.
    const std::size_t asked = sizes[i] == 5000 ? 4999 : sizes[i];
    auto taken = inbox.TryTake(asked, take);
    while (taken && !*taken) {
      ExpectDone((*transport)->Wait(InAWhile()));
      taken = inbox.TryTake(asked, take);
    }
    ASSERT_TRUE(taken) << taken.error().message;
    EXPECT_EQ(end, sizes[i]);
    inbox.Release();
    most_pieces = std::max(most_pieces, pieces);
  }
  EXPECT_GT(most_pieces, 4);
  sender.join();
}

TEST(TcpTransport, SaysWhatTheTakerSays) {
  TemporaryFolder folder;
  FileStore store(folder.path());
  // The kernel's buffers take it, so that the sender can end.
  constexpr std::size_t kBytes = 100'000;
  std::thread sender([&] { SendCounting(store, {kBytes}); });
  auto transport = JoinTcp(store, "g", 0, 2, {});
  const Endpoint endpoint = {1, 0};
  ASSERT_TRUE(transport);
  ExpectDone((*transport)->Connect({&endpoint, 1}, InAWhile()));
  const auto refuse = [](const Piece& /*piece*/) -> Result<void> {
    return Fail(ErrorCode::kFailedPrecondition, "not that one");
  };
  Inbox& inbox = (*transport)->inbox(endpoint);
  auto taken = inbox.TryTake(kBytes, refuse);
  while (taken && !*taken) {
    ExpectDone((*transport)->Wait(InAWhile()));
    taken = inbox.TryTake(kBytes, refuse);
  }
  ASSERT_FALSE(taken);
  EXPECT_EQ(taken.error().message, "not that one");
  sender.join();
}

TEST(TcpTransport, TakesStrangersForNobody) {
  TemporaryFolder folder;
  FileStore store(folder.path());
  auto transport = JoinTcp(store, "g", 0, 2, {});
  ASSERT_TRUE(transport);
  const auto place = store.Get("g/tcp.0", InAWhile());
  ASSERT_TRUE(place);
  const auto port = static_cast<std::uint16_t>(std::stoi(place->substr(place->find(' '))));
  std::vector<UniqueFd> strangers;
  for (const std::size_t bytes : {1U, 48U, 4096U}) {
    auto stranger =
        Dial(*ParseAddress("127.0.0.1", 0), *ParseAddress("127.0.0.1", port), InAWhile());
    ASSERT_TRUE(stranger);
    const std::string hello(bytes, '\x02');
    ExpectDone(SendWhole(stranger->get(), hello.data(), bytes, InAWhile()));
    strangers.push_back(std::move(*stranger));
  }
  const Endpoint endpoint = {1, 0};
  const auto connected = (*transport)->Connect({&endpoint, 1}, In(milliseconds(300)));
  ASSERT_FALSE(connected);
  EXPECT_EQ(connected.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(connected.error().message, "rank 1 has not come in time (channel 0)");
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
  auto server = TcpStoreServer::Listen("127.0.0.1", 0, {});
  ASSERT_TRUE(server) << server.error().message;
  auto store = TcpStore::At("127.0.0.1", (*server)->port(), seconds(60), {});
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
  auto server = TcpStoreServer::Listen("127.0.0.1", 0, {});
  ASSERT_TRUE(server);
  const auto place = ParseAddress("127.0.0.1", (*server)->port());
  for (const std::size_t bytes : {1U, 16U, 100'000U}) {
    auto stranger = Dial(*ParseAddress("127.0.0.1", 0), *place, InAWhile());
    ASSERT_TRUE(stranger);
    const std::string nonsense(bytes, '\x7f');
    // Where the server has cut it off already, the rest is not taken.
    static_cast<void>(SendWhole(stranger->get(), nonsense.data(), bytes, In(milliseconds(100))));
  }
  auto store = TcpStore::At("127.0.0.1", (*server)->port(), seconds(60), {});
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
    const auto opened = OpenStore(name, 0, seconds(1), {});
    ASSERT_FALSE(opened) << name;
    EXPECT_EQ(opened.error().code, ErrorCode::kInvalidArgument) << name;
  }
  const std::string port = std::to_string(FreePort());
  // The one that waits comes before the one that serves.
  std::thread other([&] {
    auto store = OpenStore("tcp://[::1]:" + port, 1, seconds(60), {});
    ASSERT_TRUE(store);
    EXPECT_EQ(*(*store)->Get("key", InAWhile()), "value");
    ExpectDone((*store)->Set("answer", "seen"));
  });
  auto store = OpenStore("tcp://[::1]:" + port, 0, seconds(60), {});
  ASSERT_TRUE(store) << store.error().message;
  const auto second = OpenStore("tcp://[::1]:" + port, 0, seconds(60), {});
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, ErrorCode::kAlreadyExists);
  ExpectDone((*store)->Set("key", "value"));
  EXPECT_EQ(*(*store)->Get("answer", InAWhile()), "seen");
  other.join();
}

}  // namespace
}  // namespace espalier::transport
