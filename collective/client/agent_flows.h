#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "agent/local/espalier_agent.h"
#include "collective/transport/base/send_observer.h"

namespace espalier::client {

// Reports to the agent of this host when the connections of a job's rank plan are busy: each
// connection to another host is a flow with a fixed path (ESPALIER_FLOW_PATH_FIXED), with the exact
// time of each change between busy and idle. A connection is busy from the time when a message
// waits until the kernel has accepted the last one.
//
// A message costs a few stores to memory shared with the agent, and a change also a reading of the
// clock, without a lock or system call. Does nothing without an agent. Thread safety: any thread
// for Watch; each watch, one thread at a time; one thread for Dispatch.
class AgentFlows : public transport::SendObserver {
 public:
  // `socket`: the agent's, "" for the default. Waits for the agent for at most 5 s.
  AgentFlows(const std::string& socket, const std::string& job);
  ~AgentFlows() override;  // all watches must have ended
  AgentFlows(const AgentFlows&) = delete;
  AgentFlows& operator=(const AgentFlows&) = delete;

  // False if there was no agent, or if it has gone for good. Any thread.
  bool is_connected() const { return agent_ != nullptr && !is_lost_; }

  std::unique_ptr<transport::SendWatch> Watch(const transport::ConnectionEnds& ends) override;
  // Follows a restart of the agent. To be called at least once a second; returns at once.
  void Dispatch();

 private:
  const std::string job_;
  espalier_agent* agent_ = nullptr;
  std::atomic<bool> is_lost_ = false;
};

}  // namespace espalier::client
