#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/fabric/topology.h"
#include "common/loop/asio_event_loop.h"
#include "common/sim/sim_fabric.h"
#include "proto/decode.h"

namespace espalier::bench {

struct BurstLoadOptions {
  int agents = 1024;
  int flows = 16;                // per agent, open from the beginning
  int phases = 4;                // of the job; each flow is busy in one of them
  double edges_per_second = 10;  // of each flow
};

// Simulates the agents of one job in one loop, over real connections: their flows stay open, and
// become busy and idle phase by phase, all agents at about the same time. There is no real traffic.
class BurstLoad {
 public:
  BurstLoad(const BurstLoadOptions& options, const std::string& endpoint);
  ~BurstLoad();

  // Connects all agents and opens their flows. Returns when every flow has a port.
  void Connect();

  struct Figures {
    double seconds = 0;
    std::uint64_t edges = 0;
    std::uint64_t reports = 0;  // messages with edges
    std::uint64_t refused = 0;  // such messages for which a connection had no room
    std::uint64_t pushes = 0;   // messages from the controller that change ports
    std::map<wire::PathReason, std::uint64_t> moves;  // flows in them, by reason
    std::uint64_t orders = 0;                         // its probe orders
    std::uint64_t others = 0;                         // all others, such as heartbeats
    // From a busy edge to the push of new ports because of it, also if the flow has become idle by
    // then, sorted.
    std::vector<double> decided_seconds;
    double late_seconds = 0;  // how late the last report was, at most
  };
  // Changes spines so often a second, so that some flows are on other paths than planned until the
  // plan is recomputed, and may collide.
  struct Disturbances {
    double a_second = 0;
    std::function<void()> disturb;
    std::size_t fewest_decided = 0;  // until there are so many, a run goes on
    double most_seconds = 0;         // but no longer than this
  };
  // Plays phases for this time.
  Figures Run(double seconds, const Disturbances& disturbances);
  Figures Run(double seconds) { return Run(seconds, {}); }

 private:
  struct Agent;

  void HandleMessage(Agent& agent, std::string_view bytes);
  void HandlePush(Agent& agent, const wire::PathPush& push);
  void AnswerOrder(Agent& agent, const wire::ProbeOrder& order);
  void Open(Agent& agent);
  // Both happen when they are due, though this process may report it later: agents report the
  // times at which programs post and complete.
  void BeginPhase(Agent& agent, int phase, TimePoint due);
  void EndPhase(Agent& agent, int phase, TimePoint due);
  // Reports the busy edges of this phase, which were due then, and all idle edges that wait.
  void ReportEdges(Agent& agent, int phase, TimePoint due);
  void ReportOverdue();
  bool Send(Agent& agent, wire::Body body);

  const BurstLoadOptions options_;
  io::AsioEventLoop loop_;
  std::unique_ptr<sim::SimFabric> fabric_;
  wire::Decoder decoder_;
  std::vector<std::unique_ptr<Agent>> agents_;
  std::deque<std::pair<TimePoint, Agent*>> waiting_;  // ends of phases, until reported
  std::size_t routed_ = 0;
  Figures figures_;
};

}  // namespace espalier::bench
