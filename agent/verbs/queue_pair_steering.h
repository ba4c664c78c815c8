#pragma once

#include <infiniband/verbs.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "agent/local/espalier_agent.h"
#include "agent/verbs/observer.h"
#include "agent/verbs/real_verbs.h"

namespace espalier::shim {

struct QueuePairSteeringOptions {
  std::string socket;  // the agent's; empty: where libespalier-agent looks for it
  // How long connecting a queue pair may wait for the agent's word about its port. After waiting
  // in vain nobody waits for a second.
  std::chrono::milliseconds patience{20};
  // What a queue pair is expected to send, told to the agent when it connects and withdrawn after
  // two seconds without traffic. None: 4 MiB where its port cannot be changed later, else 0.
  std::optional<std::uint64_t> announce_bytes;
  bool verbose = false;  // a line on standard error for each port and rate
};

// Has the reliable and unreliable connections of a program take the ports that the agent of its
// host wants: by the flow label when they connect, later by what the device can do. Tells the
// agent how full their send queues are. Where there is no agent, everything is as without it.
//
// A thread of its own looks at the counts every 10 ms, and at once when the agent calls. It is the
// only one that changes a queue pair in use: at once (mlx5), or by letting it drain (rdma_rxe),
// which what the program posts waits for. Where neither works it is steered when it connects only.
// A port that was set stays when the agent goes. A rate that the agent names is the device's limit
// where it has one for queue pairs (it is lifted when the agent goes), else it is advice.
// Where there is no memory or no thread for it, queue pairs go unsteered. Nothing here throws, but
// for the constructor.
// Thread safety: all of it. Nothing here is on the way of a post.
class QueuePairSteering {
 public:
  QueuePairSteering(const RealVerbs& real, QueuePairSteeringOptions options);
  ~QueuePairSteering();
  QueuePairSteering(const QueuePairSteering&) = delete;
  QueuePairSteering& operator=(const QueuePairSteering&) = delete;

  // The thread of its own, once.
  void Start();

  // As the functions of libibverbs.
  int Modify(ibv_qp* pair, ibv_qp_attr* attributes, int mask);
  int Query(ibv_qp* pair, ibv_qp_attr* attributes, int mask, ibv_qp_init_attr* description);
  int Destroy(ibv_qp* pair);
  int GetAsyncEvent(ibv_context* context, ibv_async_event* event);

  // That the program is about to post so many more bytes on its queue pair of that number, or that
  // it is not, for negative ones: what is expected of a queue pair is what it announces. Never
  // waits for a device. Unknown numbers, and those that two devices have, are ignored.
  void Expect(std::uint32_t number, std::int64_t bytes);

  // Around fork: the child has no thread, no agent and no queue pairs.
  void BeforeFork();
  void AfterForkInParent();
  void AfterForkInChild();

 private:
  using Clock = std::chrono::steady_clock;
  enum class PortChangeMethod : std::uint8_t { kNone, kSetUdpPort, kDrain };
  struct Pair;
  using Lock = std::unique_lock<std::mutex>;

  void Run();
  // How long nothing has to be looked at.
  std::chrono::milliseconds Turn(Clock::time_point now);
  void ConnectAgent(Lock& lock, Clock::time_point now);
  void DropAgent();
  void OpenFlow(Pair& pair);
  void TakeExpectations(Clock::time_point now);
  void Publish(Pair& pair, Clock::time_point now);
  void TakeOrder(Pair& pair);
  void LimitRate(Pair& pair);

  PortChangeMethod PortChangeMethodOf(const ibv_context& context) const;
  std::unique_ptr<Pair> Describe(ibv_qp& pair, const ibv_qp_attr& attributes);
  // Null: it is not steered.
  Pair* Announce(Lock& lock, ibv_qp& pair, const ibv_qp_attr& attributes);
  int Connect(Lock& lock, ibv_qp* pair, ibv_qp_attr* attributes, int mask);
  void AwaitPort(Lock& lock, Pair& pair);
  Pair* Find(const ibv_qp* pair);
  void Forget(ibv_qp& pair);

  // A change of a queue pair in use.
  ibv_qp_state StateOf(const Pair& pair) const;
  void StartChange(Pair& pair);
  void ContinueDrain(Pair& pair);
  void EndChange(Pair& pair, int error);
  void AwaitChange(Lock& lock, const ibv_qp* pair);

  const RealVerbs real_;
  const QueuePairSteeringOptions options_;
  Observer& observer_;
  std::mutex mutex_;  // of all below
  std::condition_variable news_;
  bool started_ = false;
  bool stopping_ = false;
  bool agent_is_known_ = false;  // to be there or not
  espalier_agent* agent_ = nullptr;
  Clock::time_point next_connect_{};
  Clock::time_point no_patience_until_{};
  std::vector<std::unique_ptr<Pair>> pairs_;
  std::mutex expected_mutex_;  // of what follows; after mutex_ where both are held
  std::map<std::uint32_t, std::int64_t> expected_;  // by number, since the last turn
};

}  // namespace espalier::shim
