#include "collective/runtime/exchange/message_exchange.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "collective/runtime/group/function_reduction.h"
#include "tests/collective/runtime/collective_cases.h"
#include "tests/collective/runtime/ranks_test.h"

namespace espalier::runtime {
namespace {

using reduce::DataType;
using Words = std::vector<std::int32_t>;

class MessageExchangeTest : public RanksTest {};
INSTANTIATE_TEST_SUITE_P(All, MessageExchangeTest,
                         ::testing::Values(Medium::kShared, Medium::kTcp, Medium::kHosts),
                         [](const auto& test) { return std::string(MediumName(test.param)); });

// The word that one rank gives to another.
std::int32_t WordOf(int from, int to, std::size_t index) {
  return from * 1'000'003 + to * 10'007 + static_cast<std::int32_t>(index);
}

Words WordsOf(int from, int to, std::size_t count) {
  Words words(count);
  for (std::size_t i = 0; i < count; ++i) words[i] = WordOf(from, to, i);
  return words;
}

void Append(Words& to, const Words& what) { to.insert(to.end(), what.begin(), what.end()); }

// The number of words that one rank gives to another: some give nothing, some much.
std::size_t CountOf(int from, int to, std::size_t most) {
  return (from + 2 * to) % 4 == 1 ? 0 : most * static_cast<std::size_t>(from + 1) / (to + 2);
}

constexpr std::int32_t kGuard = -77;

void ExpectAllToAllV(Communicator& group, std::size_t most) {
  const int rank = group.rank();
  std::vector<std::size_t> given;
  std::vector<std::size_t> got;
  Words input;
  Words expected;
  for (int peer = 0; peer < group.size(); ++peer) {
    given.push_back(CountOf(rank, peer, most));
    got.push_back(CountOf(peer, rank, most));
    Append(input, WordsOf(rank, peer, given.back()));
    Append(expected, WordsOf(peer, rank, got.back()));
  }
  Words output(expected.size() + 1, kGuard);
  expected.push_back(kGuard);
  const auto exchange = MakeAllToAll(rank, group.size(), input.data(), {.counts = given},
                                     output.data(), {.counts = got}, DataType::kI32);
  ASSERT_TRUE(exchange) << exchange.error().message;
  ExpectDone(group.RunExchange(*exchange));
  EXPECT_TRUE(output == expected) << "rank " << rank << " of " << group.size() << ", " << most;
}

void ExpectGather(Communicator& group, std::size_t most, bool in_place) {
  const int rank = group.rank();
  const int root = static_cast<int>(most) % group.size();
  std::vector<std::size_t> counts;
  Words expected;
  for (int peer = 0; peer < group.size(); ++peer) {
    counts.push_back(CountOf(peer, 1, most));
    Append(expected, WordsOf(peer, root, counts.back()));
  }
  const std::size_t own = counts[static_cast<std::size_t>(rank)];
  const Words input = WordsOf(rank, root, own);
  Words output(rank == root ? expected.size() + 1 : 1, kGuard);
  const std::int32_t* from = input.data();
  if (in_place && rank == root) {
    const auto begin = std::accumulate(counts.begin(), counts.begin() + rank, std::ptrdiff_t{0});
    std::copy(input.begin(), input.end(), output.begin() + begin);
    from = output.data() + begin;
  }
  const Parts parts = rank == root ? Parts{.counts = counts} : Parts{};
  const auto exchange =
      MakeGather(rank, group.size(), from, own, output.data(), parts, DataType::kI32, root);
  ASSERT_TRUE(exchange) << exchange.error().message;
  ExpectDone(group.RunExchange(*exchange));
  if (rank != root) expected.clear();
  expected.push_back(kGuard);
  EXPECT_TRUE(output == expected) << "rank " << rank << " of " << group.size() << ", " << most;
}

void ExpectScatter(Communicator& group, std::size_t count) {
  const int rank = group.rank();
  const int root = static_cast<int>(count + 1) % group.size();
  Words input;
  for (int peer = 0; peer < group.size() && rank == root; ++peer) {
    Append(input, WordsOf(root, peer, count));
  }
  Words output(count + 1, kGuard);
  const auto exchange =
      MakeScatter(rank, group.size(), input.data(), {.counts = {}, .count = count}, output.data(),
                  count, DataType::kI32, root);
  ASSERT_TRUE(exchange) << exchange.error().message;
  ExpectDone(group.RunExchange(*exchange));
  Words expected = WordsOf(root, rank, count);
  expected.push_back(kGuard);
  EXPECT_TRUE(output == expected) << "rank " << rank << " of " << group.size() << ", " << count;
}

TEST_P(MessageExchangeTest, IsAsTheReference) {
  for (int size = 1; size <= 9; ++size) {
    group_name_ = "of " + std::to_string(size);
    RunRanks(size, [](Communicator& group) {
      bool in_place = false;
      for (const std::size_t most : {0U, 1U, 7U, 1'001U, 40'009U}) {
        ExpectAllToAllV(group, most);
        ExpectGather(group, most, in_place);
        ExpectScatter(group, most);
        in_place = !in_place;
      }
      // Other calls still work.
      std::int64_t one = 1;
      ExpectDone(group.AllReduce(&one, &one, 1, DataType::kI64, reduce::ReduceOp::kSum));
      EXPECT_EQ(one, group.size());
    });
  }
}

TEST_P(MessageExchangeTest, MovesBlocksOfManyMessages) {
  RunRanks(3, [](Communicator& group) {
    ExpectAllToAllV(group, 700'001);
    ExpectGather(group, 900'003, true);
    ExpectScatter(group, 600'001);
  });
}

template <typename T>
Result<void> Send(Communicator& group, const std::vector<T>& data, int peer, std::uint64_t tag) {
  Exchange exchange;
  exchange.sends.push_back({.peer = peer, .bytes = std::as_bytes(std::span(data)), .tag = tag});
  return group.RunExchange(exchange);
}

template <typename T>
Result<void> Receive(Communicator& group, std::vector<T>& data, int peer, std::uint64_t tag) {
  Exchange exchange;
  exchange.receives.push_back(
      {.peer = peer, .bytes = std::as_writable_bytes(std::span(data)), .tag = tag});
  return group.RunExchange(exchange);
}

void ExpectReceived(Communicator& group, int from, std::uint64_t tag, std::size_t count, int key) {
  Words got(count);
  ExpectDone(Receive(group, got, from, tag));
  EXPECT_TRUE(got == WordsOf(from, key, count)) << "tag " << tag;
}

// The receiver asks in another order than the sender sent.
TEST_P(MessageExchangeTest, MatchesMessagesByTheirTags) {
  RunRanks(3, [](Communicator& group) {
    if (group.rank() == 0) {
      ExpectDone(Send(group, WordsOf(0, 5, 10), 1, 5));
      ExpectDone(Send(group, WordsOf(0, 6, 1'000), 1, 6));
      ExpectDone(Send(group, WordsOf(0, 50, 10), 1, 5));  // the tag again
      ExpectDone(Send(group, Words{}, 1, 8));
    }
    if (group.rank() == 0) ExpectDone(Send(group, WordsOf(0, 7, 3), 1, 7));
    if (group.rank() == 1) {
      ExpectReceived(group, 0, 7, 3, 7);
      ExpectReceived(group, 0, 8, 0, 8);
      ExpectReceived(group, 0, 5, 10, 5);
      ExpectReceived(group, 0, 5, 10, 50);
      ExpectReceived(group, 0, 6, 1'000, 6);
    }
    ExpectAllToAllV(group, 100);
    if (group.rank() == 1) ExpectDone(Send(group, WordsOf(1, 7, 3), 2, 7));
    if (group.rank() == 2) ExpectReceived(group, 1, 7, 3, 7);
    ExpectDone(group.Barrier());
  });
}

// Every rank sends much to the next one and itself, and receives at the same time.
TEST_P(MessageExchangeTest, SendsAndReceivesAtOnce) {
  RunRanks(4, [](Communicator& group) {
    const int next = (group.rank() + 1) % 4;
    const int last = (group.rank() + 3) % 4;
    constexpr std::size_t kCount = 800'000;
    const Words given = WordsOf(group.rank(), next, kCount);
    Words got(kCount);
    Words small(3);
    Words own(kCount);
    Exchange exchange;
    const auto bytes = std::as_bytes(std::span(given));
    exchange.sends = {{.peer = next, .bytes = bytes, .tag = 1},
                      {.peer = next, .bytes = bytes.first(12), .tag = 2},
                      {.peer = group.rank(), .bytes = bytes, .tag = 9}};
    exchange.receives = {
        {.peer = last, .bytes = std::as_writable_bytes(std::span(small)), .tag = 2},
        {.peer = last, .bytes = std::as_writable_bytes(std::span(got)), .tag = 1},
        {.peer = group.rank(), .bytes = std::as_writable_bytes(std::span(own)), .tag = 9}};
    for (int round = 0; round < 3; ++round) ExpectDone(group.RunExchange(exchange));
    EXPECT_TRUE(got == WordsOf(last, group.rank(), kCount));
    EXPECT_TRUE(small == WordsOf(last, group.rank(), 3));
    EXPECT_TRUE(own == given);
  });
}

TEST_P(MessageExchangeTest, RefusesWhatCannotBeAndGoesOn) {
  RunRanks(2, [](Communicator& group) {
    Words data(4);
    const auto refused = [](const Result<void>& result, const char* why) {
      ASSERT_FALSE(result);
      EXPECT_EQ(result.error().code, ErrorCode::kInvalidArgument);
      EXPECT_NE(result.error().message.find(why), std::string::npos) << result.error().message;
    };
    refused(Send(group, data, 2, 0), "there is no such rank");
    refused(Receive(group, data, group.rank(), 3), "has sent nothing there");
    ExpectDone(Send(group, data, group.rank(), 3));
    Words other(5);
    refused(Receive(group, other, group.rank(), 3), "but has sent 16");
    ExpectDone(Receive(group, data, group.rank(), 3));
    ExpectAllToAllV(group, 50);
  });
}

// Every rank gets an error, and at least one of both names the two ranks and sizes.
TEST_P(MessageExchangeTest, NamesRanksThatContradictEachOther) {
  std::array<std::string, 3> heard;
  RunRanks(3, [&](Communicator& group) {
    std::vector<std::size_t> given = {1, 2, 3};
    std::vector<std::size_t> got(3, static_cast<std::size_t>(group.rank() + 1));
    if (group.rank() == 2) got[0] = 4;  // rank 0 gives it 3
    Words input(6);
    Words output(12, kGuard);
    const auto exchange = MakeAllToAll(group.rank(), 3, input.data(), {.counts = given},
                                       output.data(), {.counts = got}, DataType::kI32);
    ASSERT_TRUE(exchange) << exchange.error().message;
    auto done = group.RunExchange(*exchange);
    // Ranks that have got all learn of it in their next call.
    if (done) done = group.Barrier();
    ASSERT_FALSE(done);
    heard[static_cast<std::size_t>(group.rank())] = done.error().message;
    EXPECT_EQ(output.back(), kGuard);
  });
  EXPECT_NE(heard[2].find("rank 0 sends 3 i32 to rank 2, which expects 4"), std::string::npos)
      << heard[2];
}

TEST_P(MessageExchangeTest, NamesARankThatMakesAnotherCall) {
  RunRanks(3, [](Communicator& group) {
    Words input(3);
    Words output(9);
    const DataType type = group.rank() == 1 ? DataType::kF32 : DataType::kI32;
    const auto exchange = MakeGather(group.rank(), 3, input.data(), 3, output.data(),
                                     {.counts = {}, .count = 3}, type, 0);
    ASSERT_TRUE(exchange);
    auto done = group.RunExchange(*exchange);
    if (done) done = group.Barrier();
    ASSERT_FALSE(done);
    EXPECT_NE(done.error().message.find("rank 1 "), std::string::npos) << done.error().message;
  });
}

TEST_P(MessageExchangeTest, KeepsOnlySoMuch) {
  RunRanks(2, [](Communicator& group) {
    std::vector<std::byte> data(MessageExchange::kMaxKeptBytes + 1);
    if (group.rank() == 0) {
      ASSERT_FALSE(Send(group, data, 1, 1));
      return;
    }
    const auto got = Receive(group, data, 0, 2);
    ASSERT_FALSE(got);
    EXPECT_EQ(got.error().code, ErrorCode::kResourceExhausted);
    EXPECT_NE(got.error().message.find("rank 0 has sent 67108865 bytes under tag 1"),
              std::string::npos)
        << got.error().message;
  });
}

// Where rank 2 dies: before the call, after a part of its messages, or between the two exchanges of
// a reduction.
void RunAndDie(Communicator& group, int phase, Result<void>& done) {
  const bool dies = group.rank() == 2;
  Words input(3'000, 1);
  Words output(3'000);
  if (phase == 0) {
    if (dies) ::raise(SIGKILL);
    const std::vector<std::size_t> counts(3, 1'000);
    const auto exchange = MakeAllToAll(group.rank(), 3, input.data(), {.counts = counts},
                                       output.data(), {.counts = counts}, DataType::kI32);
    done = group.RunExchange(*exchange);
  } else if (phase == 1) {
    Words more(10);
    if (dies) {
      static_cast<void>(Send(group, more, 0, 1));
      static_cast<void>(Send(group, more, 1, 1));
      ::raise(SIGKILL);
    }
    done = Receive(group, more, 2, 1);
    if (done) done = Receive(group, more, 2, 2);
  } else {
    const ReductionFunction function = {.element_bytes = 4,
                                        .combine = [&](std::byte*, const std::byte*, std::size_t) {
                                          if (dies) ::raise(SIGKILL);
                                        }};
    done = AllReduceBy(group, input.data(), output.data(), input.size(), function);
  }
}

TEST_P(MessageExchangeTest, NamesARankThatDiesInAnyPhase) {
  for (int phase = 0; phase < 3; ++phase) {
    group_name_ = "phase " + std::to_string(phase);
    std::vector<pid_t> children;
    for (int rank = 0; rank < 3; ++rank) {
      const pid_t child = ::fork();
      if (child != 0) {
        children.push_back(child);
        continue;
      }
      auto group = Join(rank, 3);
      if (!group) ::_exit(2);
      Result<void> done;
      RunAndDie(**group, phase, done);
      if (done) ::_exit(3);
      ::_exit(done.error().message.find("rank 2 ") != std::string::npos ? 0 : 4);
    }
    for (int rank = 0; rank < 3; ++rank) {
      int status = 0;
      ASSERT_GT(::waitpid(children[static_cast<std::size_t>(rank)], &status, 0), 0);
      const bool is_right = rank == 2 ? WIFSIGNALED(status) : status == 0;
      EXPECT_TRUE(is_right) << "phase " << phase << ", rank " << rank << ": " << status;
    }
  }
}

}  // namespace
}  // namespace espalier::runtime
