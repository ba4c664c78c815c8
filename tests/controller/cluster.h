#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/base/metrics.h"
#include "common/fabric/builders.h"
#include "common/sim/sim_world.h"
#include "controller/controller.h"
#include "controller/store/memory_store.h"
#include "proto/decode.h"

namespace espalier::controller {

// A controller, and hosts that behave like agents on the wire: each sends Hello, opens flows,
// answers probes as its fabric would, and applies and acknowledges pushes.
class Cluster : private Bus {
 public:
  // `hint`: the leaves' hash in the topology file; the fabric uses `hash`.
  explicit Cluster(const fabric::LeafSpineOptions& shape, ControllerOptions options = {},
                   const std::optional<fabric::EcmpSpec>& hint = std::nullopt);
  // A modified leaf-spine fabric with hosts "h0", "h1", ..., some of which may be NICs of one
  // agent.
  Cluster(fabric::TopologySpec spec, ControllerOptions options);

  // One agent for each host, "h0", "h1", ...
  struct Host {
    std::string name;
    PeerId peer;
    std::uint64_t instance = 0;
    std::uint64_t epoch = 0;
    std::uint64_t generation = 0;
    std::map<std::uint64_t, std::uint16_t> ports;  // applied, by flow; the first of several
    std::map<std::uint64_t, wire::PathSet> sets;   // the same with all paths
    std::vector<wire::PathPush> pushes;
    std::vector<std::string> features = {"collective", "offload", "verbs", "job_user"};
    std::map<std::pair<std::string, std::uint32_t>, wire::RankPlan> plans;  // in force
    std::vector<wire::RankPlan> new_plans;                                  // before their push
    std::optional<wire::Welcome> welcome;
    bool answers_probes = true;
    bool acknowledges = true;
    int probes = 0;
    int heartbeats = 0;
    std::uint64_t report_interval_us = 0;  // of the last heartbeat
    std::vector<wire::QueuePair> wanted;   // of all heartbeats
  };
  Host& host(int number) { return hosts_[static_cast<std::size_t>(number)]; }

  void ConnectAll();
  void Connect(int number);  // Hello on a new connection, then a full report without flows
  void SayHello(int number, wire::Hello hello);
  void Report(int number, wire::FlowReport report);
  // A report that opens (and gives progress to) one flow.
  struct NewFlow {
    std::uint64_t id = 1;
    int to = 0;
    std::string job = "job";
    std::uint16_t port = 0;
    bool steered = false;
    std::uint8_t max_paths = 1;
    bool movable = true;
    std::vector<std::uint16_t> path_ports = {};
    bool keeps_rate = false;
    bool keeps_weights = false;
    bool path_fixed = false;
    std::uint32_t local_qpn = 0;
    std::uint32_t remote_qpn = 0;
  };
  static wire::FlowReport Opening(const Cluster& cluster, int from,
                                  const std::vector<NewFlow>& flows, bool full = false);
  void Open(int from, const std::vector<NewFlow>& flows);
  void End(int from, std::uint64_t id);
  void Deliver(PeerId peer, std::uint64_t instance, wire::Body body);
  void DeliverBytes(PeerId peer, std::string_view bytes);

  // Runs all work that is due and delivers all messages, until none is left.
  void Settle();
  void Advance(Duration by);
  // Runs the next piece of work alone, if any is due now, and delivers the messages that it sent.
  void RunOne();
  // From now on, each look of the controller at its clock takes so long, so that its budgets of
  // time end. Time does not pass for timers.
  Duration cost_of_look{};

  // The spine on which the fabric sends this port, as probes report it.
  int SpineOf(int from, int to, std::uint16_t port) const;
  // The spine of the return path from a listener at `from` to a connection's source port at `to`.
  int SpineBack(int from, int to, std::uint16_t port) const;
  std::function<int(int from, int to, std::uint16_t port)> hash;
  // The same of return paths, which differs because the ports are swapped.
  std::function<int(int from, int to, std::uint16_t port)> hash_back;
  // Links that silently drop all packets.
  std::set<fabric::LinkId> dead;
  // Spines that silently drop all packets and answer no probes, while all leaves still use them.
  std::set<int> dark_spines;
  // The links of a packet from host to host, those of the hosts included, as single packets of
  // trains take them; none if it is dropped on its way.
  std::vector<fabric::DirectedLink> RouteOf(int from, int to, std::uint16_t port) const;
  // What hosts do with orders of probe trains; nothing by default (train_hosts.h).
  std::function<void(int host, const wire::TrainOrder& order)> on_train_order;
  EventLoop& host_loop() { return *host_loop_; }
  // The spines of all ports that the host has applied for a flow, in order.
  std::vector<int> AppliedSpines(int from, std::uint64_t flow, int to) const;
  // The spine of the port that the host has applied for a flow; -1: ECMP.
  int AppliedSpine(int from, std::uint64_t flow, int to) const;

  // Ends the controller abruptly, and starts another one with the same store.
  void RestartController();
  Controller& controller() { return *controller_; }
  // Lets tests change state that otherwise only the controller changes.
  State& state() { return const_cast<State&>(controller_->state()); }
  const Flow& FlowOf(int from, std::uint64_t id);
  std::int64_t CounterValue(const std::string& name);
  std::string MetricsText() const { return metrics_->Text(); }
  IpAddress Address(int host) const;
  int NumberOf(const IpAddress& address) const;  // -1: of no host
  int hosts() const { return static_cast<int>(hosts_.size()); }

  // Operators' actions, and their outcomes.
  Result<ActionOutcome> ChangeLink(const std::string& link, IntentAction action,
                                   const OperatorRequest& request = {});
  Result<ActionOutcome> ChangeNode(const std::string& node, IntentAction action,
                                   const OperatorRequest& request = {});
  Result<ActionOutcome> ChangeWeight(const std::string& job, std::uint64_t weight,
                                     OperatorRequest request = {});
  Result<ActionOutcome> ChangePolicy(const std::string& name, std::optional<std::string> value,
                                     OperatorRequest request = {});
  Result<ActionOutcome> ChangeSteering(std::vector<std::string> hosts,
                                       std::vector<std::string> jobs,
                                       std::optional<std::uint64_t> percent, bool on,
                                       const OperatorRequest& request);
  Result<ActionOutcome> AddMaintenance(const std::string& kind, const std::string& id,
                                       WallTime from, const OperatorRequest& request);
  Result<ActionOutcome> CancelMaintenance(const std::string& window);
  Result<ActionOutcome> Recompute(OperatorRequest request = {});
  Result<ActionOutcome> RollBack(std::optional<std::uint64_t> revision,
                                 OperatorRequest request = {});
  Result<ActionOutcome> StartJob(const JobSpec& spec, OperatorRequest request = {});
  Result<ActionOutcome> StopJob(const std::string& name);

  // A digest of every byte that the controllers have sent to agents, in order.
  std::uint64_t sent_digest() const { return sent_digest_; }
  // Flows that are decided but not yet acknowledged by their agents.
  std::size_t UnacknowledgedFlows();

  MemoryDisk disk;
  std::map<PeerId, std::string> proven_names;  // what the bus says of the keys of peers

 private:
  void SetHandlers(Handlers handlers) override { handlers_ = std::move(handlers); }
  bool Send(PeerId to, std::string bytes) override;
  void Disconnect(PeerId peer) override { gone_.insert(peer); }
  std::optional<std::string> AuthenticatedName(PeerId peer) const override {
    const auto found = proven_names.find(peer);
    return found == proven_names.end() ? std::nullopt : std::optional(found->second);
  }
  class CostlyClock;

  void DeliverInFlight();
  void HandleAtHost(Host& host, const wire::Message& message);
  void AnswerProbes(Host& host, const wire::ProbeOrder& order);
  fabric::Attachment AttachmentOf(int host) const;
  // The path that a leaf chooses instead of this spine's if that begins with a dead link; none if
  // there is none, or its spine is dark.
  const fabric::Path* LivePath(int from, int to, int spine) const;
  void StartController();
  // Runs the loop until `ask` has its answer, and returns it.
  Result<ActionOutcome> AwaitOutcome(const std::function<void(ActionDone)>& ask);

  fabric::TopologySpec spec_;
  fabric::Topology topology_;
  fabric::PathTable paths_;
  ControllerOptions options_;
  sim::SimWorld world_{1};
  std::unique_ptr<EventLoop> host_loop_ = world_.MakeLoop();
  std::unique_ptr<EventLoop> controller_loop_;
  std::unique_ptr<MemoryStore> store_;
  std::unique_ptr<Metrics> metrics_;
  std::unique_ptr<Controller> controller_;
  Handlers handlers_;
  std::vector<Host> hosts_;
  std::vector<std::pair<PeerId, std::string>> in_flight_;  // controller -> hosts
  std::set<PeerId> gone_;
  std::vector<TimerPtr> waits_;  // of agents for probe answers
  std::uint64_t next_peer_ = 1;
  std::uint64_t sent_digest_ = 0xcbf29ce484222325;  // FNV-1a
  wire::Decoder decoder_;
};

}  // namespace espalier::controller
