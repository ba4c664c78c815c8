#include "tests/controller/cluster.h"

#include <gtest/gtest.h>

#include <utility>

#include "common/base/check.h"
#include "proto/encode.h"

namespace espalier::controller {

namespace {

// Long enough for posted work to run, too short for any timer of the controller.
constexpr Duration kMoment = std::chrono::microseconds(1);

fabric::TopologySpec MakeSpec(const fabric::LeafSpineOptions& shape,
                              const std::optional<fabric::EcmpSpec>& hint) {
  fabric::TopologySpec spec = *fabric::BuildLeafSpine(shape);
  for (fabric::Node& node : spec.nodes) {
    if (node.role == fabric::SwitchRole::kLeaf) node.ecmp = hint;
  }
  return spec;
}

}  // namespace

Cluster::Cluster(const fabric::LeafSpineOptions& shape, ControllerOptions options,
                 const std::optional<fabric::EcmpSpec>& hint)
    : Cluster(MakeSpec(shape, hint), std::move(options)) {}

Cluster::Cluster(fabric::TopologySpec spec, ControllerOptions options)
    : spec_(std::move(spec)),
      topology_(*fabric::Topology::Build(spec_)),
      paths_(topology_),
      options_(std::move(options)) {
  int spines = 0;
  for (const fabric::Node& node : spec_.nodes) {
    spines += node.role == fabric::SwitchRole::kSpine ? 1 : 0;
    if (node.kind != fabric::NodeKind::kSwitch) {
      const std::string name = "h" + std::to_string(hosts_.size());
      hosts_.emplace_back().name = name;
    }
  }
  hash = [spines](int from, int to, std::uint16_t port) {
    return (from * 5 + to * 3 + port * 7 + port / 64) % spines;
  };
  hash_back = [this](int from, int to, std::uint16_t port) {
    return hash(from, to, static_cast<std::uint16_t>(port / 3));
  };
  StartController();
}

// A loop on whose clock each look takes some time.
class Cluster::CostlyClock : public EventLoop {
 public:
  CostlyClock(std::unique_ptr<EventLoop> loop, const Duration& cost)
      : loop_(std::move(loop)), cost_(cost) {}
  TimePoint Now() const override { return loop_->Now() + (spent_ += cost_); }
  void Post(Callback callback) override { loop_->Post(std::move(callback)); }
  TimerPtr After(Duration delay, Callback callback) override {
    return loop_->After(delay, std::move(callback));
  }

 private:
  std::unique_ptr<EventLoop> loop_;
  const Duration& cost_;
  mutable Duration spent_{};
};

void Cluster::StartController() {
  controller_.reset();
  controller_loop_ = std::make_unique<CostlyClock>(world_.MakeLoop(), cost_of_look);
  store_ = std::make_unique<MemoryStore>(disk, *controller_loop_);
  metrics_ = std::make_unique<Metrics>();
  controller_ =
      std::make_unique<Controller>(*fabric::Topology::Build(spec_), options_, *controller_loop_,
                                   static_cast<Bus&>(*this), *store_, *metrics_);
  const auto started = controller_->Start();
  ESPALIER_CHECK(started.has_value(), "{}", started.error().message);
}

void Cluster::RestartController() {
  in_flight_.clear();
  StartController();
  for (Host& host : hosts_) host.peer = PeerId(0);
}

Result<ActionOutcome> Cluster::AwaitOutcome(const std::function<void(ActionDone)>& ask) {
  std::optional<Result<ActionOutcome>> outcome;
  ask([&](Result<ActionOutcome> done) { outcome = std::move(done); });
  Settle();
  // The controller waits some time for agents that do not acknowledge.
  for (int i = 0; i < 3 && !outcome; ++i) Advance(std::chrono::milliseconds(50));
  ESPALIER_CHECK(outcome.has_value(), "the action has no outcome");
  return *outcome;
}

Result<ActionOutcome> Cluster::ChangeLink(const std::string& link, IntentAction action,
                                          const OperatorRequest& request) {
  return AwaitOutcome([&](ActionDone done) {
    controller_->actions().ChangeLink(link, action, request, std::move(done));
  });
}

Result<ActionOutcome> Cluster::ChangeNode(const std::string& node, IntentAction action,
                                          const OperatorRequest& request) {
  return AwaitOutcome([&](ActionDone done) {
    controller_->actions().ChangeNode(node, action, request, std::move(done));
  });
}

Result<ActionOutcome> Cluster::ChangeWeight(const std::string& job, std::uint64_t weight,
                                            OperatorRequest request) {
  return AwaitOutcome([&](ActionDone done) {
    controller_->actions().ChangeWeight(job, weight, request, std::move(done));
  });
}

Result<ActionOutcome> Cluster::ChangePolicy(const std::string& name,
                                            std::optional<std::string> value,
                                            OperatorRequest request) {
  return AwaitOutcome([&](ActionDone done) {
    controller_->actions().ChangePolicy(name, value, request, std::move(done));
  });
}

Result<ActionOutcome> Cluster::ChangeSteering(std::vector<std::string> hosts,
                                              std::vector<std::string> jobs,
                                              std::optional<std::uint64_t> percent, bool on,
                                              const OperatorRequest& request) {
  return AwaitOutcome([&](ActionDone done) {
    controller_->actions().ChangeSteering(std::move(hosts), std::move(jobs), percent, on, request,
                                          std::move(done));
  });
}

Result<ActionOutcome> Cluster::AddMaintenance(const std::string& kind, const std::string& id,
                                              WallTime from, const OperatorRequest& request) {
  return AwaitOutcome([&](ActionDone done) {
    controller_->actions().AddMaintenance(kind, id, from, request, std::move(done));
  });
}

Result<ActionOutcome> Cluster::CancelMaintenance(const std::string& window) {
  return AwaitOutcome([&](ActionDone done) {
    controller_->actions().CancelMaintenance(window, {}, std::move(done));
  });
}

Result<ActionOutcome> Cluster::Recompute(OperatorRequest request) {
  return AwaitOutcome(
      [&](ActionDone done) { controller_->actions().Recompute(request, std::move(done)); });
}

Result<ActionOutcome> Cluster::RollBack(std::optional<std::uint64_t> revision,
                                        OperatorRequest request) {
  return AwaitOutcome([&](ActionDone done) {
    controller_->actions().RollBack(revision, request, std::move(done));
  });
}

Result<ActionOutcome> Cluster::StartJob(const JobSpec& spec, OperatorRequest request) {
  return AwaitOutcome(
      [&](ActionDone done) { controller_->actions().StartJob(spec, request, std::move(done)); });
}

Result<ActionOutcome> Cluster::StopJob(const std::string& name) {
  return AwaitOutcome(
      [&](ActionDone done) { controller_->actions().StopJob(name, {}, std::move(done)); });
}

void Cluster::ConnectAll() {
  for (int i = 0; i < hosts(); ++i) Connect(i);
}

void Cluster::SayHello(int number, wire::Hello hello) {
  Host& own = host(number);
  own.peer = PeerId(next_peer_++);
  if (own.instance == 0) own.instance = 1'000 + static_cast<std::uint64_t>(number);
  Deliver(own.peer, own.instance, std::move(hello));
}

void Cluster::Connect(int number) {
  wire::Hello hello;
  hello.name = host(number).name;
  hello.highest_epoch = host(number).epoch;
  hello.applied_generation = host(number).generation;
  hello.features = host(number).features;
  hello.nics = {{Address(number), "eth0", true}};
  SayHello(number, std::move(hello));
  Report(number, Opening(*this, number, {}, /*full=*/true));
  Settle();
}

wire::FlowReport Cluster::Opening(const Cluster& cluster, int from,
                                  const std::vector<NewFlow>& flows, bool full) {
  wire::FlowReport report;
  report.full = full;
  report.addresses.push_back(cluster.Address(from));
  for (const NewFlow& flow : flows) {
    wire::OpenedFlow& opened = report.opened.emplace_back();
    opened.id = wire::LocalFlowId(flow.id);
    opened.job = static_cast<std::uint32_t>(report.jobs.size());
    report.jobs.push_back(flow.job);
    opened.destination = static_cast<std::uint32_t>(report.addresses.size());
    report.addresses.push_back(cluster.Address(flow.to));
    opened.source_port = flow.port;
    opened.steered = flow.steered;
    opened.max_paths = flow.max_paths;
    opened.movable = flow.movable;
    opened.keeps_rate = flow.keeps_rate;
    opened.keeps_weights = flow.keeps_weights;
    opened.path_fixed = flow.path_fixed;
    opened.path_ports = flow.path_ports;
    opened.local_qpn = flow.local_qpn;
    opened.remote_qpn = flow.remote_qpn;
    report.progress.push_back({.id = opened.id, .remaining_bytes = 1 << 30});
  }
  return report;
}

void Cluster::Report(int number, wire::FlowReport report) {
  Deliver(host(number).peer, host(number).instance, std::move(report));
}

void Cluster::Open(int from, const std::vector<NewFlow>& flows) {
  Report(from, Opening(*this, from, flows));
}

void Cluster::End(int from, std::uint64_t id) {
  wire::FlowReport report;
  report.ended = {wire::LocalFlowId(id)};
  Report(from, std::move(report));
}

void Cluster::Deliver(PeerId peer, std::uint64_t instance, wire::Body body) {
  DeliverBytes(peer, wire::Encode({instance, std::move(body)}));
}

void Cluster::DeliverBytes(PeerId peer, std::string_view bytes) {
  handlers_.on_message(peer, bytes);
}

bool Cluster::Send(PeerId to, std::string bytes) {
  if (gone_.contains(to)) return false;
  for (const char byte : bytes) {
    sent_digest_ = (sent_digest_ ^ static_cast<unsigned char>(byte)) * 0x100000001b3;
  }
  in_flight_.emplace_back(to, std::move(bytes));
  return true;
}

void Cluster::Settle() {
  world_.RunFor(kMoment);
  while (!in_flight_.empty()) {
    DeliverInFlight();
    world_.RunFor(kMoment);
  }
}

void Cluster::DeliverInFlight() {
  for (const auto& [peer, bytes] : std::exchange(in_flight_, {})) {
    const auto decoded = decoder_.Decode(bytes);
    ASSERT_TRUE(decoded.has_value()) << decoded.error().message;
    const wire::Message message = **decoded;
    for (Host& host : hosts_) {
      if (host.peer == peer) HandleAtHost(host, message);
    }
  }
}

void Cluster::RunOne() {
  world_.RunFor(std::chrono::nanoseconds(1));  // what Post takes
  DeliverInFlight();
}

void Cluster::Advance(Duration by) {
  constexpr Duration kStep = std::chrono::milliseconds(50);
  for (Duration done{}; done < by; done += kStep) {
    world_.RunFor(std::min(kStep, by - done));
    Settle();
  }
}

void Cluster::HandleAtHost(Host& host, const wire::Message& message) {
  if (const auto* welcome = std::get_if<wire::Welcome>(&message.body)) host.welcome = *welcome;
  if (const auto* order = std::get_if<wire::ProbeOrder>(&message.body)) AnswerProbes(host, *order);
  if (const auto* order = std::get_if<wire::TrainOrder>(&message.body); order && on_train_order) {
    on_train_order(static_cast<int>(&host - hosts_.data()), *order);
  }
  if (const auto* heartbeat = std::get_if<wire::Heartbeat>(&message.body)) {
    ++host.heartbeats;
    host.report_interval_us = heartbeat->report_interval_us;
    host.wanted.insert(host.wanted.end(), heartbeat->wanted.begin(), heartbeat->wanted.end());
    Deliver(host.peer, host.instance, wire::Heartbeat{0, host.epoch, host.generation});
  }
  if (const auto* plan = std::get_if<wire::RankPlan>(&message.body)) {
    host.new_plans.push_back(*plan);
  }
  const auto* push = std::get_if<wire::PathPush>(&message.body);
  if (push == nullptr) return;
  host.pushes.push_back(*push);
  const std::vector<wire::RankPlan> plans = std::exchange(host.new_plans, {});
  if (!host.acknowledges) return;
  if (push->full) {
    host.ports.clear();
    host.sets.clear();
    host.plans.clear();
  }
  EXPECT_EQ(push->plans, plans.size());
  for (const wire::RankPlan& plan : plans) {
    EXPECT_EQ(plan.generation, push->generation);
    host.plans.erase({plan.job, plan.rank});
    if (!plan.program.empty()) host.plans[{plan.job, plan.rank}] = plan;
  }
  for (const wire::PathSet& set : push->sets) {
    host.ports[set.flow.value()] = set.paths[0].source_port;
    host.sets[set.flow.value()] = set;
  }
  for (const wire::LocalFlowId flow : push->withdrawn) {
    host.ports.erase(flow.value());
    host.sets.erase(flow.value());
  }
  host.epoch = push->epoch;
  host.generation = push->generation;
  Deliver(host.peer, host.instance,
          wire::Ack{.epoch = push->epoch, .generation = push->generation});
}

void Cluster::AnswerProbes(Host& host, const wire::ProbeOrder& order) {
  wire::ProbeReport report{.order = order.order, .done = true};
  const int from = NumberOf(order.source);
  const int to = NumberOf(order.destination);
  for (const std::uint16_t port : order.source_ports) {
    for (const std::uint8_t ttl : order.ttls) {
      ++report.sent;
      ++host.probes;
      if (!host.answers_probes) continue;
      const bool is_back = port < fabric::kFirstRocePort;
      const int spine =
          is_back ? SpineBack(from, to, order.destination_port) : SpineOf(from, to, port);
      const fabric::Path* const path = LivePath(from, to, spine);
      if (path == nullptr) continue;
      const auto& hops = path->hops;
      // The uplink of a NIC that has several is the first hop.
      const bool is_uplink = topology_.HasSeveralUplinks(topology_.From(hops.front()));
      const auto last = hops.begin() + ttl - (is_uplink ? 1 : 2);
      if (std::any_of(hops.begin(), last + 1,
                      [&](const auto& passed) { return dead.contains(passed.link); })) {
        continue;
      }
      const auto hop = *last;
      const fabric::Link& link = topology_.link(hop.link);
      report.answers.push_back({port, ttl, hop.forward ? link.b_address : link.a_address, 100});
    }
  }
  if (host.answers_probes) return Deliver(host.peer, host.instance, std::move(report));
  // No switch answers: the agent sends all probes at the ordered pace, and waits.
  const Duration pacing = std::chrono::seconds(report.sent) / order.probes_per_second;
  const Duration timeout = std::chrono::microseconds(order.timeout_us);
  waits_.push_back(host_loop_->After(
      pacing + timeout, [this, &host, report] { Deliver(host.peer, host.instance, report); }));
}

fabric::Attachment Cluster::AttachmentOf(int host) const {
  return *paths_.FindAttachment(*topology_.FindNic(Address(host)));
}

const fabric::Path* Cluster::LivePath(int from, int to, int spine) const {
  const auto between = paths_.Between(AttachmentOf(from).leaf, AttachmentOf(to).leaf);
  // A leaf stops using its own dead links.
  const auto begins_dead = [&](const fabric::Path& path) {
    return dead.contains(path.hops.front().link);
  };
  auto path = between.begin() + spine;
  if (begins_dead(*path)) path = std::find_if_not(between.begin(), between.end(), begins_dead);
  if (path == between.end()) return nullptr;
  return dark_spines.contains(static_cast<int>(path - between.begin())) ? nullptr : &*path;
}

std::vector<fabric::DirectedLink> Cluster::RouteOf(int from, int to, std::uint16_t port) const {
  std::vector<fabric::DirectedLink> links = {*AttachmentOf(from).uplink};
  if (AttachmentOf(from).leaf != AttachmentOf(to).leaf) {
    const fabric::Path* const path = LivePath(from, to, SpineOf(from, to, port));
    if (path == nullptr) return {};
    links.insert(links.end(), path->hops.begin(), path->hops.end());
  }
  links.push_back(*AttachmentOf(to).Downlink());
  const auto is_dead = [&](fabric::DirectedLink link) { return dead.contains(link.link); };
  return std::ranges::any_of(links, is_dead) ? std::vector<fabric::DirectedLink>() : links;
}

int Cluster::SpineOf(int from, int to, std::uint16_t port) const { return hash(from, to, port); }

int Cluster::SpineBack(int from, int to, std::uint16_t port) const {
  return hash_back(from, to, port);
}

int Cluster::AppliedSpine(int from, std::uint64_t flow, int to) const {
  const Host& own = hosts_[static_cast<std::size_t>(from)];
  const auto port = own.ports.find(flow);
  return port == own.ports.end() ? -1 : SpineOf(from, to, port->second);
}

std::vector<int> Cluster::AppliedSpines(int from, std::uint64_t flow, int to) const {
  std::vector<int> spines;
  const Host& own = hosts_[static_cast<std::size_t>(from)];
  const auto set = own.sets.find(flow);
  if (set == own.sets.end()) return spines;
  for (const wire::FlowPath& path : set->second.paths) {
    spines.push_back(SpineOf(from, to, path.source_port));
  }
  return spines;
}

std::size_t Cluster::UnacknowledgedFlows() {
  std::size_t count = 0;
  for (const FlowSlot slot : state().flows.All()) {
    const PushState& push = state().flows.PushOf(slot);
    const Agent& agent = state().agents.At(state().flows.At(slot).agent);
    if (push.is_dirty || push.generation > agent.acked_generation) ++count;
  }
  return count;
}

const Flow& Cluster::FlowOf(int from, std::uint64_t id) {
  const auto agent = state().agents.FindByName(host(from).name);
  ESPALIER_CHECK(agent.has_value());
  const auto slot = state().flows.Find(*agent, wire::LocalFlowId(id));
  ESPALIER_CHECK(slot.has_value(), "flow={}", id);
  return state().flows.At(*slot);
}

std::int64_t Cluster::CounterValue(const std::string& name) {
  return metrics_->MakeCounter(name, "").Value();
}

IpAddress Cluster::Address(int number) const {
  return topology_.node(*topology_.FindNode("h" + std::to_string(number))).addresses.front();
}

int Cluster::NumberOf(const IpAddress& address) const {
  for (int i = 0; i < hosts(); ++i) {
    if (Address(i) == address) return i;
  }
  return -1;
}

}  // namespace espalier::controller
