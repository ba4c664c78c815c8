// Tests the engine and the profiler plugin if memory or threads run out: no exception may reach the
// program or NCCL.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <string>

#include "agent/nccl/profiler_abi.h"
#include "agent/verbs/engine_interface.h"
#include "agent/verbs/real_verbs.h"
#include "tests/agent/verbs/failing_memory.h"
#include "tests/agent/verbs/fake_device.h"

extern "C" const espalier::nccl::Plugin<espalier::nccl::InitV5> ncclProfiler_v5;

namespace espalier::shim {
namespace {

FakeDevice& TheDevice() {
  static FakeDevice device;
  return device;
}

constexpr std::uint16_t kNoPrivileges = 65'534;  // the user "nobody"

// Modifies a queue pair as the front does.
int Modify(const espalier_engine& engine, ibv_qp& pair, ibv_qp_attr& attributes, int mask) {
  espalier_steering* const steering = engine.find(pair.context);
  return steering == nullptr ? TheDevice().Library().modify_qp(&pair, &attributes, mask)
                             : engine.modify_qp(steering, &pair, &attributes, mask);
}

// Uses a queue pair from opening its device to its end, and checks what the device was asked.
void UseQueuePair() {
  const espalier_engine& engine = *espalier_verbs_engine(ESPALIER_ENGINE_VERSION);
  const RealVerbs real = TheDevice().Library();
  engine.watch(&TheDevice().context(), &real);
  FakePair made(TheDevice(), 17);
  ibv_qp& pair = made.pair();
  engine.watch_extended(&made.extended);
  ibv_qp_attr attributes = {};
  attributes.qp_state = IBV_QPS_RTR;
  attributes.dest_qp_num = 18;
  attributes.ah_attr.is_global = 1;
  attributes.ah_attr.grh.dgid.raw[15] = 1;
  constexpr int kConnect = IBV_QP_STATE | IBV_QP_AV | IBV_QP_DEST_QPN;
  ASSERT_EQ(Modify(engine, pair, attributes, kConnect), 0);
  EXPECT_EQ(pair.state, IBV_QPS_RTR);
  ibv_qp_attr sending = {};
  sending.qp_state = IBV_QPS_RTS;
  ASSERT_EQ(Modify(engine, pair, sending, IBV_QP_STATE), 0);
  // Posts two requests at once, of which only the second needs memory.
  ibv_wr_start(&made.extended);
  for (int i = 0; i < 3; ++i) {
    ibv_wr_rdma_write(&made.extended, 0, 0);
    ibv_wr_set_sge(&made.extended, 0, 0, 64);
  }
  EXPECT_EQ(ibv_wr_complete(&made.extended), 0);
  if (espalier_steering* const steering = engine.find(pair.context); steering != nullptr) {
    EXPECT_EQ(engine.destroy_qp(steering, &pair), 0);
  }
  engine.forget_context(&TheDevice().context());
}

void UsePlugin(const nccl::Calls& calls, void* context) {
  nccl::DescriptorV5 descriptor{};
  descriptor.type = nccl::kProxyOp;
  descriptor.proxy_op = {
      .process = getpid(), .channel = 0, .peer = 1, .steps = 1, .chunk_bytes = 64, .is_send = 1};
  void* op = nullptr;
  EXPECT_EQ(calls.start(context, &op, &descriptor), nccl::kSuccess);
  nccl::DescriptorV5 step{};
  step.type = nccl::kProxyStep;
  step.parent = op;
  void* of_step = nullptr;
  EXPECT_EQ(calls.start(context, &of_step, &step), nccl::kSuccess);
  const nccl::QueuePairEvent posted{.type = nccl::kQueuePairEvent, .queue_pair = 17, .bytes = 8};
  nccl::DescriptorV5 post{};
  post.type = nccl::kNetPlugin;
  post.parent = of_step;
  post.net_plugin = {nccl::kVerbsPlugin, &posted};
  void* of_post = nullptr;
  EXPECT_EQ(calls.start(context, &of_post, &post), nccl::kSuccess);
  EXPECT_EQ(calls.stop(of_step), nccl::kSuccess);
  EXPECT_EQ(calls.stop(op), nccl::kSuccess);
}

// Runs with all allocations failing, then all but the first, and so on until none fails.
void FailEachAllocation(const std::function<void()>& work) {
  constexpr int kMost = 200;
  for (int first = 0; first < kMost; ++first) {
    FailAllocationAfter(first);
    work();
    if (StopFailing()) return;
  }
  FAIL() << "more than " << kMost << " allocations";
}

std::size_t CountOf(const std::string& what, const std::string& text) {
  std::size_t count = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) {
    ++count;
  }
  return count;
}

MATCHER_P(SaysOnce, what, "") { return CountOf(what, arg) == 1; }

// Each test has its own process, as the libraries never free their objects.
class ExportsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    GTEST_FLAG_SET(death_test_style, "fast");
    TheDevice();  // which is made before memory runs out
    setenv("ESPALIER_AGENT_SOCKET", "/nonexistent/agent.sock", 1);
  }
};

[[noreturn]] void End() { _exit(::testing::Test::HasFailure() ? 1 : 0); }

TEST_F(ExportsTest, ProgramGoesOnUnsteeredWhereNoThreadCanBeMade) {
  const auto run = [] {
    if (getuid() == 0 && setuid(kNoPrivileges) != 0) _exit(2);
    const rlimit none = {.rlim_cur = 0, .rlim_max = 0};
    if (setrlimit(RLIMIT_NPROC, &none) != 0) _exit(3);
    for (int i = 0; i < 3; ++i) UseQueuePair();
    End();
  };
  EXPECT_EXIT(run(), ::testing::ExitedWithCode(0), SaysOnce("espalier-verbs: "));
}

TEST_F(ExportsTest, ProgramGoesOnUnsteeredWhereThereIsNoMemory) {
  const auto run = [] {
    FailEachAllocation(&UseQueuePair);
    End();
  };
  EXPECT_EXIT(run(), ::testing::ExitedWithCode(0), SaysOnce("espalier-verbs: "));
}

TEST_F(ExportsTest, NcclGoesOnWhereThereIsNoMemory) {
  const auto run = [] {
    FailEachAllocation([] {
      void* context = nullptr;
      int mask = 0;
      EXPECT_EQ(ncclProfiler_v5.init(&context, 7, &mask, "a name", 2, 4, 1, nullptr),
                nccl::kSuccess);
      for (int i = 0; i < 3; ++i) UsePlugin(ncclProfiler_v5.calls, context);
      EXPECT_EQ(ncclProfiler_v5.calls.finalize(context), nccl::kSuccess);
    });
    End();
  };
  EXPECT_EXIT(run(), ::testing::ExitedWithCode(0), SaysOnce("espalier-nccl: "));
}

}  // namespace
}  // namespace espalier::shim
