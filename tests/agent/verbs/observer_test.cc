// Tests what the shim counts, on a fake device.
#include "agent/verbs/observer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <list>
#include <numeric>
#include <random>
#include <thread>
#include <vector>

#include "tests/agent/verbs/fake_device.h"

namespace espalier::shim {
namespace {

TEST(TrafficCount, CompletionsCoverAllEarlierRequests) {
  constexpr std::uint32_t kMaxRequests = 12;
  std::mt19937_64 random(7);
  TrafficCount count(kMaxRequests);
  std::deque<SendRequest> queue;  // the oracle: what the device has
  std::uint64_t posted = 0;
  std::uint64_t completed = 0;
  for (int step = 0; step < 100'000; ++step) {
    if (queue.size() < kMaxRequests && random() % 2 == 0) {
      // The last request that fits is signalled, or the device would be stuck.
      const bool signalled = queue.size() + 1 == kMaxRequests || random() % 3 == 0;
      const SendRequest request = {.bytes = random() % 3 == 0 ? random() % (1ULL << 31) : 0,
                                   .signalled = signalled};
      count.Post(request);
      queue.push_back(request);
      posted += request.bytes;
    } else if (std::any_of(queue.begin(), queue.end(), [](auto& r) { return r.signalled; })) {
      bool is_last = false;
      while (!is_last) {
        completed += queue.front().bytes;
        is_last = queue.front().signalled;
        queue.pop_front();
      }
      count.Complete();
    }
    const TrafficCount::Reading reading = count.Read();
    ASSERT_EQ(TrafficCount::Difference(reading.posted_bytes, reading.completed_bytes),
              posted - completed);
  }
}

TEST(TrafficCount, SurvivesOverflowOfItsNumbers) {
  TrafficCount count(4);
  constexpr std::uint64_t kBytes = 3'000'000;  // so that bytes run over 2^40, too
  for (std::uint32_t i = 0; i < (1U << 24) + 10; ++i) {
    count.Post({.bytes = kBytes, .signalled = true});
    count.Complete();
  }
  count.Post({.bytes = 77, .signalled = false});
  const TrafficCount::Reading reading = count.Read();
  EXPECT_EQ(TrafficCount::Difference(reading.posted_bytes, reading.completed_bytes), 77U);
}

TEST(TrafficCount, AddsUpWhatThreadsPostAtOnce) {
  constexpr int kPosts = 20'000;
  TrafficCount count(2 * kPosts);
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&] {
      for (int post = 0; post < kPosts; ++post) {
        count.Post({.bytes = 10, .signalled = true});
        count.Complete();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(count.Read().posted_bytes, 20U * kPosts);
  EXPECT_EQ(count.Read().completed_bytes, 20U * kPosts);
}

struct Entry {
  ChainLink<Entry> link;
};

TEST(ChainTable, IsReadWhileEntriesComeAndGo) {
  ChainTable<Entry, &Entry::link> table;
  std::list<Entry> stay(500);
  std::uint64_t key = 0;
  for (Entry& entry : stay) table.Insert(entry, ++key);
  std::atomic<bool> done = false;
  std::thread reader([&] {
    do {
      std::uint64_t wanted = 0;
      for (Entry& entry : stay) ASSERT_EQ(table.Find(++wanted), &entry);
    } while (!done);
  });
  std::list<Entry> others;
  for (int i = 0; i < 5000; ++i) table.Insert(others.emplace_back(), 1'000'000U + key++);
  for (Entry& entry : others) table.Erase(entry);
  done = true;
  reader.join();
  EXPECT_EQ(table.Find(1'000'000U + 600), nullptr);
  table.Erase(others.front());  // not there
}

class ObserverTest : public ::testing::Test {
 protected:
  void SetUp() override {
    observer_.Watch(device_.context());
    Watch(false);
    queue_.context = &device_.context();
  }
  void TearDown() override {
    observer_.Forget(pair_.pair());
    observer_.ForgetExtended(pair_.pair());
    observer_.Forget(device_.context());
  }

  void Watch(bool all_signalled) {
    observer_.Forget(pair_.pair());
    ibv_qp_init_attr description = {};
    description.cap.max_send_wr = 64;
    description.sq_sig_all = all_signalled ? 1 : 0;
    watched_ = &observer_.Watch(pair_.pair(), description);
  }

  // Makes a list of requests, each with parts of these sizes.
  int Post(const std::vector<std::vector<std::uint32_t>>& requests, ibv_wr_opcode opcode,
           unsigned flags) {
    std::list<std::vector<ibv_sge>> parts;
    std::vector<ibv_send_wr> list(requests.size());
    for (std::size_t i = 0; i < requests.size(); ++i) {
      auto& own = parts.emplace_back();
      for (const std::uint32_t bytes : requests[i]) own.push_back({.length = bytes});
      list[i].sg_list = own.data();
      list[i].num_sge = static_cast<int>(own.size());
      list[i].opcode = opcode;
      list[i].send_flags = flags;
      list[i].next = i + 1 < list.size() ? &list[i + 1] : nullptr;
    }
    ibv_send_wr* failed = nullptr;
    return ibv_post_send(&pair_.pair(), list.data(), &failed);
  }
  int PostWrite(std::uint32_t bytes, unsigned flags = 0) {
    return Post({{bytes}}, IBV_WR_RDMA_WRITE, flags);
  }
  void Complete(ibv_wc_opcode opcode, ibv_wc_status status = IBV_WC_SUCCESS) {
    ibv_wc completion = {};
    completion.qp_num = kNumber;
    completion.status = status;
    completion.opcode = opcode;
    device_.completions.push_back(completion);
  }
  void Poll() {
    std::vector<ibv_wc> found(4);
    while (ibv_poll_cq(&queue_, 4, found.data()) > 0) {
    }
  }
  std::uint64_t Posted() const { return watched_->count.Read().posted_bytes; }
  std::uint64_t Completed() const { return watched_->count.Read().completed_bytes; }

  static constexpr std::uint32_t kNumber = 0x1234;
  Observer& observer_ = Observer::OfThisProcess();
  FakeDevice device_;
  FakePair pair_{device_, kNumber};
  ibv_cq queue_ = {};
  ObservedPair* watched_ = nullptr;
};

TEST_F(ObserverTest, CountsListsAndUnsignalledRequests) {
  EXPECT_EQ(PostWrite(100), 0);
  EXPECT_EQ(Post({{10, 20}, {30}, {40}}, IBV_WR_SEND, IBV_SEND_SIGNALED), 0);
  EXPECT_EQ(PostWrite(1000), 0);
  EXPECT_EQ(Posted(), 1200U);
  EXPECT_EQ(Completed(), 0U);
  Complete(IBV_WC_SEND);
  Poll();
  EXPECT_EQ(Completed(), 130U);
  Complete(IBV_WC_SEND);
  Complete(IBV_WC_SEND);
  Complete(IBV_WC_RECV);
  Complete(IBV_WC_RECV_RDMA_WITH_IMM);
  Complete(IBV_WC_LOCAL_INV);
  Poll();
  EXPECT_EQ(Completed(), 200U);
}

TEST_F(ObserverTest, CountsWhatWasAcceptedOfAListThatFails) {
  device_.accepted_posts = 2;
  EXPECT_EQ(Post({{1}, {2}, {4}, {8}}, IBV_WR_RDMA_WRITE, IBV_SEND_SIGNALED), ENOMEM);
  EXPECT_EQ(Posted(), 3U);
  EXPECT_EQ(PostWrite(16), ENOMEM);
  EXPECT_EQ(Posted(), 3U);
}

TEST_F(ObserverTest, DoesNotCountBytesThatThePeerSends) {
  EXPECT_EQ(Post({{500}}, IBV_WR_RDMA_READ, IBV_SEND_SIGNALED), 0);
  EXPECT_EQ(PostWrite(50, IBV_SEND_SIGNALED), 0);
  EXPECT_EQ(Post({{}}, IBV_WR_LOCAL_INV, IBV_SEND_SIGNALED), 0);
  EXPECT_EQ(Posted(), 50U);
  Complete(IBV_WC_RDMA_READ);
  Poll();
  EXPECT_EQ(Completed(), 0U);
  Complete(IBV_WC_RDMA_WRITE);
  Poll();
  EXPECT_EQ(Completed(), 50U);
}

TEST_F(ObserverTest, CountsQueuePairsWithAllRequestsSignalled) {
  Watch(true);
  EXPECT_EQ(PostWrite(5), 0);
  EXPECT_EQ(PostWrite(6), 0);
  Complete(IBV_WC_RDMA_WRITE);
  Poll();
  EXPECT_EQ(Completed(), 5U);
}

TEST_F(ObserverTest, CountsEverythingAsCompletedAfterAnError) {
  for (int i = 0; i < 3; ++i) EXPECT_EQ(PostWrite(100), 0);
  Complete(static_cast<ibv_wc_opcode>(77), IBV_WC_RETRY_EXC_ERR);  // it means nothing then
  Complete(IBV_WC_SEND, IBV_WC_WR_FLUSH_ERR);
  Poll();
  EXPECT_EQ(Completed(), 300U);
  EXPECT_EQ(PostWrite(100), 0);
  EXPECT_EQ(Completed(), Posted());
}

TEST_F(ObserverTest, IgnoresUnknownQueuePairs) {
  FakePair other(device_, 9);
  ibv_send_wr request = {};
  ibv_send_wr* failed = nullptr;
  EXPECT_EQ(ibv_post_send(&other.pair(), &request, &failed), 0);
  ibv_wc completion = {};
  completion.qp_num = 9;
  device_.completions.push_back(completion);
  Poll();
  EXPECT_EQ(Posted(), 0U);
  observer_.Forget(other.pair());
}

TEST_F(ObserverTest, ForgetsOneQueuePairAndKnowsTheNextOfItsNumber) {
  EXPECT_EQ(PostWrite(100), 0);
  Watch(false);
  EXPECT_EQ(Posted(), 0U);
  EXPECT_EQ(PostWrite(7), 0);
  EXPECT_EQ(Posted(), 7U);
  for (int i = 0; i < 3000; ++i) observer_.EndForgotten();
  EXPECT_EQ(Posted(), 7U);
}

TEST_F(ObserverTest, WatchesADeviceAtTheAddressOfOneThatWasClosedUnseen) {
  static int posted = 0;
  ibv_context_ops& functions = device_.context().ops;
  const auto hook = functions.post_send;
  functions.post_send = [](ibv_qp*, ibv_send_wr*, ibv_send_wr**) { return ++posted, 0; };
  functions.poll_cq = [](ibv_cq*, int, ibv_wc*) { return 0; };
  observer_.Watch(device_.context());
  EXPECT_EQ(functions.post_send, hook);
  FakePair other(device_, 99);
  ibv_send_wr request = {};
  ibv_send_wr* failed = nullptr;
  EXPECT_EQ(ibv_post_send(&other.pair(), &request, &failed), 0);
  EXPECT_EQ(posted, 1);
}

TEST_F(ObserverTest, CountsExtendedQueuePairs) {
  ibv_qp_ex& extended = pair_.extended;
  observer_.WatchExtended(extended);
  observer_.WatchExtended(extended);  // each time that the program asks
  Watch(false);                       // it connects, perhaps again
  ibv_wr_start(&extended);
  extended.wr_flags = 0;
  ibv_wr_rdma_write(&extended, 1, 2);
  ibv_wr_set_sge(&extended, 1, 2, 100);
  extended.wr_flags = IBV_SEND_SIGNALED;
  ibv_wr_rdma_write(&extended, 1, 2);
  ibv_wr_set_inline_data(&extended, nullptr, 20);
  ibv_wr_rdma_read(&extended, 1, 2);
  ibv_wr_set_sge(&extended, 1, 2, 1'000'000);
  ibv_wr_local_inv(&extended, 1);
  ibv_wr_rdma_write(&extended, 1, 2);
  const std::vector<ibv_sge> parts = {{.length = 3}, {.length = 4}};
  ibv_wr_set_sge_list(&extended, parts.size(), parts.data());
  EXPECT_EQ(Posted(), 0U);
  EXPECT_EQ(ibv_wr_complete(&extended), 0);
  EXPECT_EQ(Posted(), 127U);
  Complete(IBV_WC_RDMA_WRITE);
  Poll();
  EXPECT_EQ(Completed(), 120U);

  for (const bool aborts : {true, false}) {
    ibv_wr_start(&extended);
    ibv_wr_rdma_write(&extended, 1, 2);
    ibv_wr_set_sge(&extended, 1, 2, 100);
    extended.comp_mask = 1;  // this device fails then
    if (aborts) {
      ibv_wr_abort(&extended);
    } else {
      EXPECT_EQ(ibv_wr_complete(&extended), ENOMEM);
    }
    EXPECT_EQ(Posted(), 127U);
  }
}

TEST_F(ObserverTest, CountsExtendedRequestsThatArePostedOneByOne) {
  ibv_qp_ex& extended = pair_.extended;
  observer_.WatchExtended(extended);
  const auto post = [&extended](std::uint32_t bytes, unsigned flags) {
    ibv_wr_start(&extended);
    extended.wr_flags = flags;
    ibv_wr_rdma_write(&extended, 1, 2);
    ibv_wr_set_sge(&extended, 1, 2, bytes);
    EXPECT_EQ(ibv_wr_complete(&extended), 0);
  };
  for (const bool all_signalled : {false, true}) {
    Watch(all_signalled);
    post(100, 0);
    post(20, IBV_SEND_SIGNALED);
    post(3, 0);
    EXPECT_EQ(Posted(), 123U);
    EXPECT_EQ(Completed(), 0U);
    Complete(IBV_WC_RDMA_WRITE);
    Poll();
    EXPECT_EQ(Completed(), all_signalled ? 100U : 120U);
  }
}

TEST_F(ObserverTest, CallsTheFunctionsOfEachExtendedPairsDevice) {
  static std::string called;
  called.clear();
  FakePair other(device_, 9);
  FakePair third(device_, 10);
  pair_.extended.wr_send = third.extended.wr_send = [](ibv_qp_ex*) { called += "a"; };
  other.extended.wr_send = [](ibv_qp_ex*) { called += "b"; };
  for (FakePair* const pair : {&pair_, &other, &third}) observer_.WatchExtended(pair->extended);
  for (FakePair* const pair : {&pair_, &other, &third}) {
    ibv_wr_start(&pair->extended);
    ibv_wr_send(&pair->extended);
    ibv_wr_abort(&pair->extended);
  }
  EXPECT_EQ(called, "aba");
  for (FakePair* const pair : {&other, &third}) observer_.ForgetExtended(pair->pair());
}

TEST_F(ObserverTest, CountsWhatExtendedCompletionQueuesTell) {
  EXPECT_EQ(PostWrite(100, IBV_SEND_SIGNALED), 0);
  EXPECT_EQ(PostWrite(200, IBV_SEND_SIGNALED), 0);
  Complete(IBV_WC_RECV);
  Complete(IBV_WC_RDMA_WRITE);
  Complete(IBV_WC_RDMA_WRITE);
  ibv_cq_init_attr_ex description = {};
  description.cqe = 8;
  ibv_cq_ex* const queue = ibv_create_cq_ex(&device_.context(), &description);
  ASSERT_NE(queue, nullptr);
  ibv_poll_cq_attr attributes = {};
  EXPECT_EQ(ibv_start_poll(queue, &attributes), 0);
  EXPECT_EQ(Completed(), 0U);
  EXPECT_EQ(ibv_next_poll(queue), 0);
  EXPECT_EQ(Completed(), 100U);
  EXPECT_EQ(ibv_next_poll(queue), 0);
  EXPECT_EQ(Completed(), 300U);
  EXPECT_EQ(ibv_next_poll(queue), ENOENT);
  observer_.Forget(*ibv_cq_ex_to_cq(queue));
}

}  // namespace
}  // namespace espalier::shim
