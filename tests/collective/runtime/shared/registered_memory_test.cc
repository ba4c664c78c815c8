#include "collective/runtime/shared/area/registered_memory.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstddef>
#include <limits>
#include <string>

#include "tests/temporary_folder.h"

namespace espalier::runtime {
namespace {

constexpr std::size_t kBytes = 8192;
constexpr int kPeer = 1;

// The place of a buffer as a peer would publish it; here the peer is this process.
RegisteredPlace PlaceOf(int file) {
  return {.process = ::getpid(), .file = file, .id = 1, .file_bytes = kBytes, .offset = 0};
}

TEST(RegisteredMemory, MapsAPeersBuffer) {
  RegisteredMemory theirs;
  RegisteredMemory ours;
  std::byte* const buffer = theirs.Allocate(kBytes).value();
  buffer[kBytes - 1] = std::byte{7};
  const auto place = theirs.Find(buffer + 4096, 4096);
  ASSERT_TRUE(place.has_value());
  const auto reached = ours.Reach(kPeer, *place, 4096);
  ASSERT_TRUE(reached.has_value()) << reached.error().message;
  EXPECT_EQ((*reached)[4095], std::byte{7});
}

TEST(RegisteredMemory, APeerCannotLeadOutsideItsBuffer) {
  RegisteredMemory theirs;
  RegisteredMemory ours;
  const auto honest = theirs.Find(theirs.Allocate(kBytes).value(), kBytes);
  ASSERT_TRUE(honest.has_value());
  for (const std::uint64_t offset :
       {std::uint64_t{1}, std::uint64_t{kBytes}, std::uint64_t{kBytes + 1},
        std::numeric_limits<std::uint64_t>::max() - 4096}) {
    RegisteredPlace place = *honest;
    place.offset = offset;
    const auto reached = ours.Reach(kPeer, place, kBytes);
    ASSERT_FALSE(reached.has_value()) << offset;
    EXPECT_EQ(reached.error().code, ErrorCode::kFailedPrecondition);
    EXPECT_NE(reached.error().message.find("rank 1 uses 8192 bytes"), std::string::npos)
        << reached.error().message;
  }
  // The peer claims a larger file than it has, on first use and after it is mapped.
  RegisteredMemory others;
  RegisteredPlace larger = *honest;
  larger.file_bytes = 2 * kBytes;
  EXPECT_FALSE(others.Reach(kPeer, larger, 2 * kBytes).has_value());
  ASSERT_TRUE(ours.Reach(kPeer, *honest, kBytes).has_value());
  EXPECT_FALSE(ours.Reach(kPeer, larger, 2 * kBytes).has_value());
}

TEST(RegisteredMemory, APeersFileThatCouldShrinkIsRefused) {
  const UniqueFd file(::memfd_create("attack", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(file.get(), kBytes), 0);
  RegisteredMemory ours;
  const auto reached = ours.Reach(kPeer, PlaceOf(file.get()), kBytes);
  ASSERT_FALSE(reached.has_value());
  EXPECT_NE(reached.error().message.find("sealed against shrinking"), std::string::npos)
      << reached.error().message;
}

// Opening a pipe without a writer would block for ever.
TEST(RegisteredMemory, DoesNotBlockOnAPipe) {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/pipe";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  const UniqueFd pipe(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  ASSERT_TRUE(pipe);
  RegisteredMemory ours;
  EXPECT_FALSE(ours.Reach(kPeer, PlaceOf(pipe.get()), kBytes).has_value());
}

}  // namespace
}  // namespace espalier::runtime
