#include <gtest/gtest.h>

#include <cstddef>
#include <functional>
#include <latch>
#include <thread>
#include <vector>

#include "collective/transport/stores/file_store.h"
#include "collective/transport/tcp/tcp_transport.h"
#include "tests/collective/transport/transport_contract.h"
#include "tests/temporary_folder.h"

namespace espalier::transport {
namespace {

constexpr std::size_t kMessage = 1 << 20;
// More than the kernel buffers before the receiver reads.
constexpr int kMessages = 16;

// Three ranks of one host with `cores` cores, each in a thread.
void RunThree(int cores, const std::function<void(Transport&)>& body) {
  TemporaryFolder folder;
  FileStore store(folder.path());
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 3; ++rank) {
    threads.emplace_back([&, rank] {
      auto transport = JoinTcp(store, "g", rank, 3, {.slot_bytes = kMessage, .cores = cores});
      ASSERT_TRUE(transport) << transport.error().message;
      const std::vector<Endpoint> peers =
          rank == 0 ? std::vector<Endpoint>{{1, 0}, {2, 0}} : std::vector<Endpoint>{{0, 0}};
      ExpectDone((*transport)->Connect(peers, InAWhile()));
      body(**transport);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// Sends in place until the kernel's buffer is full; returns the number of messages.
int SendInPlaceUntilFull(Outbox& outbox, const std::vector<std::byte>& data) {
  int lent = 0;
  while (lent < kMessages && outbox.CanSendInPlace()) {
    outbox.SendInPlace(data, {});
    ++lent;
  }
  return lent;
}

void SendAllInPlace(Transport& transport, Endpoint to, int messages,
                    const std::vector<std::byte>& data) {
  for (int lent = 0; lent < messages;) {
    if (transport.outbox(to).CanSendInPlace()) {
      transport.outbox(to).SendInPlace(data, {});
      ++lent;
    } else {
      ExpectDone(transport.Wait(InAWhile()));
    }
  }
}

void ReceiveAll(Transport& transport, Endpoint from) {
  std::vector<std::byte> place(kMessage);
  for (int received = 0; received < kMessages; ++received) {
    const Message* message = nullptr;
    while (message == nullptr) {
      message = transport.inbox(from).TryReceive(place.data(), place.size());
      if (message == nullptr) ExpectDone(transport.Wait(InAWhile()));
    }
    ASSERT_EQ(message->bytes.size(), kMessage);
    ASSERT_EQ(message->bytes.front(), message->bytes.back());
    transport.inbox(from).Release();
  }
}

// Rank 1 reads nothing before rank 2 has received everything, so rank 0 must send in place to rank
// 2 while its first message is stuck.
TEST(TcpLending, OneAtATimeIfRanksShareCoresUnlessItIsStuck) {
  for (const int cores : {1, 64}) {
    std::latch second_has_all(1);
    RunThree(cores, [&](Transport& transport) {
      const std::vector<std::byte> data(kMessage, std::byte{7});
      const Endpoint first = {1, 0};
      const Endpoint second = {2, 0};
      if (transport.rank() == 0) {
        Outbox& outbox = transport.outbox(first);
        const int lent = SendInPlaceUntilFull(outbox, data);
        ASSERT_LT(lent, kMessages);
        ASSERT_TRUE(outbox.IsSendingInPlace());
        EXPECT_EQ(transport.outbox(second).CanSendInPlace(), cores == 64);
        SendAllInPlace(transport, second, kMessages, data);
        SendAllInPlace(transport, first, kMessages - lent, data);
        ExpectDone(transport.Flush(InAWhile()));
      } else if (transport.rank() == 1) {
        second_has_all.wait();
        ReceiveAll(transport, {0, 0});
      } else {
        ReceiveAll(transport, {0, 0});
        second_has_all.count_down();
      }
    });
  }
}

}  // namespace
}  // namespace espalier::transport
