#include "collective/transport/tcp/tcp_transport.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "collective/transport/rendezvous/handshake.h"
#include "collective/transport/rendezvous/tcp_socket.h"
#include "collective/transport/stores/file_store.h"
#include "tests/collective/transport/transport_contract.h"
#include "tests/temporary_folder.h"

namespace espalier::transport {
namespace {

using std::chrono::milliseconds;

// A different port each time, below the kernel's ephemeral range.
std::uint16_t FreePort() {
  static std::uint16_t last = 10'000;
  return ++last;
}

TEST(TcpTransport, SaysThatAPeerIsOfAnotherVersion) {
  for (const char* const place : {"127.0.0.1 1 5", "127.0.0.1 1 5 999", "something else", ""}) {
    TemporaryFolder folder;
    FileStore store(folder.path());
    ExpectDone(store.Set("g/tcp.0", place, InAWhile()));
    auto transport = JoinTcp(store, "g", 1, 2, {});
    ASSERT_TRUE(transport);
    const Endpoint endpoint = {0, 0};
    const auto connected = (*transport)->Connect({&endpoint, 1}, InAWhile());
    ASSERT_FALSE(connected);
    EXPECT_EQ(connected.error().code, ErrorCode::kFailedPrecondition);
    const bool is_a_place = std::string_view(place).ends_with("999");
    EXPECT_NE(connected.error().message.find(
                  is_a_place ? "rank 0 (channel 0): its protocol version is not"
                             : "rank 0 (channel 0): it has published no valid endpoint"),
              std::string::npos)
        << connected.error().message;
  }
}

// Notes the ends of the connections that it is told of.
class EndsNoted : public SendObserver {
 public:
  std::unique_ptr<SendWatch> Watch(const ConnectionEnds& ends) override {
    noted.push_back(ends);
    return nullptr;
  }
  std::vector<ConnectionEnds> noted;
};

// Two hosts with several NICs each: a connection is between those that its plan names.
TEST(TcpTransport, ConnectsTheChosenNics) {
  TemporaryFolder folder;
  FileStore store(folder.path());
  const Endpoint to_first = {0, 0};
  const Endpoint to_second = {1, 0};
  const auto listener = ListenOn("127.0.0.1", 0);
  ASSERT_TRUE(listener);
  const auto port = LocalPort((*listener)->get());
  const auto other_listener = ListenOn("127.0.0.2", *port);
  ASSERT_TRUE(other_listener);
  std::thread second([&] {
    EndsNoted ends;
    PlannedConnections planned;
    planned.sends[to_first] = {.port = FreePort(),
                               .source = *IpAddress::Parse("127.0.0.3"),
                               .destination = *IpAddress::Parse("127.0.0.2")};
    auto transport = JoinTcp(store, "g", 1, 2, {.observer = &ends, .planned = planned});
    ASSERT_TRUE(transport);
    ExpectDone((*transport)->Connect({&to_first, 1}, InAWhile()));
    ASSERT_EQ(ends.noted.size(), 1U);
    EXPECT_EQ(ends.noted[0].source.ToString(), "127.0.0.3");
    EXPECT_EQ(ends.noted[0].source_port, planned.sends[to_first].port);
    EXPECT_EQ(ends.noted[0].destination.ToString(), "127.0.0.2");
    EXPECT_EQ(ends.noted[0].destination_port, *port);
  });
  auto transport = JoinTcp(store, "g", 0, 2,
                           {.listener = *listener,
                            .more_listeners = {*other_listener},
                            .planned = PlannedConnections{.sends = {}, .receives = {to_second}}});
  ASSERT_TRUE(transport);
  ExpectDone((*transport)->Connect({&to_second, 1}, InAWhile()));
  second.join();
}

// Without a key, a plan must not lead out of this machine.
TEST(TcpTransport, RefusesANicThatAGroupWithoutAKeyMayNotReach) {
  TemporaryFolder folder;
  FileStore store(folder.path());
  ExpectDone(store.Set("g/tcp.0", "127.0.0.1 1 7 4", InAWhile()));
  PlannedConnections planned;
  planned.sends[{0, 0}] = {
      .port = 0, .source = std::nullopt, .destination = *IpAddress::Parse("10.0.0.1")};
  auto transport = JoinTcp(store, "g", 1, 2, {.planned = planned});
  ASSERT_TRUE(transport);
  const Endpoint endpoint = {0, 0};
  const auto connected = (*transport)->Connect({&endpoint, 1}, InAWhile());
  ASSERT_FALSE(connected);
  EXPECT_EQ(connected.error().code, ErrorCode::kPermissionDenied);
}

TEST(TcpTransport, ConnectsFromTheChosenSourcePort) {
  TemporaryFolder folder;
  FileStore store(folder.path());
  const std::uint16_t port = FreePort();
  std::thread higher([&] {
    const Endpoint endpoint = {0, 0};
    const PlannedConnections planned = {.sends = {{endpoint, {.port = port}}}, .receives = {}};
    auto transport = JoinTcp(store, "g", 1, 2, {.planned = planned});
    ASSERT_TRUE(transport);
    ExpectDone((*transport)->Connect({&endpoint, 1}, InAWhile()));
    // Request slots until the end of the connection is noticed.
    Result<void> waited;
    while (waited) {
      std::byte* slot = (*transport)->outbox(endpoint).TryAcquire();
      if (slot != nullptr) {
        (*transport)->outbox(endpoint).Commit((*transport)->slot_bytes(), {});
      }
      waited = (*transport)->Wait(InAWhile());
    }
    const Error& error = waited.error();
    EXPECT_EQ(error.message, "rank 0 is gone: it sends something other than messages");
  });
  // Stands in for rank 0 and checks the source port of the connection.
  const auto listener = Listen(*ParseAddress("127.0.0.1", 0));
  ASSERT_TRUE(store.Set(
      "g/tcp.0", "127.0.0.1 " + std::to_string(*LocalPort(listener->get())) + " 7 4", InAWhile()));
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
  // Bytes that are not a frame end the connection and do not become a message.
  const std::vector<char> nonsense(200, 'x');
  ASSERT_EQ(::send(socket.get(), nonsense.data(), nonsense.size(), MSG_NOSIGNAL), 200);
  higher.join();
}

// Messages sent in place are larger than the kernel's buffer; half of them are received in place.
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
    while (received < kMessages || lent < kMessages || outbox.IsSendingInPlace()) {
      const bool lends = lent < kMessages && outbox.CanSendInPlace();
      if (lends) {
        std::fill(own.begin(), own.end(), static_cast<std::byte>(lent + 10 * rank));
        outbox.SendInPlace(own, {static_cast<std::uint64_t>(lent++)});
      }
      const Message* message = nullptr;
      if (received < kMessages) {
        message = received % 2 == 0 ? inbox.TryReceive(theirs.data(), kBytes) : inbox.TryPeek();
      }
      if (message == nullptr) {
        // The next send in place may be possible at once, and nothing would end the wait.
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

// A message of another size than the awaited one arrives in a slot.
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
      while (!(*transport)->outbox(endpoint).CanSendInPlace())
        ExpectDone((*transport)->Wait(InAWhile()));
      (*transport)->outbox(endpoint).SendInPlace(std::as_bytes(std::span(sent)), {});
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

// Sends messages of those sizes from rank 1, the bytes of message i counting up from i.
void SendCounting(RendezvousStore& store, const std::vector<std::size_t>& sizes) {
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

// Large messages come in pieces; others, and those that are already there, as one.
TEST(TcpTransport, PassesMessagesOnWhileTheyArrive) {
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
    // A message of another size than requested is passed on, too.
    const std::size_t asked = sizes[i] == 5000 ? 4999 : sizes[i];
    auto taken = inbox.TryConsume(asked, take);
    while (taken && !*taken) {
      ExpectDone((*transport)->Wait(InAWhile()));
      taken = inbox.TryConsume(asked, take);
    }
    ASSERT_TRUE(taken) << taken.error().message;
    EXPECT_EQ(end, sizes[i]);
    inbox.Release();
    most_pieces = std::max(most_pieces, pieces);
  }
  EXPECT_GT(most_pieces, 4);
  sender.join();
}

TEST(TcpTransport, ReturnsTheErrorOfTheHandler) {
  TemporaryFolder folder;
  FileStore store(folder.path());
  // Fits the kernel's buffers, so that the sender can end.
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
  auto taken = inbox.TryConsume(kBytes, refuse);
  while (taken && !*taken) {
    ExpectDone((*transport)->Wait(InAWhile()));
    taken = inbox.TryConsume(kBytes, refuse);
  }
  ASSERT_FALSE(taken);
  EXPECT_EQ(taken.error().message, "not that one");
  sender.join();
}

// A peer of another version is treated as a stranger, so the expected rank is missing.
TEST(TcpTransport, IgnoresStrangers) {
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
  EXPECT_EQ(connected.error().message,
            "rank 1 did not connect in time (channel 0) to 127.0.0.1, where this rank listens; not "
            "joined: rank 1");
}

}  // namespace
}  // namespace espalier::transport
