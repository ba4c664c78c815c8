#include "deploy/lab/traffic/segment_sender.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace espalier::traffic {
namespace {

using std::chrono::milliseconds;

// The time without progress after which a connection's segments move to another port, if there is
// one. It is longer than any round trip through full queues.
constexpr milliseconds kStall{500};
constexpr milliseconds kRetryPause{50};

bool IsEarlier(const Segment& a, const Segment& b) { return a.sequence < b.sequence; }

}  // namespace

SegmentSender::SegmentSender(io::AsioEventLoop& loop, const Options& options, SteeredFlow steered,
                             std::function<void(std::int64_t)> on_acknowledged)
    : loop_(loop),
      options_(options),
      steered_(std::move(steered)),
      on_acknowledged_(std::move(on_acknowledged)) {
  report_.index = options.flow;
}

void SegmentSender::Connect() {
  if (options_.stays_connected && to_send_ == 0) UpdateConnections();
}

void SegmentSender::Send(std::int64_t bytes) {
  if (report_.start_ns == 0) report_.start_ns = loop_.Now().time_since_epoch().count();
  report_.done = false;
  if (report_.bytes == 0 && to_send_ == 0) first_bytes_ = loop_.Now();
  to_send_ += bytes;
  while (bytes > 0) {
    const std::int64_t length = std::min(bytes, options_.segment_bytes);
    pending_.push_back({next_sequence_++, length});
    bytes -= length;
  }
  if (!pause_) pause_ = loop_.After(Duration::zero(), [this] { Pump(); });
}

std::vector<SegmentSender::PortChoice> SegmentSender::PortsInForce() const {
  std::vector<PortChoice> choices;
  for (std::size_t i = 0; i < steered_.ports().size(); ++i) {
    const std::uint16_t port = steered_.ports()[i];
    if (port != avoided_) choices.push_back({port, true, steered_.weights()[i]});
  }
  if (!choices.empty()) return choices;
  if (!steered_.ports().empty() && !connections_.empty()) {
    const SegmentConnection::Options& current = connections_.back()->options();
    return {{current.port, current.steered}};
  }
  for (const std::uint16_t port : options_.own_ports) choices.push_back({port, false});
  return choices;
}

std::vector<std::uint16_t> SegmentSender::Ports() const {
  std::vector<std::uint16_t> ports;
  for (const PortChoice& choice : PortsInForce()) ports.push_back(choice.port);
  return ports;
}

bool SegmentSender::IsInForce(const SegmentConnection& connection) const {
  return WeightOf(connection) > 0;
}

std::uint16_t SegmentSender::WeightOf(const SegmentConnection& connection) const {
  for (const PortChoice& choice : PortsInForce()) {
    if (choice.port == connection.options().port) return choice.weight;
  }
  return 0;
}

void SegmentSender::Pump() {
  pause_.reset();
  steered_.Refresh();
  if (pending_.empty()) return;
  if (IsWaitingForPorts()) {
    pause_ =
        loop_.After(first_bytes_ + options_.first_ports_patience - loop_.Now(), [this] { Pump(); });
    return;
  }
  UpdateConnections();
  while (!pending_.empty()) {
    SegmentConnection* const connection = ReadyConnection(pending_.front().length);
    if (connection == nullptr) break;  // busy connections call on_ready later
    connection->Push(pending_.front());
    pending_.pop_front();
  }
  // Tells at once that the flow is busy, as posting to a queue pair does.
  if (!options_.announces_remaining) ReportProgress();
}

bool SegmentSender::IsWaitingForPorts() const {
  return steered_.IsUndecided() && connections_.empty() &&
         loop_.Now() < first_bytes_ + options_.first_ports_patience;
}

void SegmentSender::UpdateConnections() {
  for (const PortChoice choice : PortsInForce()) {
    const bool exists = std::ranges::any_of(connections_, [&](const auto& connection) {
      return connection->options().port == choice.port;
    });
    if (!exists && !OpenConnection(choice)) Pause();
  }
  LimitRates();
  for (std::size_t i = connections_.size(); i-- > 0;) {
    SegmentConnection* const connection = connections_[i].get();
    if (!IsInForce(*connection) && connection->Unacknowledged().empty()) Bury(connection);
  }
}

void SegmentSender::LimitRates() {
  const auto all = static_cast<double>(steered_.max_rate_bps());
  double weights = 0;
  const std::vector<PortChoice> choices = PortsInForce();
  for (const PortChoice& choice : choices) weights += choice.weight;
  for (const auto& connection : connections_) {
    // An old connection, which finishes what it has begun, counts as one of the others. (The kernel
    // waits for as long as the rate demanded that it had when it sent last.)
    const double own = WeightOf(*connection);
    const double weight = own > 0 ? own : weights / static_cast<double>(choices.size());
    const double part = std::max(1.0, all * weight / weights);
    connection->LimitRate(all == 0 ? 0 : static_cast<std::uint64_t>(part));
  }
}

SegmentConnection* SegmentSender::ReadyConnection(std::int64_t length) {
  auto best = connections_.end();
  double least = 0;
  for (auto at = connections_.begin(); at != connections_.end(); ++at) {
    const std::uint16_t weight = WeightOf(**at);
    if (!(*at)->IsReady() || weight == 0) continue;
    const double filled = static_cast<double>((*at)->BytesWithKernel() + length) / weight;
    if (best != connections_.end() && filled >= least) continue;
    best = at;
    least = filled;
  }
  if (best == connections_.end()) return nullptr;
  std::rotate(best, best + 1, connections_.end());
  return connections_.back().get();
}

bool SegmentSender::OpenConnection(PortChoice choice) {
  auto handle = std::make_shared<SegmentConnection*>(nullptr);
  Result<std::unique_ptr<SegmentConnection>> connection = SegmentConnection::Open(
      loop_,
      {.flow = options_.flow,
       .source = options_.source,
       .destination = options_.destination,
       .port = choice.port,
       .steered = choice.steered,
       .paths = static_cast<int>(PortsInForce().size())},
      {.on_acknowledged =
           [this, handle](const Segment& segment) { HandleAcknowledged(*handle, segment); },
       .on_ready = [this] { Pump(); },
       .on_broken = [this, handle] { HandleBroken(*handle); }});
  if (!connection) {
    if (connection.error().code == ErrorCode::kAlreadyExists && choice.steered) {
      ++report_.port_conflicts;
      avoided_ = choice.port;
    }
    return false;
  }
  *handle = connection->get();
  connections_.push_back(std::move(*connection));
  return true;
}

void SegmentSender::HandleAcknowledged(SegmentConnection* connection, const Segment& segment) {
  to_send_ -= segment.length;
  report_.bytes += segment.length;
  ++report_.segments;
  report_.end_ns = loop_.Now().time_since_epoch().count();
  Use(connection->options()).bytes += segment.length;
  report_.done = to_send_ == 0;
  if (report_.done) ReportProgress();
  if (!IsInForce(*connection) && connection->Unacknowledged().empty()) Bury(connection);
  on_acknowledged_(report_.bytes);
}

void SegmentSender::HandleBroken(SegmentConnection* connection) {
  Abandon(connection);
  Pause();
}

void SegmentSender::Abandon(SegmentConnection* connection) {
  for (const Segment& segment : connection->Unacknowledged()) {
    pending_.insert(std::upper_bound(pending_.begin(), pending_.end(), segment, IsEarlier),
                    segment);
  }
  Bury(connection);
}

void SegmentSender::Bury(SegmentConnection* connection) {
  old_retries_ += connection->ReadTransport().retries;
  connection->Close();
  const auto found = std::find_if(connections_.begin(), connections_.end(),
                                  [&](const auto& other) { return other.get() == connection; });
  buried_.push_back(std::move(*found));
  connections_.erase(found);
}

void SegmentSender::Pause() {
  pause_ = loop_.After(kRetryPause, [this] { Pump(); });
}

void SegmentSender::HandleNews() {
  steered_.Refresh();
  LimitRates();
  Connect();
  if (connections_.empty() && !pending_.empty()) return Pump();
  if (!steered_.is_path_dead()) return;
  std::vector<SegmentConnection*> dead;
  for (const auto& connection : connections_) {
    if (!IsInForce(*connection)) dead.push_back(connection.get());
  }
  for (SegmentConnection* connection : dead) {
    report_.abandoned += static_cast<std::int64_t>(connection->Unacknowledged().size());
    Abandon(connection);
  }
  Pump();
}

void SegmentSender::HandleTick() {
  buried_.clear();
  steered_.Refresh();
  if (to_send_ == 0) return Connect();
  ReportProgress();
  ReportTransport();
  const TimePoint now = loop_.Now();
  std::vector<SegmentConnection*> stuck;
  for (const auto& connection : connections_) {
    connection->Watch();
    if (!IsInForce(*connection) && now - connection->last_progress() >= kStall) {
      stuck.push_back(connection.get());
    }
  }
  for (SegmentConnection* connection : stuck) {
    report_.abandoned += static_cast<std::int64_t>(connection->Unacknowledged().size());
    Abandon(connection);
  }
  if (!stuck.empty()) Pump();
}

void SegmentSender::Finish() {
  pause_.reset();
  connections_.clear();
  steered_.Close();
}

PortUse& SegmentSender::Use(const SegmentConnection::Options& options) {
  const auto found = std::find_if(report_.ports.begin(), report_.ports.end(), [&](const auto& use) {
    return use.port == options.port && use.steered == options.steered;
  });
  if (found != report_.ports.end()) return *found;
  return report_.ports.emplace_back(PortUse{options.port, options.steered, 0});
}

std::int64_t SegmentSender::OutstandingBytes() const {
  std::int64_t bytes = 0;
  for (const auto& connection : connections_) {
    for (const Segment& segment : connection->Unacknowledged()) bytes += segment.length;
  }
  return bytes;
}

void SegmentSender::ReportProgress() {
  std::int64_t arrived = 0;
  std::int64_t with_kernel = 0;
  for (const auto& connection : connections_) {
    arrived += connection->BytesArrived();
    with_kernel += connection->BytesWithKernel();
  }
  // Both counts include the headers, which are a few bytes.
  arrived = std::min(arrived, to_send_);
  const std::int64_t begun = options_.announces_remaining ? with_kernel : OutstandingBytes();
  const std::int64_t outstanding = std::clamp<std::int64_t>(begun - arrived, 0, to_send_);
  // An edge of a ring that waits for its round has nothing to send; one that sends has the rest of
  // its epoch remaining.
  std::int64_t remaining = 0;
  if (to_send_ > 0 && options_.announces_remaining) {
    const std::int64_t epoch = options_.epoch_bytes;
    const std::int64_t rest = epoch > 0 ? epoch - report_.bytes % epoch : 0;
    remaining = std::max<std::int64_t>(0, std::max(to_send_, rest) - arrived - outstanding);
  }
  const std::uint16_t port =
      connections_.empty() ? PortsInForce().front().port : connections_.back()->options().port;
  steered_.Report(remaining, outstanding, report_.bytes + arrived, port);
}

void SegmentSender::ReportTransport() {
  SegmentConnection::Transport sum{old_retries_, 0};
  std::vector<SteeredFlow::PathProgress> paths;
  for (const auto& connection : connections_) {
    const SegmentConnection::Transport transport = connection->ReadTransport();
    sum.retries += transport.retries;
    sum.rtt_us = std::max(sum.rtt_us, transport.rtt_us);
    std::int64_t outstanding = 0;  // includes bytes that wait until the connection is established
    for (const Segment& segment : connection->Unacknowledged()) outstanding += segment.length;
    paths.push_back({.source_port = connection->options().port,
                     .outstanding = outstanding,
                     .sent = connection->BytesEverArrived(),
                     .retries = transport.retries});
  }
  steered_.ReportTransport(sum.retries, sum.rtt_us);
  if (options_.own_ports.size() > 1) steered_.ReportPaths(paths);
}

}  // namespace espalier::traffic
