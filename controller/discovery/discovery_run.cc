#include "controller/discovery/discovery_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "controller/discovery/fabric_drift.h"

namespace espalier::discovery {
namespace {

constexpr Duration kAnswerTimeout = std::chrono::milliseconds(300);
constexpr Duration kGrace = std::chrono::seconds(3);  // for the report of an order
constexpr std::size_t kMostPortsOfOrder = 256;
constexpr double kMostProbesPerSecond = 5'000;  // of one host
constexpr std::size_t kMostFailures = 64;

Duration DurationOf(double seconds) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
}

}  // namespace

DiscoveryRun::DiscoveryRun(World world) : world_(std::move(world)) {}

Result<void> DiscoveryRun::Start(const Request& request) {
  const std::vector<Endpoint> endpoints = world_.endpoints();
  const auto count = std::ranges::count_if(
      endpoints, [&](const Endpoint& each) { return request.covers(each.address); });
  if (count < 2) {
    return Fail(ErrorCode::kFailedPrecondition,
                fmt::format("{} NICs of connected agents can send probes (at least two are needed; "
                            "`espalier agents` shows which agents are connected)",
                            count));
  }
  covers_ = request.covers;
  if (request.is_fresh || !kept_) {
    kept_ = std::make_shared<Discovery>(ProbeChoice::Options{.confidence = request.confidence});
    found_ = {};
    failures_.clear();
    drift_.clear();
    differences_.clear();
  } else if (phase_ == Phase::kRunning) {
    return {};  // the next batch includes new endpoints
  }
  phase_ = Phase::kRunning;
  world_.record_event("discovery_started", fmt::format("nics={}", count));
  Probe(kept_, /*is_check=*/false);
  return {};
}

void DiscoveryRun::Probe(std::shared_ptr<Discovery> discovery, bool is_check) {
  active_ = std::move(discovery);
  is_check_ = is_check;
  batch_ = {};
  ChooseBatch();
}

void DiscoveryRun::ChooseBatch() {
  for (const Endpoint& endpoint : world_.endpoints()) {
    if (covers_(endpoint.address)) active_->AddEndpoint(endpoint);
  }
  is_choosing_ = true;
  const auto asks = std::make_shared<std::vector<Ask>>();
  world_.background([asks, discovery = active_] { *asks = discovery->NextBatch(); },
                    [this, asks, choice = ++choice_] {
                      if (choice != choice_) return;
                      is_choosing_ = false;
                      BeginBatch(*asks);
                    });
}

void DiscoveryRun::BeginBatch(const std::vector<Ask>& asks) {
  if (!is_check_) found_ = Summarize();
  if (asks.empty()) return Complete();
  batch_ = {};
  AddOrders(asks, active_->batch_seconds());
  batch_.began = world_.now();
  batch_.sending = DurationOf(active_->batch_seconds());
  batch_.deadline = batch_.began + batch_.sending + kAnswerTimeout + kGrace;
  SendDue();
}

Found DiscoveryRun::Summarize() const {
  const ProbeEvidence& evidence = active_->evidence();
  Found found{.fabric = active_->fabric(),
              .nics = evidence.endpoints(),
              .rounds = active_->rounds(),
              .probes = evidence.probes(),
              .answers = evidence.answers()};
  found.nics.resize(found.fabric.nics.size());  // without those that the round did not have
  return found;
}

// One order for all ports with the same ends and TTLs, in the order in which they were chosen.
void DiscoveryRun::AddOrders(const std::vector<Ask>& asks, double seconds) {
  using Key = std::pair<std::pair<EndpointIndex, EndpointIndex>, std::vector<std::uint8_t>>;
  std::map<Key, std::size_t> last;
  std::map<EndpointIndex, std::size_t> probes;  // of a source
  const auto& endpoints = active_->evidence().endpoints();
  for (const Ask& ask : asks) {
    probes[ask.source] += ask.ttls.size();
    const auto [found, is_new] =
        last.try_emplace({{ask.source, ask.destination}, ask.ttls}, batch_.orders.size());
    const bool is_full =
        !is_new && batch_.orders[found->second].order.source_ports.size() >= kMostPortsOfOrder;
    if (is_full) found->second = batch_.orders.size();
    if (is_new || is_full) {
      Waiting waiting{
          .host = endpoints[ask.source].host, .ends = {ask.source, ask.destination}, .order = {}};
      waiting.order.order = numbers_.Next();
      waiting.order.source = endpoints[ask.source].address;
      waiting.order.destination = endpoints[ask.destination].address;
      waiting.order.ttls = ask.ttls;
      waiting.order.timeout_us = static_cast<std::uint64_t>(MicrosecondsOf(kAnswerTimeout));
      batch_.orders.push_back(std::move(waiting));
    }
    batch_.orders[found->second].order.source_ports.push_back(ask.port);
  }
  for (Waiting& waiting : batch_.orders) {
    const auto count = static_cast<double>(probes[waiting.ends.source]);
    const double rate =
        std::clamp(std::ceil(count / std::max(seconds, 0.01)), 1.0, kMostProbesPerSecond);
    waiting.order.probes_per_second = static_cast<std::uint32_t>(rate);
  }
}

void DiscoveryRun::SendDue() {
  const double part =
      batch_.sending <= Duration::zero()
          ? 1.0
          : SecondsOf(world_.now() + kTick - batch_.began) / SecondsOf(batch_.sending);
  const auto due = static_cast<std::size_t>(
      std::ceil(std::min(part, 1.0) * static_cast<double>(batch_.orders.size())));
  for (; batch_.sent < due; ++batch_.sent) {
    const Waiting& waiting = batch_.orders[batch_.sent];
    if (world_.send(waiting.host, waiting.order)) {
      batch_.open.emplace(waiting.order.order, waiting.ends);
    } else if (failures_.size() < kMostFailures) {
      failures_[waiting.host] = "its agent is not connected any more";
    }
  }
}

void DiscoveryRun::Tick() {
  const TimePoint now = world_.now();
  if (phase_ == Phase::kComplete && !active_ && now >= next_check_) {
    Probe(std::make_shared<Discovery>(
              ProbeChoice::Options{.confidence = kCheckConfidence, .seed = numbers_.Next()}),
          /*is_check=*/true);
    return;
  }
  if (!active_ || is_choosing_) return;
  SendDue();
  const bool is_reported = batch_.sent == batch_.orders.size() && batch_.open.empty();
  // No faster than the pace, even if the answers are.
  const bool is_over = is_reported && now >= batch_.began + batch_.sending;
  if (!is_over && now < batch_.deadline) return;
  batch_ = {};
  active_->EndBatch();
  ChooseBatch();
}

void DiscoveryRun::HandleReport(const std::string& host, const wire::ProbeReport& report) {
  const auto found = batch_.open.find(report.order);
  if (found == batch_.open.end()) return;
  const OpenOrder& ends = found->second;
  if (active_->evidence().endpoints()[ends.source].host != host) return;
  for (const wire::ProbeAnswer& answer : report.answers) {
    active_->HandleAnswer(ends.source, ends.destination, answer.source_port, answer.ttl,
                          answer.responder);
  }
  if (!report.error.empty() && failures_.size() < kMostFailures) failures_[host] = report.error;
  if (report.done) batch_.open.erase(found);
}

void DiscoveryRun::Complete() {
  next_check_ = world_.now() + kCheckInterval;
  if (is_check_) CompleteCheck();
  active_.reset();
  if (phase_ == Phase::kComplete) return Compare();
  phase_ = Phase::kComplete;
  const DiscoveredFabric& fabric = found_.fabric;
  world_.record_event("discovery_complete",
                      fmt::format("switches={} links={} probes={} missing={} contradictions={}",
                                  fabric.switches.size(), fabric.links.size(), found_.probes,
                                  fabric.missing.size(), fabric.contradictions.size()));
  Compare();
}

void DiscoveryRun::Compare() {
  if (!world_.compare || found_.fabric.links.empty()) return;
  std::vector<std::string> differences = world_.compare(found_);
  if (differences == differences_) return;
  differences_ = std::move(differences);
  world_.record_event("fabric_differs", fmt::format("differences={} text=\"{}\"",
                                                    differences_.size(), NameSome(differences_)));
}

void DiscoveryRun::CompleteCheck() {
  Found checked = Summarize();
  // Without a fabric in sight, as when all agents are gone, nothing is known of it.
  if (checked.fabric.links.empty()) return;
  drift_ = FindDrift(found_.fabric, found_.nics, checked.fabric, checked.nics);
  if (!drift_.empty()) {
    world_.record_event("fabric_drifted",
                        fmt::format("changes={} text=\"{}\"", drift_.size(), NameSome(drift_)));
  }
  found_ = std::move(checked);
  kept_ = active_;
}

}  // namespace espalier::discovery
