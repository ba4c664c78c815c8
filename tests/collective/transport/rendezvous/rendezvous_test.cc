#include "collective/transport/rendezvous/rendezvous.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <thread>

#include "collective/transport/stores/file_store.h"
#include "tests/collective/transport/transport_contract.h"
#include "tests/temporary_folder.h"

namespace espalier::transport {
namespace {

using std::chrono::milliseconds;

class RendezvousTest : public testing::Test {
 protected:
  Rendezvous RankOf(int rank, Rendezvous::Terms terms = Usual()) {
    return Rendezvous(store_, "g", rank, 4, std::move(terms), members_);
  }
  static Rendezvous::Terms Usual() {
    return {.medium = "test", .magic = 7, .version = 3, .form = 1, .slots = 4, .slot_bytes = 100};
  }
  // The group number that a rank has published.
  std::uint64_t Publish(Rendezvous& rendezvous) {
    ExpectDone(rendezvous.Publish(*IpAddress::Parse("127.0.0.1"), 80, InAWhile()));
    return PublishedEndpoint::Parse(
               *store_.Get("g/test." + std::to_string(rendezvous.rank()), InAWhile()), 3)
        ->group;
  }

  TemporaryFolder folder_;
  FileStore store_{folder_.path()};
  GroupCredentials members_;
};

TEST_F(RendezvousTest, FindsWhatThePeerHasPublished) {
  Rendezvous one = RankOf(1);
  Rendezvous two = RankOf(2);
  const std::uint64_t group = Publish(two);
  const auto found = one.FindPeer(2, InAWhile());
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(found->port, 80);
  EXPECT_EQ(found->group, group);
}

TEST_F(RendezvousTest, RefusesPeersOfAnotherVersionOrAtAForbiddenAddress) {
  Rendezvous::Terms older = Usual();
  older.version = 2;
  Rendezvous two = RankOf(2, older);
  ExpectDone(two.Publish(*IpAddress::Parse("127.0.0.1"), 80, InAWhile()));
  const auto of_another = RankOf(1).FindPeer(2, InAWhile());
  ASSERT_FALSE(of_another);
  EXPECT_EQ(of_another.error().code, ErrorCode::kFailedPrecondition);
  members_.addresses.assign(4, *IpAddress::Parse("127.0.0.2"));
  Rendezvous three = RankOf(3);
  Publish(three);
  const auto elsewhere = RankOf(1).FindPeer(3, InAWhile());
  ASSERT_FALSE(elsewhere);
  EXPECT_EQ(elsewhere.error().code, ErrorCode::kPermissionDenied);
}

TEST_F(RendezvousTest, CallsTheCheckPeriodically) {
  Rendezvous one = RankOf(1);
  int asked = 0;
  const auto stopped = one.FindPeer(2, InAWhile(), [&]() -> Result<void> {
    if (++asked < 3) return {};
    return Fail(ErrorCode::kUnavailable, "rank 2 has given up");
  });
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().message, "rank 2 has given up");
  EXPECT_EQ(asked, 3);
  // The deadline ends it, too, with the store's error.
  const auto late = one.FindPeer(2, In(milliseconds(120)), [] { return Result<void>(); });
  ASSERT_FALSE(late);
  EXPECT_NE(late.error().message, "rank 2 has given up");
  Rendezvous two = RankOf(2);
  const auto found = one.FindPeer(2, InAWhile(), [&]() -> Result<void> {
    if (++asked == 5) Publish(two);
    return {};
  });
  EXPECT_TRUE(found);
}

// Waiting does not repair a broken store.
TEST_F(RendezvousTest, ReturnsAnErrorOfTheStoreAtOnce) {
  class Broken : public RendezvousStore {
    Result<void> Set(const std::string&, const std::string&, Deadline) override { return {}; }
    Result<std::string> Get(const std::string&, Deadline) override {
      return Fail(ErrorCode::kPermissionDenied, "no key");
    }
  } broken;
  const GroupCredentials members;
  Rendezvous one(broken, "g", 1, 4, Usual(), members);
  int asked = 0;
  const auto found = one.FindPeer(2, InAWhile(), [&]() -> Result<void> {
    ++asked;
    return Fail(ErrorCode::kUnavailable, "has been asked");
  });
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().message, "no key");
  EXPECT_EQ(asked, 0);
}

TEST_F(RendezvousTest, ExpectsHellosOfThisGroupOnly) {
  Rendezvous answerer = RankOf(1);
  const std::uint64_t group = Publish(answerer);
  Hello hello = RankOf(2).HelloTo({1, 5}, group);
  EXPECT_EQ(hello.from, 2);
  EXPECT_EQ(hello.to, 1);
  hello.nonce.fill(9);
  EXPECT_TRUE(answerer.IsExpected(hello));
  const std::function<void(Hello&)> others[] = {
      [](Hello& h) { ++h.magic; },      [](Hello& h) { ++h.version; },
      [](Hello& h) { ++h.group; },      [](Hello& h) { h.to = 0; },
      [](Hello& h) { h.from = 1; },     [](Hello& h) { h.from = 4; },
      [](Hello& h) { h.from = -1; },    [](Hello& h) { h.channel = -1; },
      [](Hello& h) { h.form = 0; },     [](Hello& h) { ++h.slots; },
      [](Hello& h) { h.is_keyed = 1; }, [](Hello& h) { ++h.slot_bytes; },
  };
  for (std::size_t i = 0; i < std::size(others); ++i) {
    Hello other = hello;
    others[i](other);
    EXPECT_FALSE(answerer.IsExpected(other)) << i;
  }
}

TEST_F(RendezvousTest, SaysWhetherTheGroupHasAKey) {
  members_.key = JobKey::Draw();
  EXPECT_EQ(RankOf(2).HelloTo({1, 0}, 1).is_keyed, 1U);
}

TEST_F(RendezvousTest, NamesTheEndpointThatIsNotThere) {
  const Rendezvous rendezvous = RankOf(1);
  EXPECT_TRUE(rendezvous.CheckEndpoint({0, 7}));
  for (const Endpoint endpoint :
       {Endpoint{-1, 0}, Endpoint{4, 0}, Endpoint{1, 0}, Endpoint{0, -1}}) {
    const auto checked = rendezvous.CheckEndpoint(endpoint);
    ASSERT_FALSE(checked);
    EXPECT_EQ(checked.error().code, ErrorCode::kInvalidArgument);
  }
  EXPECT_EQ(rendezvous.CheckEndpoint({4, 2}).error().message,
            "rank 1 has no channel 2 to rank 4 (the group has 4 ranks)");
  for (const auto& [rank, size] : {std::pair(0, 0), std::pair(-1, 2), std::pair(2, 2)}) {
    EXPECT_FALSE(Rendezvous::CheckRank(rank, size));
  }
  EXPECT_TRUE(Rendezvous::CheckRank(1, 2));
}

}  // namespace
}  // namespace espalier::transport
