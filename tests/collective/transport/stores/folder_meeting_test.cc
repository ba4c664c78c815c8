#include "collective/transport/stores/folder_meeting.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/collective/transport/transport_contract.h"
#include "tests/temporary_folder.h"

namespace espalier::transport {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using Meetings = std::vector<std::unique_ptr<FolderMeeting>>;

Meetings MeetAll(const std::string& folder, int size, const std::string& name = "world") {
  Meetings meetings(static_cast<std::size_t>(size));
  std::vector<std::thread> threads;
  for (int rank = size - 1; rank >= 0; --rank) {
    threads.emplace_back([&, rank] {
      auto met = FolderMeeting::Join(folder, name, rank, size, InAWhile());
      ASSERT_TRUE(met) << met.error().message;
      meetings[static_cast<std::size_t>(rank)] = std::move(*met);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return meetings;
}

std::size_t CountFiles(const std::string& folder, const std::string& begin) {
  const auto counts = [&](const fs::directory_entry& entry) {
    return entry.path().filename().string().starts_with(begin);
  };
  return static_cast<std::size_t>(
      std::count_if(fs::directory_iterator(folder), fs::directory_iterator(), counts));
}

TEST(FolderMeeting, GivesAllRanksOfARunOneStore) {
  TemporaryFolder folder;
  const Meetings meetings = MeetAll(folder.path(), 4);
  ExpectDone(meetings[0]->store().Set("world/costs", "one", InAWhile()));
  for (const auto& meeting : meetings) {
    ASSERT_NE(meeting, nullptr);
    EXPECT_EQ(meeting->run_name(), meetings[0]->run_name());
    EXPECT_EQ(*meeting->store().Get("world/costs", InAWhile()), "one");
  }
}

// What an earlier run has left is neither seen by the next one nor kept for ever.
TEST(FolderMeeting, StartsAnewInEveryRun) {
  TemporaryFolder folder;
  std::string earlier;
  for (int run = 0; run < 3; ++run) {
    const Meetings meetings = MeetAll(folder.path(), 3);
    ASSERT_NE(meetings[2], nullptr);
    EXPECT_NE(meetings[2]->run_name(), earlier);
    earlier = meetings[2]->run_name();
    EXPECT_FALSE(meetings[1]->store().Get("world/memory", In(milliseconds(0))));
    ExpectDone(meetings[1]->store().Set("world/memory", "of this run", InAWhile()));
  }
  // The numbers and agreements of three ranks, the run and its start.
  EXPECT_LE(CountFiles(folder.path(), "world."), 8U);
}

// Files of a run whose processes were killed: nobody holds a lock.
TEST(FolderMeeting, IgnoresAndRemovesWhatAKilledRunLeft) {
  TemporaryFolder folder;
  const auto write = [&](const std::string& file, const std::string& text) {
    std::ofstream(folder.path() + '/' + file) << text;
  };
  write("world.meeting.0", "00000000000000aa 2");
  write("world.meeting.1", "00000000000000bb 2");
  write("world.agrees.1", "00000000000000cc 2");
  write("world.meeting.all", "00000000000000cc 2 00000000000000aa 00000000000000bb");
  write("world.meeting.go", "00000000000000cc");
  write("world.00000000000000cc.lock", "");
  write("world.00000000000000cc.world.memory", "12528 3");
  const Meetings meetings = MeetAll(folder.path(), 2);
  ASSERT_NE(meetings[1], nullptr);
  EXPECT_EQ(CountFiles(folder.path(), "world.00000000000000cc"), 0U);
  EXPECT_FALSE(meetings[1]->store().Get("world/memory", In(milliseconds(0))));
}

TEST(FolderMeeting, LeavesTheFilesOfARunThatGoesOn) {
  TemporaryFolder folder;
  const Meetings first = MeetAll(folder.path(), 2);
  ExpectDone(first[0]->store().Set("key", "of the first", InAWhile()));
  const Meetings second = MeetAll(folder.path(), 2);
  EXPECT_NE(first[0]->run_name(), second[0]->run_name());
  EXPECT_EQ(*first[1]->store().Get("key", InAWhile()), "of the first");
}

TEST(FolderMeeting, NamesWhoIsMissing) {
  TemporaryFolder folder;
  const auto alone = FolderMeeting::Join(folder.path(), "world", 0, 3, In(milliseconds(50)));
  ASSERT_FALSE(alone);
  EXPECT_EQ(alone.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(alone.error().message.find("ranks that did not join in time: 1 2"), std::string::npos)
      << alone.error().message;
  const auto without = FolderMeeting::Join(folder.path(), "world", 1, 3, In(milliseconds(50)));
  ASSERT_FALSE(without);
  EXPECT_NE(without.error().message.find("rank 0 did not join in time"), std::string::npos)
      << without.error().message;
}

TEST(FolderMeeting, RefusesUnknownFoldersAndRanksAtOnce) {
  TemporaryFolder folder;
  const std::string typo = folder.path() + "/typo";
  const auto unknown = FolderMeeting::Join(typo, "world", 0, 2, InAWhile());
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().code, ErrorCode::kNotFound);
  EXPECT_NE(unknown.error().message.find(typo), std::string::npos);
  EXPECT_FALSE(fs::exists(typo));
  const auto wrong = FolderMeeting::Join(folder.path(), "world", 5, 2, InAWhile());
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().code, ErrorCode::kInvalidArgument);
}

TEST(FolderMeeting, TellsBothRanksThatTheirSizesDiffer) {
  TemporaryFolder folder;
  std::thread other([&] {
    const auto met = FolderMeeting::Join(folder.path(), "world", 1, 3, InAWhile());
    ASSERT_FALSE(met);
    EXPECT_EQ(met.error().message, "rank 0 has a group of 2 ranks, but rank 1 has one of 3");
  });
  const auto met = FolderMeeting::Join(folder.path(), "world", 0, 2, InAWhile());
  other.join();
  ASSERT_FALSE(met);
  EXPECT_EQ(met.error().code, ErrorCode::kFailedPrecondition);
  EXPECT_EQ(met.error().message, "rank 1 has a group of 3 ranks, but rank 0 has one of 2");
}

// The later process is the one that may go on, as the earlier one may be what is left of a crash.
TEST(FolderMeeting, RefusesTheSameRankTwice) {
  TemporaryFolder folder;
  std::thread earlier([&] {
    const auto met = FolderMeeting::Join(folder.path(), "world", 0, 2, InAWhile());
    ASSERT_FALSE(met);
    EXPECT_EQ(met.error().code, ErrorCode::kAlreadyExists) << met.error().message;
  });
  while (!fs::exists(folder.path() + "/world.meeting.0")) std::this_thread::yield();
  const auto met = FolderMeeting::Join(folder.path(), "world", 0, 2, In(milliseconds(500)));
  earlier.join();
  EXPECT_FALSE(met);
}

}  // namespace
}  // namespace espalier::transport
