#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "agent/flow_actuator.h"
#include "agent/flow_source.h"
#include "agent/verbs/queue_pair_path.h"
#include "common/base/event_loop.h"
#include "common/base/metrics.h"

namespace espalier::agent {

// What a queue pair has to send: added up by whoever posts and polls, looked at by the agent.
// Thread-safe and wait-free: four numbers that only grow.
class QueuePairTraffic {
 public:
  // Known to be sent some time, beyond what has been posted.
  void Announce(std::uint64_t bytes) { announced_.fetch_add(bytes, kOrder); }
  void Post(std::uint64_t bytes) { posted_.fetch_add(bytes, kOrder); }
  // Completed, unsignalled requests before it included; with an error as well.
  void Complete(std::uint64_t bytes) { completed_.fetch_add(bytes, kOrder); }
  void Retry() { retries_.fetch_add(1, kOrder); }

  std::uint64_t announced() const { return announced_.load(kOrder); }
  std::uint64_t posted() const { return posted_.load(kOrder); }
  std::uint64_t completed() const { return completed_.load(kOrder); }
  std::uint32_t retries() const { return retries_.load(kOrder); }

 private:
  static constexpr auto kOrder = std::memory_order_relaxed;
  alignas(64) std::atomic<std::uint64_t> announced_{0};
  std::atomic<std::uint64_t> posted_{0};
  std::atomic<std::uint64_t> completed_{0};
  std::atomic<std::uint32_t> retries_{0};
};

// A flow over one queue pair or several to the same peer, that share it.
struct QueuePairFlow {
  struct Member {
    std::uint32_t local_number = 0;
    std::uint32_t remote_number = 0;
    std::uint16_t port = 0;               // in use; 0: its own
    std::unique_ptr<QueuePairPath> path;  // null: path control is not supported
  };
  std::string job;
  IpAddress source;
  IpAddress destination;
  std::vector<Member> members;  // 1 to 255
};

// The flows of queue pairs that live in this process: how full their send queues are, and the ports
// that the controller wants them to have. Path i of a set goes to queue pair i, and around; with a
// rate limit each gets an even part of it, where devices have such limits.
//
// Ports change as the devices can: a change that takes time goes on while the loop turns, and a
// newer path set waits for it. One that fails leaves the port as it was and is counted.
// Thread safety: the loop's thread, but for QueuePairTraffic.
class QueuePairFlows : public FlowSource, public FlowActuator {
 public:
  QueuePairFlows(EventLoop& loop, Metrics& metrics);

  // The traffic of each queue pair, in their order; valid until Remove. What is announced of the
  // flow as a whole may be so to any of them.
  struct Handle {
    wire::LocalFlowId id;
    std::span<QueuePairTraffic> traffic;
  };
  Handle Add(QueuePairFlow flow);
  // The queue pairs may end afterwards. One that is not there is ignored.
  void Remove(wire::LocalFlowId id);

  std::span<const FlowSample> Flows() override;
  void OnChange(std::function<void()> callback) override { on_change_ = std::move(callback); }
  // Errors: kUnsupported where no queue pair of the flow can change its port.
  Result<void> Apply(const wire::PathSet& paths) override;
  Result<void> Clear(wire::LocalFlowId flow) override;

 private:
  struct Member : QueuePairFlow::Member {
    std::uint16_t wanted = 0;
    std::uint16_t changing_to = 0;  // 0: it is not changing
    std::uint64_t rate_limit = 0;
  };
  struct Entry {
    QueuePairFlow flow;  // but for its members
    std::vector<Member> members;
    TimePoint first_seen;
    std::unique_ptr<QueuePairTraffic[]> traffic;  // by member
  };

  static FlowSample Describe(wire::LocalFlowId id, const Entry& entry);

  void TellChange();
  void Want(Member& member, std::uint16_t port);
  void Step(Member& member);
  void StepAll();
  void LimitRates(Entry& entry, std::uint64_t max_rate_bps);

  EventLoop& loop_;
  Counter& ports_changed_;
  Counter& changes_failed_;
  std::map<wire::LocalFlowId, Entry> entries_;
  std::vector<FlowSample> samples_;
  std::function<void()> on_change_;
  std::uint64_t last_id_ = 0;
  TimerPtr step_timer_;
};

}  // namespace espalier::agent
