#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/bus.h"
#include "common/base/event_loop.h"
#include "common/bus/curve.h"
#include "common/fabric/topology.h"
#include "common/loop/asio_event_loop.h"
#include "common/sim/sim_fabric.h"
#include "proto/convert.h"

namespace espalier::bench {

struct LoadOptions {
  int agents = 1024;  // of the fabric
  int first = 0;      // of these, this load is those from here
  int end = 0;        // to before this one; 0: to the last
  int spines = 16;
  int flows = 16;         // of each agent, open from the beginning
  int update_flows = 64;  // of each agent, open for the one-way messages, all in each of them
};

// All agents of the benchmark, in one loop: each a DEALER of its own that speaks the protocol,
// answers probes as its fabric would, and acknowledges pushes; without flows that flow.
class Load {
 public:
  using KeysOf = std::function<std::optional<io::CurveClient>(int agent)>;
  Load(const LoadOptions& options, const std::string& endpoint, const KeysOf& keys_of = {});
  ~Load();

  // Connects all, opens their flows, and returns when every flow has a port. Seconds it took.
  double Connect();
  // Ends all connections at once; returns when every agent is back, with a port for every flow.
  // Seconds it took, of which each agent waits 50 to 150 ms before it connects again.
  double Reconnect();
  // Answers and acknowledges, for ever.
  void Serve();
  // Returns when nobody has asked for probes or pushed a port for a while.
  void Settle();

  struct Latencies {
    std::vector<double> seconds;  // from a report that opens a flow to its port, decoded; sorted
    double elapsed = 0;
    std::size_t skipped = 0;  // not sent, as the agent's last one was still open
  };
  // Reports at an even rate, one after the other from each agent; each opens a flow and ends the
  // one that the agent opened before, with the progress of all its others.
  Latencies RequestReply(double messages_per_second, double seconds);

  // Opens flows up to the number that a one-way message holds.
  void PrepareOneWay();
  // So many one-way messages, evenly from all agents and as fast as they are taken, then one
  // answered message from each. Seconds from the first to the last answer.
  double OneWay(std::int64_t messages);

 private:
  struct Agent;

  void HandleMessage(Agent& agent, std::string_view bytes);
  void HandlePush(Agent& agent, const wire::PathPush& push);
  void AnswerOrder(Agent& agent, const wire::ProbeOrder& order);
  void OpenFlows(Agent& agent, int count);  // up to so many in all
  void AwaitRouted(int flows);
  bool SendRequest(Agent& agent);
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
