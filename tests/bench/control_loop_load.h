#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/bus.h"
#include "common/base/time/event_loop.h"
#include "common/bus/curve.h"
#include "common/fabric/topology.h"
#include "common/loop/asio_event_loop.h"
#include "common/sim/sim_fabric.h"
#include "proto/decode.h"

namespace espalier::bench {

struct LoadOptions {
  int agents = 1024;  // agents of the fabric
  int first = 0;      // first agent of this load
  int end = 0;        // end of the range of this load; 0: all remaining agents
  int spines = 16;
  int fat_tree = 0;  // its k; 0: leaves and spines
  int flows = 16;    // per agent, open from the beginning
  int update_flows =
      64;  // per agent, open during the one-way messages; each message contains all of them
};

// Simulates all agents of the benchmark in one loop. Each has its own DEALER, speaks the protocol,
// answers probes as its fabric would and acknowledges pushes. There is no real traffic.
class Load {
 public:
  using KeysOf = std::function<std::optional<io::CurveClient>(int agent)>;
  Load(const LoadOptions& options, const std::string& endpoint, const KeysOf& keys_of = {});
  ~Load();

  // Connects all agents, opens their flows and returns when every flow has a port. Returns the
  // seconds that this took.
  double Connect();
  // Ends all connections at once, and returns when every agent has reconnected and has a port for
  // every flow. Returns the seconds that this took, which include the 50 to 150 ms that each agent
  // waits before it reconnects.
  double Reconnect();
  // Answers and acknowledges forever. Meanwhile the switch of each line that comes from this pipe
  // fails or, if it has failed, comes back.
  void Serve(int switches);
  // Returns when no probe order and no push has arrived for a while.
  void Settle();

  struct Latencies {
    std::vector<double> seconds;  // from a report that opens a flow to its decoded port; sorted
    double elapsed = 0;
    std::size_t skipped = 0;  // requests not sent, as the agent's last one was not answered
  };
  // Sends reports at an even rate, from the agents in turn. Each report opens a flow, ends the one
  // that the agent opened before, and has the progress of all its other flows.
  Latencies RequestReply(double messages_per_second, double seconds);

  // Opens flows up to the number that a one-way message holds.
  void PrepareOneWay();
  // Sends `messages` one-way messages, evenly from all agents and as fast as they are accepted,
  // then one message from each that is answered. Returns the seconds from the first message to the
  // last answer.
  double OneWay(std::int64_t messages);

 private:
  struct Agent;

  void HandleMessage(Agent& agent, std::string_view bytes);
  void HandlePush(Agent& agent, const wire::PathPush& push);
  void AnswerOrder(Agent& agent, const wire::ProbeOrder& order);
  void OpenFlows(Agent& agent, int count);  // up to this total
  void AwaitRouted(int flows);
  bool SendRequest(Agent& agent);
  void FailOrRestore(const std::string& name);
  void Send(Agent& agent, wire::Body body);
  void Beat();
  void RunUntil(const std::function<bool()>& done);
  wire::OpenedFlow Describe(std::uint64_t flow) const;

  const LoadOptions options_;
  io::AsioEventLoop loop_;
  std::unique_ptr<sim::SimFabric> fabric_;
  wire::Decoder decoder_;
  std::vector<std::unique_ptr<Agent>> agents_;
  std::size_t routed_ = 0;
  std::size_t open_requests_ = 0;
  std::vector<double> latencies_;
  TimePoint last_activity_;
  std::size_t next_beat_ = 0;
  TimerPtr beat_timer_;
};

}  // namespace espalier::bench
