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
#include "agent/verbs/steered_pair.h"
#include "agent/verbs/ticks.h"

namespace espalier::shim {

struct QueuePairSteeringOptions {
  std::string socket;  // of the agent; empty: the default of libespalier-agent
  // How long the connection of a queue pair may wait for the agent to choose its port. After a wait
  // without an answer, no queue pair waits for a second.
  std::chrono::milliseconds patience{20};
  // Bytes that a queue pair announces to the agent when it connects, withdrawn after two seconds
  // without traffic. None: 4 MiB if its port cannot be changed later, else 0.
  std::optional<std::uint64_t> announce_bytes;
  bool verbose = false;  // prints a line on standard error for each change of a port or rate
};

// Gives the reliable and unreliable connections of a program the ports that the agent of its host
// chooses: by the flow label when they connect, later by what the device supports. Reports the fill
// of their send queues to the agent. Without an agent it changes nothing.
//
// A thread of its own reads the counts every 2 ms (10 ms if there are many or they rest), and
// handles path sets when the agent wakes it. Only this thread changes a queue pair in use: directly
// (mlx5), or by draining it (rdma_rxe), during which new posts wait. Queue pairs of other devices
// are steered only when they connect. A port stays set when the agent has gone. A rate limit from
// the agent is enforced if the device can limit queue pairs (and lifted when the agent has gone);
// otherwise it is only advice. If memory or the thread is missing, queue pairs are not steered.
// Only the constructor throws. Thread safety: any thread may call any function. Posts never run
// this code.
class QueuePairSteering {
 public:
  QueuePairSteering(const RealVerbs& real, QueuePairSteeringOptions options);
  ~QueuePairSteering();
  QueuePairSteering(const QueuePairSteering&) = delete;
  QueuePairSteering& operator=(const QueuePairSteering&) = delete;

  // Starts the thread; no effect if it runs.
  void Start();

  // These replace the functions of libibverbs.
  int Modify(ibv_qp* pair, ibv_qp_attr* attributes, int mask);
  int Query(ibv_qp* pair, ibv_qp_attr* attributes, int mask, ibv_qp_init_attr* description);
  int Destroy(ibv_qp* pair);
  int GetAsyncEvent(ibv_context* context, ibv_async_event* event);

  // Adds to the bytes that the program is expected to post on the queue pair with this number;
  // negative values take them back. The queue pair announces its expected bytes. Never waits for a
  // device. Ignores unknown numbers, and numbers of queue pairs of two devices.
  void Expect(std::uint32_t number, std::int64_t bytes);

  // To be called around fork, with the observer's mutex held between them. The child has no thread,
  // no agent and no queue pairs.
  void BeforeFork();
  void AfterForkInParent();
  void AfterForkInChild();

 private:
  using Clock = std::chrono::steady_clock;
  using Pair = SteeredPair;
  using Lock = std::unique_lock<std::mutex>;

  void Run();
  // Does one turn of the thread; returns the time until the next one.
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
  // Returns null if the queue pair cannot be steered.
  Pair* Announce(Lock& lock, ibv_qp& pair, const ibv_qp_attr& attributes);
  int Connect(Lock& lock, ibv_qp* pair, ibv_qp_attr* attributes, int mask);
  void AwaitPort(Lock& lock, Pair& pair);
  Pair* Find(const ibv_qp* pair);
  void Forget(ibv_qp& pair);

  // Change the port of a queue pair in use.
  ibv_qp_state StateOf(const Pair& pair) const;
  void StartChange(Pair& pair);
  void ContinueDrain(Pair& pair);
  void EndChange(Pair& pair, int error);
  void AwaitChange(Lock& lock, const ibv_qp* pair);

  const RealVerbs real_;
  const QueuePairSteeringOptions options_;
  Observer& observer_;
  std::mutex mutex_;  // guards the members down to expected_mutex_
  std::condition_variable news_;
  bool started_ = false;
  bool stopping_ = false;
  bool agent_is_known_ = false;  // connecting to the agent has been tried
  espalier_agent* agent_ = nullptr;
  Clock::time_point next_connect_{};
  Clock::time_point no_patience_until_{};
  std::vector<std::unique_ptr<Pair>> pairs_;
  TickClock ticks_;
  std::mutex expected_mutex_;                       // guards expected_; lock it after mutex_
  std::map<std::uint32_t, std::int64_t> expected_;  // by number; changes since the last turn
};

}  // namespace espalier::shim
