#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "agent/flows/flow_actuator.h"
#include "agent/flows/flow_source.h"
#include "agent/local/flow_description.h"
#include "agent/local/slot_memory.h"
#include "common/base/metrics.h"
#include "common/base/result.h"
#include "common/base/time/event_loop.h"
#include "common/base/users/user_budget.h"
#include "common/os/message_server.h"

namespace espalier::agent {

struct LocalServerOptions {
  std::string path = ESPALIER_AGENT_DEFAULT_SOCKET;
  std::size_t max_clients = 1024;  // and as many more that have not said hello
  std::size_t max_flows = 16'384;  // of all clients; further flows stay on plain ECMP, unreported
  // Limits for one user. Beyond the limits for all, the user with the most gives way to others.
  std::size_t max_clients_of_user = 768;
  std::size_t max_flows_of_user = 12'288;
  // Whether there can be flows between hosts from and to an address (IsFabricAddress); others stay
  // unreported.
  std::function<bool(const IpAddress&)> has_flows = IsFabricAddress;
};

// The agent's side of the local API (agent/local/espalier_agent.h): learns the flows of the
// programs on this host and gives them path sets. The programs themselves change ports.
//
// Clients are not trusted, and the worst that a client achieves is to lose its own connection: by a
// hello of the wrong size or version, by a message that is no wake-up, or by a flow description
// that is out of range. Garbage in its memory reads as odd progress of its own flows. Clients and
// flows beyond a limit of their user are refused. Beyond a limit for all, users with fewer displace
// the newest ones of the user with the most; among clients that never say hello, the oldest. The
// kernel says who a client's user is (LocalPeer::payer). A flow that is displaced returns to plain
// ECMP.
//
// Invariant: samples_ and homes_ are parallel and ascend by flow id = client << 32 | serial.
// Thread safety: the agent's loop thread.
class LocalServer : public FlowSource, public FlowActuator {
 public:
  // Replaces a socket file that a dead agent left behind.
  // Errors: kUnavailable if an agent answers on it, kPermissionDenied, kNotFound (no such folder),
  // kInvalidArgument for a path that is too long.
  static Result<std::unique_ptr<LocalServer>> Listen(EventLoop& loop, LocalServerOptions options,
                                                     Metrics& metrics);
  LocalServer(const LocalServer&) = delete;
  LocalServer& operator=(const LocalServer&) = delete;

  // Readable when HandleReady has something to do. Level-triggered.
  int fd() const { return callers_.fd(); }
  // Bounded work; never blocks.
  void HandleReady() { callers_.HandleReady(); }

  std::span<const FlowSample> Flows() override;
  void OnChange(std::function<void()> callback) override;
  // Further error: kUnsupported for more than ESPALIER_MAX_PATHS paths, and for path encodings
  // other than a port, which this API cannot express.
  Result<void> Apply(const wire::PathSet& paths) override;
  Result<void> Clear(wire::LocalFlowId flow) override;

 private:
  // A client that has said hello.
  struct Client {
    const MessageServer::Caller& caller;
    SlotMemory memory;
    std::string job;                     // of its process
    std::vector<std::uint32_t> tracked;  // by slot: serial of the known flow; 0: none
  };
  // The slot of a flow in samples_.
  struct Home {
    Client* client;
    std::uint32_t slot;
    std::uint32_t serial;
  };

  LocalServer(EventLoop& loop, LocalServerOptions options, Metrics& metrics);
  // Returns false if the client must be disconnected.
  bool HandleMessages(MessageServer::Caller& caller);
  bool HandleHello(MessageServer::Caller& caller, std::span<const std::byte> message);
  bool ScanSlots(Client& client);
  // Makes the newest flows of users with more give way to that many of this user.
  void MakeRoomForFlows(BudgetOwner user, std::size_t count);
  bool IsReported(const FlowSample& flow) const;
  bool OpenFlow(Client& client, std::uint32_t slot, std::uint32_t serial);
  // Counts and logs why a client is disconnected; returns false.
  bool Reject(const MessageServer::Caller& caller, std::string_view cause);
  void Forget(const MessageServer::Caller& caller);
  static void Write(const Home& home, const wire::PathSet& paths);
  void EraseFlows(const std::function<bool(const Home&)>& ended);
  void NotifyChange();
  Result<std::size_t> Find(wire::LocalFlowId flow) const;

  EventLoop& loop_;
  const LocalServerOptions options_;
  Counter& refused_;
  Gauge& client_count_;
  MessageServer callers_;
  std::map<std::uint32_t, Client> clients_;  // by the numbers of their callers
  UserBudget flows_;
  TimePoint next_warning_{};
  std::vector<FlowSample> samples_;
  std::vector<Home> homes_;
  std::function<void()> on_change_;
  TimerPtr pending_change_;
};

}  // namespace espalier::agent
