// Tests the shim between a program, a fake device and a real local API.
#include "agent/verbs/queue_pair_steering.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <functional>
#include <future>
#include <memory>
#include <thread>

#include "common/verbs/rate_limit.h"
#include "common/verbs/source_port.h"
#include "tests/agent/local/local_api_fixture.h"
#include "tests/agent/verbs/fake_device.h"

namespace espalier::shim {
namespace {

using agent::FlowSample;
using verbs::FlowLabelOf;
using verbs::SourcePortOf;

constexpr std::uint32_t kNumber = 17;
constexpr std::uint32_t kRemote = 18;
constexpr int kConnectMask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_DEST_QPN;

ibv_qp_attr Connecting() {
  ibv_qp_attr attributes = {};
  attributes.qp_state = IBV_QPS_RTR;
  attributes.dest_qp_num = kRemote;
  attributes.ah_attr.is_global = 1;
  const IpAddress::Bytes bytes = IpAddress::Parse("10.1.0.1")->bytes();
  std::memcpy(attributes.ah_attr.grh.dgid.raw, bytes.data(), bytes.size());
  return attributes;
}

class SteeringTest : public agent::LocalApi {
 protected:
  void SetUp() override {
    setenv("ESPALIER_AGENT_GRACE_SECONDS", "0", 1);  // what happens after it is what is tested
    LocalApi::SetUp();
  }
  void TearDown() override {
    steering_.reset();
    Observer::OfThisProcess().Forget(pair_.pair());
    Observer::OfThisProcess().Forget(device_.context());
    LocalApi::TearDown();
  }

  void StartSteering(QueuePairSteeringOptions options) {
    options.socket = path_;
    steering_ = std::make_unique<QueuePairSteering>(device_.Library(), options);
    steering_->Start();
  }

  // Lets the agent work until the condition holds.
  void Await(const std::function<bool()>& done) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (!done() && std::chrono::steady_clock::now() < end) {
      if (server_ != nullptr) Turn();
      std::this_thread::yield();
    }
    EXPECT_TRUE(done());
  }
  const FlowSample* Flow() {
    const auto flows = server_->Flows();
    return flows.empty() ? nullptr : &flows.front();
  }
  void AwaitFlow() {
    Await([&] { return Flow() != nullptr; });
  }
  void Order(std::uint16_t port, std::uint64_t max_rate_bps = 0) {
    wire::PathSet set;
    set.flow = Flow()->id;
    set.max_rate_bps = max_rate_bps;
    if (port != 0) set.paths.push_back({.source_port = port, .encoding = {}});
    ASSERT_TRUE(server_->Apply(set));
  }

  int ConnectPair() {
    ibv_qp_attr attributes = Connecting();
    const int error = steering_->Modify(&pair_.pair(), &attributes, kConnectMask);
    EXPECT_EQ(attributes.ah_attr.grh.flow_label, 0U);  // as the program has it
    if (error == 0) SetState(IBV_QPS_RTS);
    return error;
  }
  void SetState(ibv_qp_state state) {
    ibv_qp_attr attributes = {};
    attributes.qp_state = state;
    ASSERT_EQ(steering_->Modify(&pair_.pair(), &attributes, IBV_QP_STATE), 0);
  }
  void Post(std::uint32_t bytes) {
    ibv_sge part = {.length = bytes};
    ibv_send_wr request = {};
    request.sg_list = &part;
    request.num_sge = 1;
    request.opcode = IBV_WR_RDMA_WRITE;
    request.send_flags = IBV_SEND_SIGNALED;
    ibv_send_wr* failed = nullptr;
    ASSERT_EQ(ibv_post_send(&pair_.pair(), &request, &failed), 0);
  }
  void Complete() {
    ibv_wc completion = {};
    completion.qp_num = kNumber;
    completion.opcode = IBV_WC_RDMA_WRITE;
    device_.completions.push_back(completion);
    ibv_cq queue = {};
    queue.context = &device_.context();
    ASSERT_EQ(ibv_poll_cq(&queue, 1, &completion), 1);
  }
  ibv_qp_state StateThatTheProgramSees() {
    ibv_qp_attr attributes = {};
    ibv_qp_init_attr description = {};
    EXPECT_EQ(steering_->Query(&pair_.pair(), &attributes, IBV_QP_STATE, &description), 0);
    return attributes.qp_state;
  }

  FakeDevice device_;
  FakePair pair_{device_, kNumber};
  std::unique_ptr<QueuePairSteering> steering_;
};

TEST_F(SteeringTest, TellsTheAgentWhatIsInTheSendQueue) {
  StartSteering({});
  ASSERT_EQ(ConnectPair(), 0);
  EXPECT_EQ(device_.label, 0U);
  AwaitFlow();
  EXPECT_EQ(Flow()->source, *IpAddress::Parse("10.0.0.1"));
  EXPECT_EQ(Flow()->destination, *IpAddress::Parse("10.1.0.1"));
  EXPECT_EQ(Flow()->local_qpn, kNumber);
  EXPECT_EQ(Flow()->remote_qpn, kRemote);
  EXPECT_EQ(Flow()->source_port, SourcePortOf(0, kNumber, kRemote));
  EXPECT_TRUE(Flow()->movable);
  Post(1000);
  Post(500);
  Await([&] { return Flow()->outstanding_bytes == 1500; });
  Complete();
  Await([&] { return Flow()->outstanding_bytes == 500 && Flow()->sent_bytes == 1000; });
  ASSERT_EQ(steering_->Destroy(&pair_.pair()), 0);
  Await([&] { return Flow() == nullptr; });
}

TEST_F(SteeringTest, TellsTheAgentHowLongTheTransportWaits) {
  StartSteering({});
  ASSERT_EQ(ConnectPair(), 0);
  AwaitFlow();
  EXPECT_EQ(Flow()->wait.timeout_us, 0U);
  ibv_qp_attr attributes = {};
  attributes.qp_state = IBV_QPS_RTS;
  attributes.timeout = 14;
  attributes.retry_cnt = 7;
  const int mask = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT;
  ASSERT_EQ(steering_->Modify(&pair_.pair(), &attributes, mask), 0);
  Await([&] { return Flow()->wait.timeout_us == 67'108 && Flow()->wait.repetitions == 7; });
  attributes.timeout = 0;  // it waits for ever
  ASSERT_EQ(steering_->Modify(&pair_.pair(), &attributes, IBV_QP_TIMEOUT), 0);
  Await([&] { return Flow()->wait.timeout_us == UINT32_MAX; });
}

TEST_F(SteeringTest, TellsTheAgentWhenTheSendQueueIsBusy) {
  StartSteering({});
  ASSERT_EQ(ConnectPair(), 0);
  AwaitFlow();
  Await([&] { return Flow()->edges.count == 2; });
  for (std::uint32_t burst = 0; burst < 3; ++burst) {
    Post(1000);
    Post(500);
    Await([&] { return Flow()->edges.count == 3 + 2 * burst; });
    const TimePoint busy_since = Flow()->edges.last;
    Complete();
    Complete();
    Await([&] { return Flow()->edges.count == 4 + 2 * burst; });
    EXPECT_GT(Flow()->edges.last, busy_since);
  }
  ASSERT_EQ(steering_->Destroy(&pair_.pair()), 0);
}

TEST_F(SteeringTest, ConnectsFromThePortThatTheAgentWants) {
  StartSteering({.patience = std::chrono::minutes(1), .announce_bytes = 1 << 20});
  auto connecting = std::async(std::launch::async, [&] { return ConnectPair(); });
  AwaitFlow();
  EXPECT_EQ(Flow()->remaining_bytes, 1U << 20);
  Order(0xC345);
  EXPECT_EQ(connecting.get(), 0);
  EXPECT_EQ(device_.label, FlowLabelOf(0xC345));
  Await([&] { return Flow()->source_port == 0xC345; });
  // Posts the announced bytes.
  Post(1 << 19);
  Await([&] { return Flow()->remaining_bytes == 1U << 19; });
}

TEST_F(SteeringTest, MovesAQueuePairThatCanDrain) {
  StartSteering({});
  ASSERT_EQ(ConnectPair(), 0);
  AwaitFlow();
  device_.drains = false;
  Order(0xD001);
  Await([&] { return device_.state == IBV_QPS_SQD; });
  EXPECT_EQ(StateThatTheProgramSees(), IBV_QPS_RTS);
  EXPECT_EQ(pair_.pair().state, IBV_QPS_RTS);    // UCX reads it before each post
  Await([&] { return device_.doorbells > 2; });  // to look whether all is sent, again and again
  Order(0xD002);                                 // while it drains: the newer one comes afterwards
  device_.drains = true;
  Await([&] { return Flow()->source_port == 0xD002; });
  EXPECT_EQ(device_.label, FlowLabelOf(0xD002));
  EXPECT_EQ(device_.state, IBV_QPS_RTS);
  EXPECT_EQ(device_.doorbells_to_send, 2);  // one a move

  // The shim hides the events of its drains; the program gets all others.
  ibv_async_event drained = {};
  drained.event_type = IBV_EVENT_SQ_DRAINED;
  drained.element.qp = &pair_.pair();
  ibv_async_event other = {};
  other.event_type = IBV_EVENT_PORT_ERR;
  device_.events = {drained, drained, other, drained};
  ibv_async_event event = {};
  EXPECT_EQ(steering_->GetAsyncEvent(&device_.context(), &event), 0);
  EXPECT_EQ(event.event_type, IBV_EVENT_PORT_ERR);
  EXPECT_EQ(device_.acknowledged, 2);
  EXPECT_EQ(steering_->GetAsyncEvent(&device_.context(), &event), 0);
  EXPECT_EQ(event.event_type, IBV_EVENT_SQ_DRAINED);
}

TEST_F(SteeringTest, KeepsThePortWhenTheAgentTakesItsOrderBackOrGoes) {
  StartSteering({});
  ASSERT_EQ(ConnectPair(), 0);
  AwaitFlow();
  Order(0xD001);
  Await([&] { return Flow()->source_port == 0xD001; });
  Order(0);
  Order(4791);  // no port of RoCE
  Post(10);
  Await([&] { return Flow()->outstanding_bytes == 10; });
  EXPECT_EQ(Flow()->source_port, 0xD001);
  server_.reset();
  Complete();
  Post(20);
  EXPECT_EQ(StateThatTheProgramSees(), IBV_QPS_RTS);
  EXPECT_EQ(device_.label, FlowLabelOf(0xD001));
}

TEST_F(SteeringTest, SetsThePortAtOnceWhereTheDeviceCan) {
  device_.driver = "mlx5_core";
  StartSteering({});
  ASSERT_EQ(ConnectPair(), 0);
  AwaitFlow();
  Order(0xE123);
  Await([&] { return Flow()->source_port == 0xE123; });
  EXPECT_EQ(device_.udp_port, 0xE123);
  EXPECT_EQ(device_.doorbells, 0);
}

TEST_F(SteeringTest, TellsTheAgentThatADeviceRefuses) {
  device_.driver = "mlx5_core";
  device_.set_udp_port_error = EOPNOTSUPP;
  StartSteering({});
  ASSERT_EQ(ConnectPair(), 0);
  AwaitFlow();
  EXPECT_TRUE(Flow()->movable);
  Order(0xE123);
  Await([&] { return Flow() != nullptr && !Flow()->movable; });
  EXPECT_EQ(Flow()->source_port, SourcePortOf(0, kNumber, kRemote));
}

TEST_F(SteeringTest, LimitsTheRateInTheDeviceUntilTheAgentGoes) {
  StartSteering({});
  ASSERT_EQ(ConnectPair(), 0);
  AwaitFlow();
  EXPECT_EQ(device_.rate_limits, 0);
  Order(0xC123, 50'000'000'001);
  Await([&] { return device_.rate_limit_kbps == 50'000'001; });
  Await([&] { return Flow()->source_port == 0xC123; });
  Order(0xC123, 0);
  Await([&] { return device_.rate_limit_kbps == 0; });
  Order(0xC123, 25'000'000'000);
  Await([&] { return device_.rate_limit_kbps == 25'000'000; });
  EXPECT_EQ(device_.rate_limits, 3);
  server_.reset();
  Await([&] { return device_.rate_limit_kbps == 0; });
}

TEST_F(SteeringTest, SaysWhetherTheDeviceKeepsRates) {
  StartSteering({});
  ASSERT_EQ(ConnectPair(), 0);
  AwaitFlow();
  EXPECT_FALSE(Flow()->keeps_rate);
  steering_->Destroy(&pair_.pair());
  Await([&] { return Flow() == nullptr; });
  device_.highest_rate_kbps = 100'000'000;
  ASSERT_EQ(ConnectPair(), 0);
  AwaitFlow();
  EXPECT_TRUE(Flow()->keeps_rate);
  EXPECT_EQ(verbs::HighestPacedRate(device_.context(), IBV_QPT_RC), 100'000'000'000U);
  EXPECT_EQ(verbs::HighestPacedRate(device_.context(), IBV_QPT_UC), 0U);
}

TEST_F(SteeringTest, TakesTheRateAsAdviceIfTheDeviceCannotLimitIt) {
  device_.rate_limit_error = EOPNOTSUPP;
  StartSteering({});
  ASSERT_EQ(ConnectPair(), 0);
  AwaitFlow();
  Order(0xC123, 50'000'000'000);
  Await([&] { return device_.rate_limits == 1 && Flow()->source_port == 0xC123; });
  Order(0xC124, 25'000'000'000);
  Await([&] { return Flow()->source_port == 0xC124; });
  EXPECT_EQ(device_.rate_limits, 1);
}

TEST_F(SteeringTest, AnnouncesWhatCannotBeMovedLater) {
  device_.driver = "irdma";
  StartSteering({.patience = std::chrono::minutes(1)});
  auto connecting = std::async(std::launch::async, [&] { return ConnectPair(); });
  AwaitFlow();
  EXPECT_FALSE(Flow()->movable);
  EXPECT_EQ(Flow()->remaining_bytes, 4U << 20);
  Order(0xC777);
  EXPECT_EQ(connecting.get(), 0);
  EXPECT_EQ(device_.label, FlowLabelOf(0xC777));
}

TEST_F(SteeringTest, IsTransparentWithoutAnAgent) {
  server_.reset();
  StartSteering({.patience = std::chrono::minutes(1), .announce_bytes = 1});
  ASSERT_EQ(ConnectPair(), 0);
  EXPECT_EQ(device_.label, 0U);
  Post(10);
  Complete();
  EXPECT_EQ(steering_->Destroy(&pair_.pair()), 0);
}

TEST_F(SteeringTest, DoesNotWaitForAnAgentThatIsSilent) {
  StartSteering({.patience = std::chrono::milliseconds(1), .announce_bytes = 1});
  EXPECT_EQ(ConnectPair(), 0);
  EXPECT_EQ(device_.label, 0U);
  AwaitFlow();
}

TEST_F(SteeringTest, LetsWhatItCannotSteerAlone) {
  StartSteering({});
  pair_.pair().qp_type = IBV_QPT_UD;
  EXPECT_EQ(ConnectPair(), 0);
  pair_.pair().qp_type = IBV_QPT_RC;
  device_.gid_type = IBV_GID_TYPE_ROCE_V1;
  EXPECT_EQ(ConnectPair(), 0);
  device_.gid_type = IBV_GID_TYPE_ROCE_V2;
  device_.connect_error = EINVAL;
  EXPECT_EQ(ConnectPair(), EINVAL);
  // The agent learns only of the next one.
  device_.connect_error = 0;
  EXPECT_EQ(ConnectPair(), 0);
  AwaitFlow();
  Await([&] { return server_->Flows().size() == 1; });
}

// Its other end, which only receives, opens no flow.
TEST_F(SteeringTest, SteersTheSendingEndOfAnXrcConnection) {
  StartSteering({.patience = std::chrono::minutes(1), .announce_bytes = 1 << 20});
  pair_.pair().qp_type = IBV_QPT_XRC_RECV;
  ASSERT_EQ(ConnectPair(), 0);
  EXPECT_EQ(device_.label, 0U);
  pair_.pair().qp_type = IBV_QPT_XRC_SEND;
  pair_.pair().state = IBV_QPS_INIT;
  auto connected = std::async(std::launch::async, [&] { return ConnectPair(); });
  AwaitFlow();
  EXPECT_EQ(server_->Flows().size(), 1U);
  Order(0xC0DE);
  Await([&] { return connected.wait_for(std::chrono::seconds(0)) == std::future_status::ready; });
  ASSERT_EQ(connected.get(), 0);
  EXPECT_EQ(device_.label, FlowLabelOf(0xC0DE));
  Post(1000);  // to whichever shared receive queue
  Await([&] { return Flow()->outstanding_bytes == 1000; });
  Complete();
  Await([&] { return Flow()->sent_bytes == 1000; });
  Order(0xC0DF);
  Await([&] { return device_.label == FlowLabelOf(0xC0DF) && device_.state == IBV_QPS_RTS; });
}

TEST_F(SteeringTest, TreatsAResetQueuePairAsNew) {
  StartSteering({});
  ASSERT_EQ(ConnectPair(), 0);
  AwaitFlow();
  const auto first = Flow()->id;
  Post(10);
  SetState(IBV_QPS_RESET);
  Await([&] { return Flow()->outstanding_bytes == 0; });
  ASSERT_EQ(ConnectPair(), 0);
  Await([&] { return Flow() != nullptr && Flow()->id != first; });
  EXPECT_EQ(server_->Flows().size(), 1U);
  EXPECT_EQ(Flow()->sent_bytes, 0U);
}

TEST_F(SteeringTest, GivesUpADrainThatTheProgramEnds) {
  StartSteering({});
  ASSERT_EQ(ConnectPair(), 0);
  AwaitFlow();
  device_.drains = false;
  Order(0xD001);
  Await([&] { return device_.state == IBV_QPS_SQD; });
  SetState(IBV_QPS_ERR);
  EXPECT_EQ(StateThatTheProgramSees(), IBV_QPS_ERR);
  ASSERT_EQ(steering_->Destroy(&pair_.pair()), 0);
  Await([&] { return Flow() == nullptr; });
}

// A child has no queue pairs, and leaves the memory that its parent shares with the agent
// unchanged.
TEST_F(SteeringTest, LeavesTheParentAloneInAChild) {
  StartSteering({});
  ASSERT_EQ(ConnectPair(), 0);
  AwaitFlow();
  steering_->BeforeFork();
  const pid_t child = fork();
  if (child == 0) {
    steering_->AfterForkInChild();
    ibv_qp_attr attributes = Connecting();
    const int error = steering_->Modify(&pair_.pair(), &attributes, kConnectMask);
    _exit(error == 0 && device_.label == 0 ? 0 : 1);
  }
  steering_->AfterForkInParent();
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  Post(33);
  Await([&] { return Flow() != nullptr && Flow()->outstanding_bytes == 33; });
}

}  // namespace
}  // namespace espalier::shim
