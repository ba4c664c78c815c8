#include "collective/runtime/shared/area/peer_memory.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "collective/runtime/group/communicator.h"
#include "collective/transport/stores/file_store.h"
#include "tests/temporary_folder.h"

namespace espalier::runtime {
namespace {

using reduce::DataType;

std::string ErrorOf(const Result<void>& done) { return done ? "" : done.error().message; }

// A forked process with a copy of this one's memory; it lives as long as the object.
class Twin {
 public:
  Twin() {
    int ends[2] = {};
    EXPECT_EQ(::pipe(ends), 0);
    process_ = ::fork();
    if (process_ == 0) {
      ::close(ends[1]);
      char nothing = 0;
      ::_exit(::read(ends[0], &nothing, 1) == 0 ? 0 : 1);
    }
    ::close(ends[0]);
    end_ = ends[1];
  }
  Twin(const Twin&) = delete;
  Twin& operator=(const Twin&) = delete;
  ~Twin() { Finish(); }

  pid_t process() const { return process_; }
  void Finish() {
    if (end_ < 0) return;
    ::close(end_);
    end_ = -1;
    ::waitpid(process_, nullptr, 0);
  }

 private:
  pid_t process_ = 0;
  int end_ = -1;
};

TEST(PeerMemory, ReadsItsOwnProcess) {
  PeerMemory memory;
  EXPECT_FALSE(memory.ReadsAll());
  PeerMemory other;
  memory.Meet({memory.owner(), other.owner()});
  ASSERT_TRUE(memory.ReadsAll());
  const std::vector<std::byte> from(10'000, std::byte{7});
  std::vector<std::byte> to(from.size());
  ASSERT_TRUE(memory.Read(1, from.data(), to.data(), to.size()));
  EXPECT_EQ(to, from);
}

TEST(PeerMemory, ReadsAnotherProcessWhileItIsThere) {
  PeerMemory memory;
  std::vector<std::byte> data(3 << 20, std::byte{1});
  Twin twin;
  MemoryOwner there = memory.owner();
  there.process = twin.process();
  memory.Meet({memory.owner(), there});
  if (!memory.ReadsAll()) GTEST_SKIP() << "processes may not read one another here";
  std::fill(data.begin(), data.end(), std::byte{2});  // in this process only
  std::vector<std::byte> to(data.size());
  ASSERT_TRUE(memory.Read(1, data.data(), to.data(), to.size()));
  EXPECT_EQ(to, std::vector<std::byte>(data.size(), std::byte{1}));
  const auto nowhere = memory.Read(1, nullptr, to.data(), to.size());
  ASSERT_FALSE(nowhere);
  EXPECT_NE(nowhere.error().message.find("rank 1"), std::string::npos) << nowhere.error().message;
  twin.Finish();
  const auto gone = memory.Read(1, data.data(), to.data(), to.size());
  ASSERT_FALSE(gone);
  EXPECT_EQ(gone.error().code, ErrorCode::kUnavailable);
}

TEST(PeerMemory, WritesToItsOwnProcessAndToAnother) {
  PeerMemory memory;
  std::vector<std::byte> data(3 << 20, std::byte{1});
  Twin twin;
  MemoryOwner there = memory.owner();
  there.process = twin.process();
  memory.Meet({memory.owner(), there});
  if (!memory.WritesAll()) GTEST_SKIP() << "processes may not write one another here";
  const std::vector<std::byte> from(data.size() - 100, std::byte{3});
  ASSERT_TRUE(memory.Write(1, from.data(), data.data(), from.size()));
  EXPECT_EQ(data, std::vector<std::byte>(data.size(),
                                         std::byte{1}));  // written in the other process only
  std::vector<std::byte> back(data.size());
  ASSERT_TRUE(memory.Read(1, data.data(), back.data(), back.size()));
  EXPECT_TRUE(std::equal(from.begin(), from.end(), back.begin()));
  EXPECT_EQ(back.back(), std::byte{1});
  ASSERT_TRUE(memory.Write(0, from.data(), data.data(), from.size()));
  EXPECT_EQ(data, back);
  twin.Finish();
  const auto gone = memory.Write(1, from.data(), data.data(), from.size());
  ASSERT_FALSE(gone);
  EXPECT_NE(gone.error().message.find("rank 1"), std::string::npos) << gone.error().message;
}

TEST(PeerMemory, KnowsAnotherProcessByItsWord) {
  PeerMemory memory;
  Twin twin;
  MemoryOwner stranger = memory.owner();
  stranger.process = twin.process();
  stranger.word ^= 1;
  memory.Meet({memory.owner(), stranger});
  EXPECT_FALSE(memory.ReadsAll());
  EXPECT_FALSE(memory.WritesAll());
  MemoryOwner nobody = memory.owner();
  nobody.process = twin.process();
  nobody.place = nullptr;
  memory.Meet({nobody});
  EXPECT_FALSE(memory.ReadsAll());
}

float ValueAt(int rank, std::size_t index) {
  return static_cast<float>((static_cast<std::size_t>(rank) * 31 + index) % 1009);
}

std::vector<float> ValuesOf(int rank, std::size_t count) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = ValueAt(rank, i);
  return values;
}

// Long parts by single-copy, by its fallback if reading is forbidden, and parts too short for it.
class LongParts : public ::testing::TestWithParam<std::size_t> {
 protected:
#if defined(__SANITIZE_THREAD__)
  // It takes a file that is mapped at several addresses for several memories, so that the flags
  // there order nothing for it: all that a rank reads of another's buffer is a race. Suppressed
  // ones are looked for among all before them, which takes longer than the ranks wait.
  void SetUp() override {
    constexpr std::size_t kMaxThroughSlots = 8'000;
    if (GetParam() > kMaxThroughSlots) GTEST_SKIP() << "the thread sanitizer takes it for races";
  }
#endif

  // With each protocol forced, and with those that are chosen in successive calls.
  void RunRanks(const std::function<void(Communicator&)>& body) {
    for (const std::string way : {"", "staged", "staged-streaming", "single-copy"}) {
      for (const int ranks : {2, 3}) RunGroup(way, ranks, body);
    }
  }

  void RunGroup(const std::string& way, int ranks, const std::function<void(Communicator&)>& body) {
    constexpr int kCallsForAChoice = 6;
    std::vector<std::thread> threads;
    for (int rank = 0; rank < ranks; ++rank) {
      threads.emplace_back([&, rank] {
        auto group = Communicator::Join(store_, "g" + way + std::to_string(ranks), rank, ranks,
                                        {.medium = Medium::kShared, .algorithm = way});
        ASSERT_TRUE(group) << group.error().message;
        for (int i = 0; i < (way.empty() ? kCallsForAChoice : 1); ++i) body(**group);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

  TemporaryFolder folder_;
  transport::FileStore store_{folder_.path()};
};

TEST_P(LongParts, AreGathered) {
  const std::size_t count = GetParam();
  RunRanks([&](Communicator& group) {
    const std::vector<float> input = ValuesOf(group.rank(), count);
    std::vector<float> expected;
    for (int rank = 0; rank < group.size(); ++rank) {
      const std::vector<float> part = ValuesOf(rank, count);
      expected.insert(expected.end(), part.begin(), part.end());
    }
    std::vector<float> output(count * static_cast<std::size_t>(group.size()));
    ASSERT_EQ(ErrorOf(group.AllGather(input.data(), output.data(), count, DataType::kF32)), "");
    EXPECT_TRUE(output == expected);
    // In place.
    output.assign(output.size(), -1);
    float* own = output.data() + static_cast<std::size_t>(group.rank()) * count;
    std::copy(input.begin(), input.end(), own);
    ASSERT_EQ(ErrorOf(group.AllGather(own, output.data(), count, DataType::kF32)), "");
    EXPECT_TRUE(output == expected);
    // Rank 1 gives nothing.
    std::vector<std::size_t> counts(static_cast<std::size_t>(group.size()), count);
    counts[1] = 0;
    expected.erase(expected.begin() + static_cast<std::ptrdiff_t>(count),
                   expected.begin() + static_cast<std::ptrdiff_t>(2 * count));
    output.assign(expected.size(), -1);
    const float* given = group.rank() == 1 ? nullptr : input.data();
    ASSERT_EQ(ErrorOf(group.RunUnequal(program::CollectiveKind::kAllGather, given, output.data(),
                                       counts, DataType::kF32, reduce::ReduceOp::kSum)),
              "");
    EXPECT_TRUE(output == expected);
  });
}

TEST_P(LongParts, AreBroadcast) {
  const std::size_t count = GetParam();
  RunRanks([&](Communicator& group) {
    for (int root = 0; root < group.size(); ++root) {
      std::vector<float> data = ValuesOf(group.rank() == root ? root : -1, count);
      const float guard = 99;
      data.push_back(guard);
      ASSERT_EQ(ErrorOf(group.Broadcast(data.data(), count, DataType::kF32, root)), "");
      EXPECT_EQ(data.back(), guard);
      data.pop_back();
      EXPECT_TRUE(data == ValuesOf(root, count)) << "rank " << group.rank() << " root " << root;
    }
  });
}

TEST_P(LongParts, AreReduced) {
  const std::size_t count = GetParam();
  RunRanks([&](Communicator& group) {
    std::vector<float> expected(count);
    for (std::size_t i = 0; i < count; ++i) {
      for (int rank = 0; rank < group.size(); ++rank) expected[i] += ValueAt(rank, i);
    }
    for (int root = 0; root < group.size(); ++root) {
      const std::vector<float> input = ValuesOf(group.rank(), count);
      std::vector<float> output(count + 1, 99);
      ASSERT_EQ(ErrorOf(group.Reduce(input.data(), output.data(), count, DataType::kF32,
                                     reduce::ReduceOp::kSum, root)),
                "");
      EXPECT_EQ(output.back(), 99);
      output.pop_back();
      EXPECT_TRUE(output == (group.rank() == root ? expected : std::vector<float>(count, 99)));
      EXPECT_TRUE(input == ValuesOf(group.rank(), count));
      // In place, at the root.
      std::vector<float> data = input;
      ASSERT_EQ(ErrorOf(group.Reduce(data.data(), data.data(), count, DataType::kF32,
                                     reduce::ReduceOp::kSum, root)),
                "");
      EXPECT_TRUE(data == (group.rank() == root ? expected : input));
    }
  });
}

// The longest outputs use streaming stores.
TEST_P(LongParts, AreReducedForAll) {
  const std::size_t count = 2 * GetParam();
  RunRanks([&](Communicator& group) {
    std::vector<float> expected(count);
    for (std::size_t i = 0; i < count; ++i) {
      for (int rank = 0; rank < group.size(); ++rank) expected[i] += ValueAt(rank, i);
    }
    const std::vector<float> input = ValuesOf(group.rank(), count);
    std::vector<float> output(count, -1);
    ASSERT_EQ(ErrorOf(group.AllReduce(input.data(), output.data(), count, DataType::kF32,
                                      reduce::ReduceOp::kSum)),
              "");
    EXPECT_TRUE(output == expected);
    output = input;
    ASSERT_EQ(ErrorOf(group.AllReduce(output.data(), output.data(), count, DataType::kF32,
                                      reduce::ReduceOp::kSum)),
              "");
    EXPECT_TRUE(output == expected);
  });
}

TEST_P(LongParts, AreExchanged) {
  const std::size_t count = GetParam();
  RunRanks([&](Communicator& group) {
    const auto own = static_cast<std::size_t>(group.rank());
    const std::vector<float> input =
        ValuesOf(group.rank(), count * static_cast<std::size_t>(group.size()));
    std::vector<float> expected;
    for (int rank = 0; rank < group.size(); ++rank) {
      for (std::size_t i = 0; i < count; ++i) expected.push_back(ValueAt(rank, own * count + i));
    }
    std::vector<float> output(input.size());
    ASSERT_EQ(ErrorOf(group.AllToAll(input.data(), output.data(), count, DataType::kF32)), "");
    EXPECT_TRUE(output == expected);
    // In place on one rank only: then no rank uses single-copy.
    output = input;
    const float* from = group.rank() == 1 ? output.data() : input.data();
    ASSERT_EQ(ErrorOf(group.AllToAll(from, output.data(), count, DataType::kF32)), "");
    EXPECT_TRUE(output == expected);
  });
}

// Rank 1 aborts, and its program reuses its memory. Then the root arrives, which would have written
// to it.
TEST(LateRank, DoesNotWriteToARankThatHasAborted) {
  constexpr std::size_t kCount = 300'007;
  TemporaryFolder folder;
  transport::FileStore store(folder.path());
  std::unique_ptr<Communicator> groups[2];
  const auto join = [&](int rank) {
    auto group = Communicator::Join(store, "g", rank, 2,
                                    {.medium = Medium::kShared,
                                     .timeout = std::chrono::seconds(5),
                                     .algorithm = "single-copy"});
    ASSERT_TRUE(group) << group.error().message;
    groups[rank] = std::move(*group);
  };
  std::vector<float> data[2] = {ValuesOf(0, kCount), std::vector<float>(kCount)};
  const auto broadcast = [&](int rank) {
    return groups[rank]->Broadcast(data[rank].data(), kCount, DataType::kF32, 0);
  };
  std::thread other([&] {
    join(1);
    ASSERT_TRUE(broadcast(1));  // the ranks exchange their memory owners
  });
  join(0);
  ASSERT_TRUE(broadcast(0));
  other.join();
  ASSERT_EQ(data[1], ValuesOf(0, kCount));

  EXPECT_FALSE(broadcast(1));
  std::fill(data[1].begin(), data[1].end(), -1.0F);
  EXPECT_FALSE(broadcast(0));
  EXPECT_EQ(data[1], std::vector<float>(kCount, -1.0F));
}

INSTANTIATE_TEST_SUITE_P(Elements, LongParts, ::testing::Values(1'001, 50'021, 300'007, 1'300'003));

}  // namespace
}  // namespace espalier::runtime
