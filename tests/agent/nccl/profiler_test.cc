// Tests the plugin as NCCL loads it; this program acts as the shim of the process.
#include "agent/nccl/profiler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <limits>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "agent/verbs/queue_pair_steering.h"
#include "tests/agent/local/local_api_fixture.h"
#include "tests/agent/nccl/nccl_calls.h"
#include "tests/agent/nccl/second_plugin.h"
#include "tests/agent/verbs/fake_device.h"

namespace espalier::nccl {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

// The calls that the shim got.
struct Told {
  std::mutex mutex;
  std::vector<std::pair<std::uint32_t, std::int64_t>> calls;
  std::atomic<shim::QueuePairSteering*> steering = nullptr;

  std::vector<std::pair<std::uint32_t, std::int64_t>> Take() {
    const std::lock_guard lock(mutex);
    return std::exchange(calls, {});
  }
};
Told& TheTold() {
  static Told told;
  return told;
}

}  // namespace
}  // namespace espalier::nccl

extern "C" void espalier_verbs_expect(std::uint32_t queue_pair, std::int64_t bytes);
extern "C" __attribute__((visibility("default"))) void espalier_verbs_expect(
    std::uint32_t queue_pair, std::int64_t bytes) {
  espalier::nccl::Told& told = espalier::nccl::TheTold();
  if (espalier::shim::QueuePairSteering* const steering = told.steering; steering != nullptr) {
    steering->Expect(queue_pair, bytes);
  }
  const std::lock_guard lock(told.mutex);
  told.calls.emplace_back(queue_pair, bytes);
}

namespace espalier::nccl {
namespace {

constexpr int kMiB = 1 << 20;
constexpr int kOurs = 0x9E;

template <typename V>
class PluginOfVersion : public ::testing::Test {
 protected:
  void SetUp() override {
    unsetenv("ESPALIER_NCCL_PROFILER");
    TheTold().Take();
    EXPECT_EQ(nccl_.Open(context_) & kOurs, kOurs);
  }
  void TearDown() override { nccl_.Finalize(context_); }

  // Runs an operation that shows the queue pairs to this peer.
  void Teach(int channel, int peer, const std::vector<int>& queue_pairs) {
    void* const op = nccl_.StartOp(context_, nullptr, Sending(channel, peer, 1, 64));
    for (const int queue_pair : queue_pairs) nccl_.Post(context_, op, queue_pair, 64);
    nccl_.Stop(op);
    TheTold().Take();
  }

  V nccl_;
  void* context_ = nullptr;
};
using Versions = ::testing::Types<Version3, Version4, Version5, Version6>;
TYPED_TEST_SUITE(PluginOfVersion, Versions);

TYPED_TEST(PluginOfVersion, TellsWhatACollectiveIsAboutToSend) {
  const TypeParam& nccl = this->nccl_;
  void* const context = this->context_;
  this->Teach(2, 1, {17});
  // 4 MiB of data, over two channels, there and back: less than the steps have room for.
  void* const group = nccl.StartGroup(context);
  void* const call = nccl.StartCollective(context, group, "AllReduce", kMiB, "ncclFloat32", 2);
  nccl.Stop(call);  // the network begins when the call is over
  void* const op = nccl.StartOp(context, call, Sending(2, 1, 16, kMiB));
  EXPECT_THAT(TheTold().Take(), ElementsAre(Pair(17, 4 * kMiB)));
  nccl.Record(op, 0, nullptr);
  nccl.Post(context, op, 17, kMiB);
  nccl.Post(context, op, 17, kMiB);
  EXPECT_THAT(TheTold().Take(), IsEmpty());
  nccl.Stop(op);
  EXPECT_THAT(TheTold().Take(), ElementsAre(Pair(17, -2 * kMiB)));
  nccl.Stop(group);
  // Other channels, other peers and receiving operations do not know these queue pairs.
  nccl.Stop(nccl.StartOp(context, call, Sending(3, 1, 16, kMiB)));
  nccl.Stop(nccl.StartOp(context, call, Sending(2, 0, 16, kMiB)));
  ProxyOp receiving = Sending(2, 1, 16, kMiB);
  receiving.is_send = 0;
  nccl.Stop(nccl.StartOp(context, call, receiving));
  EXPECT_THAT(TheTold().Take(), IsEmpty());
}

// The first post of the first collective shows where the rest will go.
TYPED_TEST(PluginOfVersion, TellsOfTheFirstCollectiveWithItsFirstPiece) {
  const TypeParam& nccl = this->nccl_;
  void* const op = nccl.StartOp(this->context_, nullptr, Sending(2, 1, 16, kMiB));
  EXPECT_THAT(TheTold().Take(), IsEmpty());
  nccl.Post(this->context_, op, 17, kMiB);
  EXPECT_THAT(TheTold().Take(), ElementsAre(Pair(17, 16 * kMiB)));
  nccl.Post(this->context_, op, 17, kMiB);
  EXPECT_THAT(TheTold().Take(), IsEmpty());
  nccl.Post(this->context_, op, 18, kMiB);  // of what is left each has half
  EXPECT_THAT(TheTold().Take(), ElementsAre(Pair(17, -7 * kMiB), Pair(18, 7 * kMiB)));
  nccl.Stop(op);
  EXPECT_THAT(TheTold().Take(), ElementsAre(Pair(17, -7 * kMiB), Pair(18, -6 * kMiB)));
}

TYPED_TEST(PluginOfVersion, SharesWhatComesAmongTheQueuePairsOfAConnection) {
  this->Teach(0, 5, {17, 18});
  void* const call = this->nccl_.StartPointToPoint(this->context_, 1000, "ncclInt8");
  void* const op = this->nccl_.StartOp(this->context_, call, Sending(0, 5, 4, kMiB));
  EXPECT_THAT(TheTold().Take(), ElementsAre(Pair(17, 500), Pair(18, 500)));
  this->nccl_.Post(this->context_, op, 18, 700);  // more than its share
  this->nccl_.Stop(op);
  EXPECT_THAT(TheTold().Take(), ElementsAre(Pair(17, -500)));
}

TYPED_TEST(PluginOfVersion, TakesBackWhatACommunicatorThatEndsWillNotSend) {
  this->Teach(0, 5, {17});
  this->nccl_.StartOp(this->context_, nullptr, Sending(0, 5, 4, 100));
  TheTold().Take();
  this->nccl_.Finalize(this->context_);
  EXPECT_THAT(TheTold().Take(), ElementsAre(Pair(17, -400)));
  this->nccl_.Open(this->context_);
  this->nccl_.Stop(this->nccl_.StartOp(this->context_, nullptr, Sending(0, 5, 4, 100)));
  EXPECT_THAT(TheTold().Take(), IsEmpty());  // another communicator has other queue pairs
}

TYPED_TEST(PluginOfVersion, BearsWhatMakesNoSense) {
  const TypeParam& nccl = this->nccl_;
  void* const context = this->context_;
  const Calls& calls = nccl.plugin().calls;
  this->Teach(0, 5, {17});
  typename TypeParam::Descriptor empty{};
  void* const nonsense = &empty;
  void* handle = nonsense;
  EXPECT_EQ(calls.start(context, &handle, nullptr), kSuccess);
  EXPECT_EQ(handle, nullptr);
  EXPECT_EQ(calls.start(context, nullptr, &empty), kSuccess);
  EXPECT_EQ(nccl.Start(context, empty), nullptr);
  EXPECT_EQ(nccl.Start(nonsense, empty), nullptr);
  EXPECT_EQ(nccl.Start(nullptr, empty), nullptr);
  empty.type = static_cast<decltype(empty.type)>(~0ULL);
  EXPECT_EQ(nccl.Start(context, empty), nullptr);
  for (void* const bad : {nonsense, static_cast<void*>(nullptr)}) {
    nccl.Stop(bad);
    nccl.Record(bad, 99, nullptr);
    nccl.Finalize(bad);
    nccl.Stop(nccl.StartOp(context, bad, Sending(0, 9, 1, 1)));
    nccl.Stop(nccl.StartPost(context, bad, {.type = 1, .queue_pair = 17, .bytes = 1}));
  }
  EXPECT_THAT(TheTold().Take(), IsEmpty());

  // Calls without names or of no length, and handles of another process, say nothing of the size.
  const auto told_for = [&](void* call, ProxyOp op) {
    void* const started = nccl.StartOp(context, call, op);
    nccl.Stop(started);
    nccl.Stop(started);  // once too often
    const auto told = TheTold().Take();
    return told.empty() ? 0 : told.front().second;
  };
  void* const unnamed = nccl.StartCollective(context, nullptr, nullptr, 1, nullptr, 1);
  EXPECT_EQ(told_for(unnamed, Sending(0, 5, 4, 100)), 400);
  void* const endless = nccl.StartCollective(
      context, nullptr, "AllReduce", std::numeric_limits<std::size_t>::max(), "ncclFloat64", 0);
  EXPECT_EQ(told_for(endless, Sending(0, 5, 4, 100)), 400);
  void* const small = nccl.StartCollective(context, nullptr, "AllReduce", 1, "ncclFloat64", 1);
  EXPECT_EQ(told_for(small, Sending(0, 5, 4, 100)), 16);
  ProxyOp foreign = Sending(0, 5, 4, 100);
  foreign.process = getppid();
  EXPECT_EQ(told_for(small, foreign), 400);
  EXPECT_EQ(told_for(nullptr, Sending(0, 5, -1, 100)), 0);
  EXPECT_EQ(told_for(nullptr, Sending(0, 5, 4, -100)), 0);
  constexpr int kLargest = std::numeric_limits<int>::max();
  EXPECT_EQ(told_for(nullptr, Sending(0, 5, kLargest, kLargest)), 1LL << 40);

  // Malformed posts, and posts on impossible queue pairs, are ignored.
  void* const op = nccl.StartOp(context, nullptr, Sending(1, 5, 1, 1));
  void* const step = nccl.StartStep(context, op);
  nccl.StartPost(context, step, {.type = 1, .queue_pair = 19, .bytes = 1}, kVerbsPlugin + 1);
  nccl.StartPost(context, step, {.type = 2, .queue_pair = 19, .bytes = 1});
  nccl.StartPost(context, step, {.type = 1, .queue_pair = -1, .bytes = 1});
  nccl.StartPost(context, step, {.type = 1, .queue_pair = 1 << 24, .bytes = 1});
  nccl.Stop(op);
  nccl.StartPost(context, step, {.type = 1, .queue_pair = 19, .bytes = 1});  // too late
  EXPECT_EQ(told_for(nullptr, Sending(1, 5, 4, 100)), 0);
}

TEST(Plugin, ForgetsStoppedEventsOnlyAfterManyOthers) {
  const Version6 nccl;
  void* context = nullptr;
  nccl.Open(context);
  void* const op = nccl.StartOp(context, nullptr, Sending(0, 5, 1, 1));
  nccl.Post(context, op, 17, 1);
  nccl.Stop(op);
  void* const call = nccl.StartCollective(context, nullptr, "AllReduce", 1, "ncclFloat64", 1);
  nccl.Stop(call);
  for (int i = 0; i < 10'000; ++i) nccl.Stop(nccl.StartGroup(context));
  TheTold().Take();
  nccl.StartOp(context, call, Sending(0, 5, 4, 100));
  EXPECT_THAT(TheTold().Take(), ElementsAre(Pair(17, 16)));
  for (int i = 0; i < 20'000; ++i) {
    nccl.Stop(nccl.StartCollective(context, nullptr, "Reduce", 1, "ncclInt8", 1));
  }
  nccl.StartOp(context, call, Sending(0, 5, 4, 100));
  EXPECT_THAT(TheTold().Take(), ElementsAre(Pair(17, 400)));
  // The number of events that never stop is limited.
  int taken = 0;
  for (int i = 0; i < 200'000; ++i) taken += nccl.StartStep(context, nullptr) != nullptr ? 1 : 0;
  EXPECT_GT(taken, 50'000);
  EXPECT_LT(taken, 200'000);
  nccl.Finalize(context);
}

TEST(Plugin, BoundsWhatACallCanSendToAPeer) {
  constexpr std::uint64_t kAny = std::numeric_limits<std::uint64_t>::max();
  EXPECT_EQ(MostBytes("AllReduce", 1000, "ncclBfloat16", 0, 2), 2000U);
  EXPECT_EQ(MostBytes("Broadcast", 1000, "ncclUint64", 0, 3), 2667U);
  EXPECT_EQ(MostBytes("Send", 1000, "ncclFloat8e4m3", 8, 0), 1000U);
  EXPECT_EQ(MostBytes("AllGather", 1000, "ncclUint8", 8, 1), 8000U);
  EXPECT_EQ(MostBytes("AllGather", 1000, "ncclInt8", 0, 1), kAny);
  EXPECT_EQ(MostBytes("Reduce", 1000, "a new type", 8, 1), kAny);
  EXPECT_EQ(MostBytes("", 0, "", -1, 0), kAny);
}

TEST(Plugin, WantsNothingWithoutTheShim) {
  Profiler profiler;
  void* const context = profiler.Open(4, nullptr, nullptr, nullptr);
  EXPECT_EQ(profiler.ActivationMask(), 0);
  void* parent = nullptr;
  EXPECT_EQ(profiler.Start(context, {.type = kProxyOp << 10, .parent = &parent}, nullptr), nullptr);
  profiler.Finalize(context);
}

class ChainTest : public ::testing::Test {
 protected:
  void SetUp() override {
    setenv("ESPALIER_NCCL_PROFILER", ESPALIER_LIBRARIES "/libespalier_nccl_second_plugin.so", 1);
    second_.starts.clear();
    second_.stops.clear();
    second_.records.clear();
    second_.finalized.clear();
    second_.mask = 0xFF;
    second_.fails_to_open = second_.fails_to_start = false;
    TheTold().Take();
  }
  void TearDown() override { unsetenv("ESPALIER_NCCL_PROFILER"); }

  SecondPlugin& second_ = *reinterpret_cast<SecondPlugin* (*)()>(
      dlsym(Load("libespalier_nccl_second_plugin.so"), "second_plugin"))();
  const Version6 nccl_;
  void* context_ = nullptr;
};

TEST_F(ChainTest, PassesEverythingOnWithTheOthersHandles) {
  EXPECT_EQ(nccl_.Open(context_, 6), 0xFF | kOurs);
  EXPECT_EQ(second_.last_ranks, 6);
  void* const group = nccl_.StartGroup(context_);
  void* const call = nccl_.StartCollective(context_, group, "AllReduce", 8, "ncclInt8", 1);
  nccl_.Stop(call);
  void* const op = nccl_.StartOp(context_, call, Sending(0, 1, 1, 64));
  void* const step = nccl_.StartStep(context_, op);
  void* const post = nccl_.StartPost(context_, step, {.type = 1, .queue_pair = 17, .bytes = 64});
  int arguments = 0;
  nccl_.Record(step, 5, &arguments);
  for (void* const handle : {post, step, op, group}) nccl_.Stop(handle);
  nccl_.Finalize(context_);

  ASSERT_EQ(second_.starts.size(), 5U);
  const auto& starts = second_.starts;
  EXPECT_EQ(starts[0].parent, nullptr);
  EXPECT_EQ(starts[1].parent, starts[0].handle);
  EXPECT_EQ(starts[1].group, starts[0].handle);
  for (std::size_t i = 2; i < 5; ++i) EXPECT_EQ(starts[i].parent, starts[i - 1].handle);
  EXPECT_THAT(second_.stops, ElementsAre(starts[1].handle, starts[4].handle, starts[3].handle,
                                         starts[2].handle, starts[0].handle));
  EXPECT_THAT(second_.records, ElementsAre(starts[3].handle));
  EXPECT_EQ(second_.last_arguments, &arguments);
  EXPECT_THAT(second_.finalized, ElementsAre(starts[0].context));
}

TEST_F(ChainTest, LeavesDescriptorsAsTheyWere) {
  nccl_.Open(context_);
  void* const group = nccl_.StartGroup(context_);
  DescriptorV6 descriptor{};
  descriptor.type = kCollective;
  descriptor.parent = descriptor.collective.group = group;
  void* handle = nullptr;
  EXPECT_EQ(nccl_.plugin().calls.start(context_, &handle, &descriptor), kSuccess);
  EXPECT_EQ(descriptor.parent, group);
  EXPECT_EQ(descriptor.collective.group, group);
  EXPECT_EQ(second_.starts.back().parent, second_.starts.front().handle);
  nccl_.Finalize(context_);
}

TEST_F(ChainTest, PassesOnlyEventsThatTheOtherWants) {
  second_.mask = kCollective | 1 << 10;
  EXPECT_EQ(nccl_.Open(context_), kOurs | 1 << 10);
  void* const call = nccl_.StartCollective(context_, nullptr, "AllReduce", 8, "ncclInt8", 1);
  void* const op = nccl_.StartOp(context_, call, Sending(0, 1, 1, 64));
  DescriptorV6 later{};  // of a type that we know nothing of
  later.type = 1 << 10;
  later.parent = call;
  nccl_.Stop(nccl_.Start(context_, later));
  nccl_.Stop(op);
  nccl_.Finalize(context_);
  ASSERT_EQ(second_.starts.size(), 2U);
  EXPECT_EQ(second_.starts[1].parent, second_.starts[0].handle);
  EXPECT_THAT(second_.stops, ElementsAre(second_.starts[1].handle));
}

TEST_F(ChainTest, GoesWithoutAPluginThatFails) {
  const auto works = [&] {
    nccl_.Open(context_);
    void* const op = nccl_.StartOp(context_, nullptr, Sending(0, 5, 4, 100));
    nccl_.Post(context_, op, 17, 1);
    nccl_.Stop(op);
    nccl_.Stop(nccl_.StartOp(context_, nullptr, Sending(0, 5, 4, 100)));
    nccl_.Finalize(context_);
    EXPECT_THAT(TheTold().Take(),
                ElementsAre(Pair(17, 400), Pair(17, -399), Pair(17, 400), Pair(17, -400)));
  };
  second_.fails_to_start = true;
  works();
  EXPECT_EQ(second_.finalized.size(), 1U);
  EXPECT_THAT(second_.stops, IsEmpty());
  second_.fails_to_open = true;
  works();
  EXPECT_EQ(second_.finalized.size(), 1U);
  // Another version, itself, and none at all.
  const Version5 fifth;
  void* context = nullptr;
  const int opened = second_.opened;
  EXPECT_EQ(fifth.Open(context) & kOurs, kOurs);
  fifth.Finalize(context);
  EXPECT_EQ(second_.opened, opened);
  setenv("ESPALIER_NCCL_PROFILER", ESPALIER_LIBRARIES "/libnccl-profiler-espalier.so", 1);
  works();
  setenv("ESPALIER_NCCL_PROFILER", "there-is-none", 1);
  works();
}

TEST_F(ChainTest, IsCalledFromSeveralThreads) {
  constexpr int kThreads = 4;
  constexpr int kTurns = 300;
  const auto run = [&](int peer) {
    void* context = nullptr;
    nccl_.Open(context);
    for (int turn = 0; turn < kTurns; ++turn) {
      void* const call = nccl_.StartCollective(context, nullptr, "Send", 64, "ncclInt8", 1);
      void* const op = nccl_.StartOp(context, call, Sending(0, peer, 2, 64));
      nccl_.Stop(call);
      nccl_.Post(context, op, 100 + peer, 48);
      nccl_.Stop(op);
    }
    nccl_.Finalize(context);
  };
  std::vector<std::thread> threads;
  for (int peer = 0; peer < kThreads; ++peer) threads.emplace_back(run, peer);
  for (std::thread& thread : threads) thread.join();
  std::map<std::uint32_t, std::int64_t> sums;
  for (const auto& [queue_pair, bytes] : TheTold().Take()) sums[queue_pair] += bytes;
  EXPECT_EQ(sums.size(), static_cast<std::size_t>(kThreads));
  for (const auto& [queue_pair, sum] : sums) EXPECT_EQ(sum, kTurns * 48) << queue_pair;
  EXPECT_EQ(second_.starts.size(), second_.stops.size());
  EXPECT_EQ(second_.starts.size(), static_cast<std::size_t>(kThreads * kTurns * 4));
}

// Plugin, shim, local API.
class AgentTest : public agent::LocalApi {
 protected:
  static constexpr int kNumber = 17;

  void StartShim(bool teaches = true) {
    steering_ = std::make_unique<shim::QueuePairSteering>(
        device_.Library(), shim::QueuePairSteeringOptions{.socket = path_, .announce_bytes = 0});
    steering_->Start();
    TheTold().steering = steering_.get();
    ibv_qp_attr attributes = {};
    attributes.qp_state = IBV_QPS_RTR;
    attributes.dest_qp_num = 18;
    attributes.ah_attr.is_global = 1;
    const IpAddress::Bytes bytes = IpAddress::Parse("10.1.0.1")->bytes();
    std::memcpy(attributes.ah_attr.grh.dgid.raw, bytes.data(), bytes.size());
    ASSERT_EQ(
        steering_->Modify(&pair_.pair(), &attributes, IBV_QP_STATE | IBV_QP_AV | IBV_QP_DEST_QPN),
        0);
    nccl_.Open(context_);
    if (!teaches) return;
    void* const op = nccl_.StartOp(context_, nullptr, Sending(0, 1, 1, 64));
    nccl_.Post(context_, op, kNumber, 64);
    nccl_.Stop(op);
  }
  void TearDown() override {
    nccl_.Finalize(context_);
    TheTold().steering = nullptr;
    steering_.reset();
    shim::Observer::OfThisProcess().Forget(pair_.pair());
    shim::Observer::OfThisProcess().Forget(device_.context());
    LocalApi::TearDown();
  }
  void AwaitRemaining(std::uint64_t bytes) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    const auto is_so = [&] {
      const auto flows = server_->Flows();
      return !flows.empty() && flows.front().local_qpn == kNumber &&
             flows.front().remaining_bytes == bytes;
    };
    while (!is_so() && std::chrono::steady_clock::now() < end) {
      Turn();
      std::this_thread::yield();
    }
    EXPECT_TRUE(is_so()) << bytes;
  }

  shim::FakeDevice device_;
  shim::FakePair pair_{device_, kNumber};
  std::unique_ptr<shim::QueuePairSteering> steering_;
  const Version6 nccl_;
  void* context_ = nullptr;
};

TEST_F(AgentTest, LearnsWhatAQueuePairIsAboutToSend) {
  StartShim();
  AwaitRemaining(0);
  void* const call = nccl_.StartCollective(context_, nullptr, "AllReduce", 8 * kMiB, "ncclInt8", 1);
  void* const op = nccl_.StartOp(context_, call, Sending(0, 1, 16, kMiB));
  AwaitRemaining(16 * kMiB);
  // Posted bytes are no longer expected.
  ibv_sge part = {.length = kMiB};
  ibv_send_wr request = {};
  request.sg_list = &part;
  request.num_sge = 1;
  request.opcode = IBV_WR_RDMA_WRITE;
  ibv_send_wr* failed = nullptr;
  ASSERT_EQ(ibv_post_send(&pair_.pair(), &request, &failed), 0);
  nccl_.Post(context_, op, kNumber, kMiB);
  AwaitRemaining(15 * kMiB);
  nccl_.Stop(op);
  AwaitRemaining(0);
}

// The flow is an elephant by its expected bytes, not by those posted.
TEST_F(AgentTest, LearnsOfTheFirstCollectiveWithItsFirstPost) {
  StartShim(/*teaches=*/false);
  AwaitRemaining(0);
  void* const op = nccl_.StartOp(context_, nullptr, Sending(0, 1, 16, kMiB));
  nccl_.Post(context_, op, kNumber, 1000);
  AwaitRemaining(16 * kMiB);
  nccl_.Stop(op);
  AwaitRemaining(0);
}

// Without one, NCCL gets a handle for each operation, and each call succeeds (as Stop checks).
TEST_F(AgentTest, IsNotNeeded) {
  server_.reset();
  StartShim();
  for (int i = 0; i < 100; ++i) {
    void* const op = nccl_.StartOp(context_, nullptr, Sending(0, 1, 16, kMiB));
    ASSERT_NE(op, nullptr) << i;
    nccl_.Post(context_, op, kNumber, kMiB);
    nccl_.Stop(op);
  }
}

}  // namespace
}  // namespace espalier::nccl
