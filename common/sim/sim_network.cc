#include "common/sim/sim_network.h"

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "common/base/check.h"

namespace espalier::sim {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kMaxQueued = 64;

class AgentEnd;
class ControllerEnd;

// The link between one agent and the controller, whether they are connected or not.
struct Link {
  LinkFaults faults;
  bool is_partitioned = false;
  AgentEnd* agent = nullptr;
};

// The state that all ends share.
struct Network {
  explicit Network(SimWorld& the_world) : world(the_world), random(the_world.MakeRandom()) {}

  Link& LinkOf(const std::string& name) {
    return links.try_emplace(name, Link{default_faults, false, nullptr}).first->second;
  }
  Duration ReconnectPause() {
    return 50ms + Duration(static_cast<Duration::rep>(random.Below(Duration(100ms).count())));
  }

  SimWorld& world;
  Random random;
  LinkFaults default_faults;
  std::map<std::string, Link> links;
  ControllerEnd* controller = nullptr;
  std::uint64_t next_peer = 1;
  SimNetwork::Statistics statistics;
};

// One direction of a connection: a queue whose head is delivered when it is due.
class Direction {
 public:
  // `deliver` gets the bytes of a message, or null for the end of the connection. It may destroy
  // this object, and so itself, if it does not use its captures afterwards.
  Direction(Network& network, const Link& link, EventLoop& receiver,
            std::function<void(const std::string*)> deliver)
      : network_(network), link_(link), receiver_(receiver), deliver_(std::move(deliver)) {}

  bool Push(std::string bytes) {
    ESPALIER_CHECK(!bytes.empty());
    if (queue_.size() >= kMaxQueued) {
      ++network_.statistics.refused;
      return false;
    }
    if (network_.random.Chance(link_.faults.loss)) {
      ++network_.statistics.lost;
      return true;
    }
    if (network_.random.Chance(link_.faults.duplication)) {
      ++network_.statistics.duplicated;
      Enqueue(bytes);
    }
    Enqueue(std::move(bytes));
    return true;
  }

  void PushEnd() { Enqueue(""); }  // no message is empty

  // Continues after a partition.
  void Resume() {
    for (Item& item : queue_) item.due = std::max(item.due, receiver_.Now() + link_.faults.delay);
    Arm();
  }

 private:
  struct Item {
    TimePoint due;
    std::string bytes;
  };

  void Enqueue(std::string bytes) {
    TimePoint due = receiver_.Now() + link_.faults.delay;
    if (const Duration jitter = link_.faults.jitter; jitter > 0s) {
      due += Duration(static_cast<Duration::rep>(
          network_.random.Below(static_cast<std::uint64_t>(jitter.count()) + 1)));
    }
    if (!queue_.empty()) due = std::max(due, queue_.back().due);
    queue_.push_back({due, std::move(bytes)});
    if (queue_.size() == 1) Arm();
  }

  void Arm() {
    timer_.reset();
    if (queue_.empty() || link_.is_partitioned) return;
    timer_ = receiver_.After(queue_.front().due - receiver_.Now(), [this] { Deliver(); });
  }

  void Deliver() {
    if (link_.is_partitioned) return;  // Resume will arm the timer
    const std::string bytes = std::move(queue_.front().bytes);
    queue_.pop_front();
    Arm();
    if (!bytes.empty()) {
      ++network_.statistics.delivered;
      network_.statistics.delivered_bytes += bytes.size();
      network_.world.Trace(bytes);
    }
    deliver_(bytes.empty() ? nullptr : &bytes);
  }

  Network& network_;
  const Link& link_;
  EventLoop& receiver_;
  const std::function<void(const std::string*)> deliver_;
  std::deque<Item> queue_;
  TimerPtr timer_;
};

// A connection, held by both ends. An end that closes it releases it and gets no more messages.
struct Connection {
  PeerId peer;
  std::unique_ptr<Direction> to_controller;  // null: the controller's end is closed
  std::unique_ptr<Direction> to_agent;       // null: the agent's end is closed
};
using ConnectionPtr = std::shared_ptr<Connection>;

class ControllerEnd : public Bus {
 public:
  ControllerEnd(Network& network, EventLoop& loop) : network_(network), loop_(loop) {
    ESPALIER_CHECK(network_.controller == nullptr);
    network_.controller = this;
  }
  ~ControllerEnd() override {
    network_.controller = nullptr;
    for (const auto& [peer, connection] : connections_) Close(*connection);
  }

  EventLoop& loop() { return loop_; }

  void SetHandlers(Handlers handlers) override { handlers_ = std::move(handlers); }

  bool Send(PeerId to, std::string bytes) override {
    const auto found = connections_.find(to);
    if (found == connections_.end()) return false;
    if (found->second->to_agent) return found->second->to_agent->Push(std::move(bytes));
    connections_.erase(found);
    gone_.push_back(to);
    gone_timer_ = loop_.After(0s, [this] {
      for (const PeerId peer : std::exchange(gone_, {})) {
        if (handlers_.on_peer_gone) handlers_.on_peer_gone(peer);
      }
    });
    return false;
  }

  void Disconnect(PeerId peer) override {
    const auto found = connections_.find(peer);
    if (found == connections_.end()) return;
    Close(*found->second);
    connections_.erase(found);
  }

  void Accept(const ConnectionPtr& connection) {
    connections_.emplace(connection->peer, connection);
  }
  void HandleMessage(PeerId from, const std::string& bytes) { handlers_.on_message(from, bytes); }

 private:
  static void Close(Connection& connection) {
    connection.to_controller.reset();
    if (connection.to_agent) connection.to_agent->PushEnd();
  }

  Network& network_;
  EventLoop& loop_;
  Handlers handlers_;
  std::map<PeerId, ConnectionPtr> connections_;
  std::vector<PeerId> gone_;
  TimerPtr gone_timer_;
};

class AgentEnd : public Bus {
 public:
  AgentEnd(Network& network, EventLoop& loop, Link& link)
      : network_(network), loop_(loop), link_(link) {
    ESPALIER_CHECK(link_.agent == nullptr);
    link_.agent = this;
    ConnectAfter(link_.faults.delay);
  }
  ~AgentEnd() override {
    link_.agent = nullptr;
    Close();
  }

  void SetHandlers(Handlers handlers) override { handlers_ = std::move(handlers); }

  bool Send(PeerId to, std::string bytes) override {
    ESPALIER_CHECK(to == kControllerPeer, "peer={}", to.value());
    if (!connection_) return false;
    // If the controller's end is closed, the message is lost; the agent will learn of it.
    return !connection_->to_controller || connection_->to_controller->Push(std::move(bytes));
  }

  void Disconnect(PeerId peer) override {
    ESPALIER_CHECK(peer == kControllerPeer, "peer={}", peer.value());
    if (!connection_) return;
    Close();
    ConnectAfter(network_.ReconnectPause());
  }

  void Resume() {
    if (!connection_) return;
    if (connection_->to_controller) connection_->to_controller->Resume();
    if (connection_->to_agent) connection_->to_agent->Resume();
  }

  // Handles the end of the connection, which this end has not caused.
  void Break() {
    if (!connection_) return;
    Disconnect(kControllerPeer);
    if (handlers_.on_peer_gone) handlers_.on_peer_gone(kControllerPeer);
  }

 private:
  void Close() {
    if (!connection_) return;
    connection_->to_controller.reset();
    connection_->to_agent.reset();
    connection_.reset();
  }

  void ConnectAfter(Duration pause) {
    connect_timer_ = loop_.After(pause, [this] { Connect(); });
  }

  void Connect() {
    ControllerEnd* const controller = network_.controller;
    if (controller == nullptr || link_.is_partitioned) {
      ConnectAfter(network_.ReconnectPause());
      return;
    }
    connection_ = std::make_shared<Connection>();
    connection_->peer = PeerId(network_.next_peer++);
    connection_->to_controller = std::make_unique<Direction>(
        network_, link_, controller->loop(),
        [controller, peer = connection_->peer](const std::string* bytes) {
          controller->HandleMessage(peer, *bytes);
        });
    connection_->to_agent =
        std::make_unique<Direction>(network_, link_, loop_, [this](const std::string* bytes) {
          if (bytes == nullptr) {
            Break();
          } else {
            handlers_.on_message(kControllerPeer, *bytes);
          }
        });
    controller->Accept(connection_);
  }

  Network& network_;
  EventLoop& loop_;
  Link& link_;
  Handlers handlers_;
  ConnectionPtr connection_;
  TimerPtr connect_timer_;
};

}  // namespace

struct SimNetwork::Impl : Network {
  using Network::Network;
};

SimNetwork::SimNetwork(SimWorld& world) : impl_(std::make_unique<Impl>(world)) {}
SimNetwork::~SimNetwork() = default;

std::unique_ptr<Bus> SimNetwork::MakeController(EventLoop& loop) {
  return std::make_unique<ControllerEnd>(*impl_, loop);
}

std::unique_ptr<Bus> SimNetwork::MakeAgent(EventLoop& loop, const std::string& name) {
  return std::make_unique<AgentEnd>(*impl_, loop, impl_->LinkOf(name));
}

void SimNetwork::SetFaults(const LinkFaults& faults) {
  impl_->default_faults = faults;
  for (auto& [name, link] : impl_->links) link.faults = faults;
}

void SimNetwork::SetFaults(const std::string& agent, const LinkFaults& faults) {
  impl_->LinkOf(agent).faults = faults;
}

void SimNetwork::Partition(const std::string& agent) { impl_->LinkOf(agent).is_partitioned = true; }

void SimNetwork::Heal(const std::string& agent) {
  Link& link = impl_->LinkOf(agent);
  if (!std::exchange(link.is_partitioned, false)) return;
  if (link.agent != nullptr) link.agent->Resume();
}

void SimNetwork::Break(const std::string& agent) {
  if (AgentEnd* const end = impl_->LinkOf(agent).agent) end->Break();
}

const SimNetwork::Statistics& SimNetwork::statistics() const { return impl_->statistics; }

}  // namespace espalier::sim
