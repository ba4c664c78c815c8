#include "collective/transport/shm/shm_transport.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <memory>
#include <string>
#include <thread>

#include "tests/collective/transport/transport_contract.h"

namespace espalier::transport {
namespace {

// Two ranks of one transport in this process, connected on all their channels.
class ShmTransportTest : public testing::Test {
 protected:
  void Join(const ShmOptions& options) {
    std::thread other([&] { ranks_[1] = JoinOne(1, options); });
    ranks_[0] = JoinOne(0, options);
    other.join();
    for (int rank : {0, 1}) {
      for (int channel = 0; channel < options.channels; ++channel) {
        const Endpoint peer{1 - rank, channel};
        ExpectDone(ranks_[rank]->Connect({&peer, 1}, InAWhile()));
      }
    }
  }
  std::unique_ptr<Transport> JoinOne(int rank, const ShmOptions& options) {
    auto joined = JoinShm(store_, "g", rank, 2, options, InAWhile());
    EXPECT_TRUE(joined) << joined.error().message;
    return joined ? std::move(*joined) : nullptr;
  }
  void Send(int sender, int channel, std::size_t bytes, char fill) {
    Outbox& outbox = ranks_[sender]->outbox({1 - sender, channel});
    std::byte* const slot = outbox.TryAcquire();
    ASSERT_NE(slot, nullptr);
    std::memset(slot, fill, bytes);
    outbox.Commit(bytes, {});
  }
  // The memory file of the group, which rank 0 has published as PROCESS FILE.
  std::string MemoryFile() const {
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
      std::ifstream read(entry.path());
      long process = 0;
      int file = 0;
      if (read >> process >> file) {
        return "/proc/" + std::to_string(process) + "/fd/" + std::to_string(file);
      }
    }
    return "";
  }

  TemporaryFolder folder_;
  FileStore store_{folder_.path()};
  std::unique_ptr<Transport> ranks_[2];
};

TEST_F(ShmTransportTest, RefusesOptionsThatFitNoRing) {
  for (const ShmOptions& options :
       {ShmOptions{.channels = 0}, ShmOptions{.channels = -1}, ShmOptions{.slots = 0},
        ShmOptions{.slots = 65}, ShmOptions{.slot_bytes = 0}, ShmOptions{.slot_bytes = 4095},
        ShmOptions{.slot_bytes = 4097}}) {
    const auto joined = JoinShm(store_, "g", 0, 1, options, InAWhile());
    ASSERT_FALSE(joined);
    EXPECT_EQ(joined.error().code, ErrorCode::kInvalidArgument);
  }
  EXPECT_TRUE(JoinShm(store_, "g", 0, 1, {.slots = 64, .slot_bytes = 4096}, InAWhile()));
}

TEST_F(ShmTransportTest, HasOnlyTheChannelsOfItsOptions) {
  Join({.channels = 2, .slots = 1, .slot_bytes = 4096});
  for (const int channel : {-1, 2, 3, std::numeric_limits<int>::max()}) {
    const Endpoint endpoint{1, channel};
    const auto connected = ranks_[0]->Connect({&endpoint, 1}, InAWhile());
    ASSERT_FALSE(connected) << channel;
    EXPECT_EQ(connected.error().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(connected.error().message.find("2 ranks and 2 channels"), std::string::npos);
  }
}

// A message fills its slot to the last byte, and no connection's slots overlap another's.
TEST_F(ShmTransportTest, KeepsFullSlotsOfAllConnectionsApart) {
  constexpr int kChannels = 3;
  constexpr int kRingSlots = 2;
  constexpr std::size_t kBytes = 8192;
  Join({.channels = kChannels, .slots = kRingSlots, .slot_bytes = kBytes});
  const auto fill = [](int sender, int channel, int slot) {
    return static_cast<char>('A' + (sender * kChannels + channel) * kRingSlots + slot);
  };
  for (int sender : {0, 1}) {
    for (int channel = 0; channel < kChannels; ++channel) {
      for (int slot = 0; slot < kRingSlots; ++slot) {
        Send(sender, channel, kBytes, fill(sender, channel, slot));
      }
      EXPECT_EQ(ranks_[sender]->outbox({1 - sender, channel}).TryAcquire(), nullptr);
    }
  }
  for (int sender : {0, 1}) {
    for (int channel = 0; channel < kChannels; ++channel) {
      Inbox& inbox = ranks_[1 - sender]->inbox({sender, channel});
      for (int slot = 0; slot < kRingSlots; ++slot) {
        const Message* const message = inbox.TryPeek();
        ASSERT_NE(message, nullptr);
        const std::string whole(kBytes, fill(sender, channel, slot));
        ASSERT_EQ(message->bytes.size(), kBytes);
        EXPECT_EQ(std::memcmp(message->bytes.data(), whole.data(), kBytes), 0);
        inbox.Release();
      }
      EXPECT_EQ(inbox.TryPeek(), nullptr);
    }
  }
}

// Connecting again changes nothing: the messages under way stay.
TEST_F(ShmTransportTest, KeepsAConnectionThatIsConnectedAgain) {
  Join({.channels = 1, .slots = 2, .slot_bytes = 4096});
  Send(0, 0, 7, 'a');
  const Endpoint peer{0, 0};
  ExpectDone(ranks_[1]->Connect({&peer, 1}, InAWhile()));
  ASSERT_NE(ranks_[1]->inbox(peer).TryPeek(), nullptr);
  ranks_[1]->inbox(peer).Release();
  ExpectDone(ranks_[1]->Connect({&peer, 1}, InAWhile()));
  EXPECT_EQ(ranks_[1]->inbox(peer).TryPeek(), nullptr);
}

// The length lies in memory that every rank of the host can write.
TEST_F(ShmTransportTest, ReadsNotBeyondASlotWhateverAFaultyPeerWrites) {
  constexpr std::uint64_t kUnusual = 0xABC;
  Join({.channels = 1, .slots = 2, .slot_bytes = 4096});
  Send(0, 0, kUnusual, '\0');
  std::FILE* const file = std::fopen(MemoryFile().c_str(), "r+");
  ASSERT_NE(file, nullptr);
  struct stat status = {};
  ASSERT_EQ(::fstat(::fileno(file), &status), 0);
  const auto bytes = static_cast<std::size_t>(status.st_size);
  void* const memory =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, ::fileno(file), 0);
  std::fclose(file);
  ASSERT_NE(memory, MAP_FAILED);
  int found = 0;
  for (std::size_t i = 0; i < bytes / sizeof(std::uint64_t); ++i) {
    std::uint64_t& word = static_cast<std::uint64_t*>(memory)[i];
    if (word != kUnusual) continue;
    word = std::numeric_limits<std::uint64_t>::max() / 2;
    ++found;
  }
  ::munmap(memory, bytes);
  EXPECT_EQ(found, 1);
  const Message* const message = ranks_[1]->inbox({0, 0}).TryPeek();
  ASSERT_NE(message, nullptr);
  EXPECT_EQ(message->bytes.size(), 4096U);
}

}  // namespace
}  // namespace espalier::transport
