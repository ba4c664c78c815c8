#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "collective/transport/base/transport.h"
#include "collective/transport/stores/file_store.h"
#include "tests/temporary_folder.h"

namespace espalier::transport {

inline constexpr std::size_t kSlotBytes = 8192;
inline constexpr int kSlots = 3;

inline Deadline In(std::chrono::milliseconds time) {
  return std::chrono::steady_clock::now() + time;
}
inline Deadline InAWhile() { return In(std::chrono::seconds(60)); }

// A kind of transport under test, with the given slots and three channels.
struct Kind {
  std::string name;
  std::function<Result<std::unique_ptr<Transport>>(RendezvousStore&, int rank, int size, Deadline)>
      join;
};

// The contract of every transport; test binaries instantiate it with their kinds.
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

inline void ExpectDone(const Result<void>& result) {
  ASSERT_TRUE(result) << result.error().message;
}

inline std::byte* AwaitSlot(Transport& transport, Endpoint endpoint) {
  while (true) {
    std::byte* slot = transport.outbox(endpoint).TryAcquire();
    if (slot != nullptr) return slot;
    ExpectDone(transport.Wait(InAWhile()));
  }
}

inline const Message& AwaitMessage(Transport& transport, Endpoint endpoint) {
  while (true) {
    const Message* message = transport.inbox(endpoint).TryPeek();
    if (message != nullptr) return *message;
    ExpectDone(transport.Wait(InAWhile()));
  }
}

inline Error AwaitError(Transport& transport, Endpoint endpoint, Deadline deadline = InAWhile()) {
  while (true) {
    EXPECT_EQ(transport.inbox(endpoint).TryPeek(), nullptr);
    auto waited = transport.Wait(deadline);
    if (!waited) return waited.error();
  }
}

}  // namespace espalier::transport
