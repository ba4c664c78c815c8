#include "agent/verbs/queue_pair_steering.h"

#include <poll.h>
#include <pthread.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "agent/verbs/attempt.h"
#include "agent/verbs/described_flow.h"
#include "agent/verbs/stand_in.h"
#include "common/verbs/rate_limit.h"
#include "common/verbs/source_port.h"

// Problem: programs own their queue pairs and post from their own threads. Ports must change while
// requests are in flight, without loss and without slowing posts.
// Idea: calls that set up and end a queue pair go through this class; posts are only counted.
// Before a queue pair connects, its flow is opened, and its flow label is set to the port that the
// agent chooses in time. The thread sets later ports: mlx5 changes the port directly; Soft RoCE
// must be in state SQD (send queue drained) to take a flow label, then it returns to RTS. The
// program sees neither SQD nor its event, and its own changes of state wait until the drain ends.
// Invariant: under mutex_, pairs_ has each steered queue pair once, with at most one change.
// Cost: a turn is linear in the queue pairs. It comes every 2 ms, so that the agent soon learns
// that a queue pair is busy; every 1 ms during a drain; every 10 ms if there are many or they rest.

namespace espalier::shim {
namespace {

constexpr std::uint64_t kAnnouncedBytes = 4 << 20;
constexpr auto kAnnouncedFor = std::chrono::seconds(2);
constexpr auto kReconnectAfter = std::chrono::seconds(5);
constexpr auto kNoPatienceFor = std::chrono::seconds(1);
constexpr auto kMinTurn = std::chrono::milliseconds(2);
constexpr auto kMaxTurn = std::chrono::milliseconds(10);
constexpr std::size_t kPairsForMs = 125;  // so that turns take a few percent of one processor
constexpr auto kRestsAfter = std::chrono::seconds(10);
constexpr auto kDrainTurn = std::chrono::milliseconds(1);
constexpr std::size_t kMaxExpected = 4096;  // queue pairs with expectations in one turn
constexpr std::int64_t kMaxExpectedBytes = 1LL << 50;

}  // namespace

QueuePairSteering::QueuePairSteering(const RealVerbs& real, QueuePairSteeringOptions options)
    : real_(real), options_(std::move(options)), observer_(Observer::OfThisProcess()) {}

QueuePairSteering::~QueuePairSteering() {
  Lock lock(mutex_);
  stopping_ = true;
  news_.wait(lock, [this] { return !started_; });
  DropAgent();
}

void QueuePairSteering::Start() {
  const Lock lock(mutex_);
  if (started_ || stopping_) return;
  // The new thread must not take the program's signals.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before);
  // If the thread cannot be started, the next call tries again.
  started_ = Attempt([this] { std::thread([this] { Run(); }).detach(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void QueuePairSteering::Run() {
  pthread_setname_np(pthread_self(), "espalier-verbs");
  while (true) {
    pollfd agent = {.fd = -1, .events = POLLIN, .revents = 0};
    std::chrono::milliseconds pause{};
    {
      Lock lock(mutex_);
      if (stopping_) {
        started_ = false;
        news_.notify_all();
        return;
      }
      const auto now = Clock::now();
      if (agent_ == nullptr && now >= next_connect_) ConnectAgent(lock, now);
      if (!Attempt([&] { pause = Turn(now); })) pause = kMaxTurn;
      news_.notify_all();
      if (agent_ != nullptr) agent.fd = espalier_agent_fd(agent_);
    }
    observer_.EndForgotten();
    poll(&agent, 1, static_cast<int>(pause.count()));
  }
}

void QueuePairSteering::ConnectAgent(Lock& lock, Clock::time_point now) {
  next_connect_ = now + kReconnectAfter;
  lock.unlock();  // connecting may take seconds
  espalier_agent* agent = nullptr;
  const char* const socket = options_.socket.empty() ? nullptr : options_.socket.c_str();
  const int error = espalier_agent_connect(socket, &agent);
  lock.lock();
  agent_is_known_ = true;
  if (error != 0) return;
  agent_ = agent;
  for (const auto& pair : pairs_) OpenFlow(*pair);
}

void QueuePairSteering::DropAgent() {
  espalier_agent_close(agent_);
  agent_ = nullptr;
  for (const auto& pair : pairs_) {
    pair->flow = nullptr;
    pair->wanted_max_rate_bps = 0;
  }
}

std::chrono::milliseconds QueuePairSteering::Turn(Clock::time_point now) {
  if (agent_ != nullptr && espalier_agent_dispatch(agent_) != 0) DropAgent();
  TakeExpectations(now);
  ticks_.Set();
  bool any_draining = false;
  bool any_traffic = false;
  for (const auto& pair : pairs_) {
    if (pair->observed == nullptr) continue;
    Publish(*pair, now);
    if (pair->draining) {
      ContinueDrain(*pair);
    } else {
      TakeOrder(*pair);
      if (pair->pair->state == IBV_QPS_RTS) {
        LimitRate(*pair);
        if (pair->wanted != 0) StartChange(*pair);
      }
    }
    any_draining |= pair->draining;
    any_traffic |= now - pair->last_traffic < kRestsAfter;
  }
  if (any_draining) return kDrainTurn;
  if (!any_traffic) return kMaxTurn;
  return std::clamp(std::chrono::milliseconds(pairs_.size() / kPairsForMs), kMinTurn, kMaxTurn);
}

void QueuePairSteering::OpenFlow(Pair& pair) {
  pair.description.movable = pair.method == PortChangeMethod::kNone ? 0 : 1;
  pair.description.source_port = pair.port;
  pair.description.remaining_bytes = pair.announced_bytes;
  pair.opened_at_sent_bytes = pair.sent_bytes;
  pair.seen_version = 0;
  if (espalier_flow_open(agent_, &pair.description, &pair.flow) != 0) {
    pair.flow = nullptr;
    return;
  }
  espalier_flow_timeout(pair.flow, pair.timeout_us, pair.repetitions);
}

void QueuePairSteering::Expect(std::uint32_t number, std::int64_t bytes) {
  const std::lock_guard lock(expected_mutex_);
  if (expected_.size() >= kMaxExpected && expected_.count(number) == 0) return;
  std::int64_t& sum = expected_[number];
  sum = std::clamp(sum, -kMaxExpectedBytes, kMaxExpectedBytes) +
        std::clamp(bytes, -kMaxExpectedBytes, kMaxExpectedBytes);
}

// To be called before the posted bytes are counted, as they may be those that were expected.
void QueuePairSteering::TakeExpectations(Clock::time_point now) {
  std::map<std::uint32_t, std::int64_t> expected;
  {
    const std::lock_guard lock(expected_mutex_);
    expected.swap(expected_);
  }
  for (const auto& [number, bytes] : expected) {
    Pair* only = nullptr;
    int found = 0;
    for (const auto& pair : pairs_) {
      if (pair->observed == nullptr || pair->description.local_qpn != number) continue;
      only = pair.get();
      ++found;
    }
    if (found != 1) continue;
    const auto amount = static_cast<std::uint64_t>(std::abs(bytes));
    if (bytes < 0) {
      only->announced_bytes -= std::min(only->announced_bytes, amount);
    } else {
      only->announced_bytes =
          std::min<std::uint64_t>(only->announced_bytes + amount, kMaxExpectedBytes);
      only->last_traffic = now;
    }
  }
}

void QueuePairSteering::Publish(Pair& pair, Clock::time_point now) {
  const TrafficCount::Reading reading = pair.observed->count.Read();
  const std::uint64_t posted =
      TrafficCount::Difference(reading.posted_bytes, pair.last.posted_bytes);
  pair.posted_bytes += posted;
  pair.sent_bytes =
      pair.posted_bytes - TrafficCount::Difference(reading.posted_bytes, reading.completed_bytes);
  pair.last = reading;
  pair.announced_bytes -= std::min(pair.announced_bytes, posted);
  if (posted != 0) pair.last_traffic = now;
  if (now - pair.last_traffic > kAnnouncedFor) pair.announced_bytes = 0;
  pair.edges.Update(pair.observed->count, ticks_);
  if (pair.flow == nullptr) return;
  espalier_flow_edges(pair.flow, pair.edges.count(), pair.edges.last_ns(), pair.edges.between_ns());
  espalier_flow_progress(pair.flow, pair.announced_bytes, pair.posted_bytes - pair.sent_bytes,
                         pair.sent_bytes - std::min(pair.sent_bytes, pair.opened_at_sent_bytes),
                         pair.port);
}

void QueuePairSteering::TakeOrder(Pair& pair) {
  if (pair.flow == nullptr || espalier_flow_version(pair.flow) == pair.seen_version) return;
  espalier_path_set paths;
  espalier_flow_paths(pair.flow, &paths);
  pair.seen_version = paths.version;
  const std::uint16_t port = paths.path_count == 0 ? 0 : paths.source_port[0];
  pair.wanted = port < verbs::kFirstRocePort || port == pair.port ? 0 : port;
  pair.wanted_max_rate_bps = paths.max_rate_bps;
}

void QueuePairSteering::LimitRate(Pair& pair) {
  if (pair.rate_is_advice || pair.max_rate_bps == pair.wanted_max_rate_bps) return;
  const int error = verbs::LimitRate(*pair.pair, pair.wanted_max_rate_bps);
  if (error == 0) pair.max_rate_bps = pair.wanted_max_rate_bps;
  pair.rate_is_advice = error != 0;
  if (error != 0) pair.description.flags = 0;  // should the flow be opened again
  if (options_.verbose) {
    std::fprintf(stderr, "espalier-verbs: queue pair %u to %llu bit/s: %s\n", pair.pair->qp_num,
                 static_cast<unsigned long long>(pair.wanted_max_rate_bps),
                 error == 0 ? "done" : "advice only, as the device cannot limit queue pairs");
  }
}

PortChangeMethod QueuePairSteering::PortChangeMethodOf(const ibv_context& context) const {
  if (real_.set_udp_port != nullptr && real_.is_of_driver(context, "mlx5_core")) {
    return PortChangeMethod::kSetUdpPort;
  }
  if (real_.ring_doorbell != nullptr && real_.is_of_driver(context, "rdma_rxe")) {
    return PortChangeMethod::kDrain;
  }
  return PortChangeMethod::kNone;
}

std::unique_ptr<QueuePairSteering::Pair> QueuePairSteering::Describe(
    ibv_qp& pair, const ibv_qp_attr& attributes) {
  const std::optional<espalier_flow_desc> flow = DescribeFlow(real_, pair, attributes);
  if (!flow) return nullptr;
  auto made = std::make_unique<Pair>();
  ibv_qp_attr unused = {};
  if (real_.query_qp(&pair, &unused, IBV_QP_CAP, &made->limits) != 0 ||
      made->limits.cap.max_send_wr == 0) {
    return nullptr;
  }
  made->pair = &pair;
  made->description = *flow;
  made->method = PortChangeMethodOf(*pair.context);
  made->port =
      verbs::SourcePortOf(attributes.ah_attr.grh.flow_label, pair.qp_num, attributes.dest_qp_num);
  made->announced_bytes = options_.announce_bytes.value_or(
      made->method == PortChangeMethod::kNone ? kAnnouncedBytes : 0);
  made->last_traffic = Clock::now();
  return made;
}

void QueuePairSteering::AwaitPort(Lock& lock, Pair& pair) {
  if (pair.announced_bytes == 0 || !started_) return;
  const auto now = Clock::now();
  if (now < no_patience_until_) return;
  const bool answered = news_.wait_for(lock, options_.patience, [&] {
    TakeOrder(pair);
    return pair.seen_version != 0 || (agent_is_known_ && agent_ == nullptr);
  });
  if (!answered) no_patience_until_ = Clock::now() + kNoPatienceFor;
}

QueuePairSteering::Pair* QueuePairSteering::Announce(Lock& lock, ibv_qp& pair,
                                                     const ibv_qp_attr& attributes) {
  std::unique_ptr<Pair> made = Describe(pair, attributes);
  if (made == nullptr) return nullptr;
  Pair& entry = *pairs_.emplace_back(std::move(made));
  if (agent_ != nullptr) OpenFlow(entry);
  AwaitPort(lock, entry);
  return &entry;
}

int QueuePairSteering::Connect(Lock& lock, ibv_qp* pair, ibv_qp_attr* attributes, int mask) {
  Forget(*pair);  // it may have been connected and reset before
  Pair* announced = nullptr;
  Attempt([&] { announced = Announce(lock, *pair, *attributes); });
  if (announced == nullptr) return real_.modify_qp(pair, attributes, mask);
  Pair& entry = *announced;
  const std::uint32_t label = attributes->ah_attr.grh.flow_label;
  if (entry.wanted != 0) {
    attributes->ah_attr.grh.flow_label = verbs::FlowLabelOf(entry.wanted);
    entry.port = entry.wanted;
  }
  entry.wanted = 0;
  const int error = real_.modify_qp(pair, attributes, mask);
  attributes->ah_attr.grh.flow_label = label;
  if (error != 0) {
    Forget(*pair);
    return error;
  }
  entry.edges = QueueEdges(kShortPause);
  if (!Attempt([&] { entry.observed = &observer_.Watch(*pair, entry.limits); })) {
    Forget(*pair);  // it is connected and keeps its port, unsteered
    return 0;
  }
  if (options_.verbose) {
    std::fprintf(stderr, "espalier-verbs: queue pair %u to %u: port %u\n", pair->qp_num,
                 entry.description.remote_qpn, entry.port);
  }
  return 0;
}

QueuePairSteering::Pair* QueuePairSteering::Find(const ibv_qp* pair) {
  const auto found = std::find_if(pairs_.begin(), pairs_.end(),
                                  [&](const auto& entry) { return entry->pair == pair; });
  return found == pairs_.end() ? nullptr : found->get();
}

void QueuePairSteering::Forget(ibv_qp& pair) {
  observer_.Forget(pair);
  const auto found = std::find_if(pairs_.begin(), pairs_.end(),
                                  [&](const auto& entry) { return entry->pair == &pair; });
  if (found == pairs_.end()) return;
  espalier_flow_close((*found)->flow);
  pairs_.erase(found);
}

int QueuePairSteering::Modify(ibv_qp* pair, ibv_qp_attr* attributes, int mask) {
  Lock lock(mutex_);
  const bool has_state = (mask & IBV_QP_STATE) != 0;
  if (has_state && attributes->qp_state == IBV_QPS_RTR && (mask & IBV_QP_AV) != 0) {
    return Connect(lock, pair, attributes, mask);
  }
  const bool ends =
      has_state && (attributes->qp_state == IBV_QPS_RESET || attributes->qp_state == IBV_QPS_ERR);
  if (!ends) AwaitChange(lock, pair);
  const int error = real_.modify_qp(pair, attributes, mask);
  Pair* const known = Find(pair);
  if (error == 0 && known != nullptr) known->NoteTimeout(*attributes, mask);
  if (!ends || error != 0 || known == nullptr) return error;
  known->draining = false;
  known->wanted = 0;
  if (known->observed != nullptr) known->observed->count.Fail();
  return error;
}

int QueuePairSteering::Query(ibv_qp* pair, ibv_qp_attr* attributes, int mask,
                             ibv_qp_init_attr* description) {
  const Lock lock(mutex_);
  const Pair* const known = Find(pair);
  const bool drains = known != nullptr && known->draining;
  ibv_qp stand_in = StandInOf(*pair);
  const int error = real_.query_qp(drains ? &stand_in : pair, attributes, mask, description);
  if (error == 0 && drains && attributes->qp_state == IBV_QPS_SQD) {
    attributes->qp_state = IBV_QPS_RTS;
    attributes->sq_draining = 0;
  }
  return error;
}

int QueuePairSteering::Destroy(ibv_qp* pair) {
  // The device's function waits until the program has acknowledged events of the pair, so the lock
  // must be free.
  {
    const Lock lock(mutex_);
    Forget(*pair);
    observer_.ForgetExtended(*pair);
  }
  return real_.destroy_qp(pair);
}

int QueuePairSteering::GetAsyncEvent(ibv_context* context, ibv_async_event* event) {
  while (true) {
    const int error = real_.get_async_event(context, event);
    if (error != 0 || event->event_type != IBV_EVENT_SQ_DRAINED) return error;
    {
      const Lock lock(mutex_);
      Pair* const known = Find(event->element.qp);
      if (known == nullptr || known->drained_events == 0) return error;
      --known->drained_events;
    }
    real_.ack_async_event(event);
  }
}

ibv_qp_state QueuePairSteering::StateOf(const Pair& pair) const {
  ibv_qp_attr now = {};
  ibv_qp_init_attr unused = {};
  const int error = real_.query_qp(pair.pair, &now, IBV_QP_STATE, &unused);
  return error == 0 ? now.qp_state : IBV_QPS_UNKNOWN;
}

void QueuePairSteering::StartChange(Pair& pair) {
  // The program handles a queue pair that has failed.
  if (StateOf(pair) != IBV_QPS_RTS) return EndChange(pair, ECANCELED);
  if (pair.method == PortChangeMethod::kSetUdpPort) {
    return EndChange(pair, real_.set_udp_port(pair.pair, pair.wanted));
  }
  if (pair.method == PortChangeMethod::kNone) return EndChange(pair, EOPNOTSUPP);
  ibv_qp_attr drained = {.qp_state = IBV_QPS_SQD};
  ibv_qp stand_in = StandInOf(*pair.pair);
  const int error = real_.modify_qp(&stand_in, &drained, IBV_QP_STATE);
  if (error != 0) return EndChange(pair, error);
  pair.draining = true;
  ++pair.drained_events;
}

void QueuePairSteering::ContinueDrain(Pair& pair) {
  ibv_qp_attr now = {};
  ibv_qp_init_attr unused = {};
  ibv_qp stand_in = StandInOf(*pair.pair);
  const int queried = real_.query_qp(&stand_in, &now, IBV_QP_STATE | IBV_QP_AV, &unused);
  if (queried != 0 || now.qp_state != IBV_QPS_SQD) return EndChange(pair, ECANCELED);
  ibv_send_wr* none = nullptr;
  if (now.sq_draining != 0) {
    // Soft RoCE may have completed everything without noticing; the doorbell makes it check.
    real_.ring_doorbell(pair.pair, nullptr, &none);
    return;
  }
  ibv_qp_attr moved = {.qp_state = IBV_QPS_SQD, .ah_attr = now.ah_attr};
  moved.ah_attr.grh.flow_label = verbs::FlowLabelOf(pair.wanted);
  const int error = real_.modify_qp(&stand_in, &moved, IBV_QP_STATE | IBV_QP_AV);
  ibv_qp_attr sending = {.qp_state = IBV_QPS_RTS};
  real_.modify_qp(&stand_in, &sending, IBV_QP_STATE);
  // The doorbell makes the device send what was posted during the drain.
  real_.ring_doorbell(pair.pair, nullptr, &none);
  EndChange(pair, error);
}

void QueuePairSteering::EndChange(Pair& pair, int error) {
  pair.draining = false;
  if (error == 0) pair.port = pair.wanted;
  if (options_.verbose) {
    std::fprintf(stderr, "espalier-verbs: queue pair %u to port %u: %s\n", pair.pair->qp_num,
                 pair.wanted, error == 0 ? "done" : std::strerror(error));
  }
  pair.wanted = 0;
  if (error == 0 || error == ECANCELED) return;
  // Opening the flow again tells the agent that its port cannot change.
  pair.method = PortChangeMethod::kNone;
  if (pair.flow == nullptr) return;
  espalier_flow_close(pair.flow);
  OpenFlow(pair);
}

void QueuePairSteering::AwaitChange(Lock& lock, const ibv_qp* pair) {
  news_.wait_for(lock, std::chrono::seconds(1), [&] {
    const Pair* const known = Find(pair);
    return known == nullptr || !known->draining;
  });
}

void QueuePairSteering::BeforeFork() {
  mutex_.lock();
  expected_mutex_.lock();
}

void QueuePairSteering::AfterForkInParent() {
  expected_mutex_.unlock();
  mutex_.unlock();
}

void QueuePairSteering::AfterForkInChild() {
  expected_mutex_.unlock();
  // The memory shared with the agent is the parent's; this only releases the child's mapping.
  DropAgent();
  pairs_.clear();
  started_ = false;
  agent_is_known_ = false;
  next_connect_ = {};
  mutex_.unlock();
}

}  // namespace espalier::shim
