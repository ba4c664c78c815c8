#include "tests/collective/transport/transport_contract.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <latch>
#include <random>

namespace espalier::transport {
namespace {

using std::chrono::milliseconds;

std::size_t SizeOfMessage(int sender, int channel, int index) {
  std::mt19937 random(static_cast<unsigned>(sender * 1000 + channel * 100 + index));
  return index % 7 == 0 ? 0 : random() % (kSlotBytes + 1);
}

std::byte ContentOf(int sender, int channel, int index) {
  return static_cast<std::byte>(sender * 37 + channel * 11 + index);
}

}  // namespace

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

// Deadlock freedom needs this: a sender can commit a message for each slot before any is read.
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

// A peer may leave after its last message while others still read.
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
  std::latch all_connected(3);
  RunRanks(3, [&](Transport& transport) {
    std::vector<Endpoint> endpoints;
    for (int peer = 0; peer < 3; ++peer) {
      if (peer != transport.rank()) endpoints.push_back({peer, 0});
    }
    ExpectDone(transport.Connect(endpoints, InAWhile()));
    all_connected.arrive_and_wait();
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

}  // namespace espalier::transport
