#include "controller/paths/path_learner.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "controller/paths/models/path_reach.h"
#include "controller/paths/path_answers.h"

namespace espalier::controller {
namespace {

using fabric::DirectedLink;
using fabric::Path;
using fabric::PathIndex;
using fabric::PortEntry;
using fabric::PortKey;
using fabric::PortTrust;

constexpr std::size_t kMaxControlProbes = 3;
// After this many orders in a row without any answer, silent ports of a source are not probed
// again.
constexpr std::size_t kMaxSilentOrders = 16;

// The n-th port to try for a key. The sequence visits all RoCE ports and starts at a different port
// for each key, so that keys do not compete for the same ports. The step is odd, so no port
// repeats.
std::uint16_t NthPort(const PortKey& key, std::uint32_t n) {
  constexpr std::uint32_t kStep = 10'007;
  const auto start =
      static_cast<std::uint32_t>(key.source.value() * 7919 + key.destination.value() * 104'729);
  const std::uint32_t offset = (start + n * kStep) % fabric::kRocePortCount;
  return static_cast<std::uint16_t>(fabric::kFirstRocePort + offset);
}

}  // namespace

std::uint8_t HashedProtocol(const fabric::PathTable& paths, fabric::NodeId source,
                            std::uint8_t protocol, bool fabric_hashes_protocol) {
  const auto attachment = paths.FindAttachment(source);
  const bool chooses = attachment && !attachment->uplink;
  return fabric_hashes_protocol || chooses ? protocol : wire::kProtocolUdp;
}

PathLearner::PathLearner(const fabric::Topology& topology, fabric::PathTable& paths,
                         fabric::PathMap& map, PathLearnerOptions options, Metrics& metrics)
    : topology_(topology),
      paths_(paths),
      map_(map),
      models_(topology, paths, map),
      options_(options),
      probes_metric_(metrics.MakeCounter("espalier_controller_probes_ordered_total",
                                         "Probes ordered from agents")),
      answers_metric_(metrics.MakeCounter("espalier_controller_probe_answers_total",
                                          "Probe answers that identified the path of a port")),
      unexpected_metric_(metrics.MakeCounter("espalier_controller_probe_answers_unexpected_total",
                                             "Probe answers ignored because they were not ordered "
                                             "or match none of the paths")),
      mismatch_metric_(
          metrics.MakeCounter("espalier_controller_path_map_mismatches_total",
                              "Ports that probes saw on another path than that of the path map")),
      quarantined_metric_(
          metrics.MakeCounter("espalier_controller_predicted_ports_quarantined_total",
                              "Predicted ports quarantined because their probes "
                              "stay unanswered while other ports are answered")),
      predictions_metric_(metrics.MakeCounter("espalier_controller_port_predictions_total",
                                              "Ports whose path a hash model has computed")) {}

std::span<const Path> PathLearner::PathsOf(const PortKey& key) {
  const auto from = paths_.FindAttachment(key.source);
  const auto to = paths_.FindAttachment(key.destination);
  if (!from || !to) return {};
  return paths_.Between(from->leaf, to->leaf);
}

PathLearner::SourceState& PathLearner::SourceOf(fabric::NodeId node) {
  const auto [source, inserted] = sources_.try_emplace(node);
  if (inserted) source->second.pace = options_.max_probes_per_second;
  return source->second;
}

PathLearner::KeyState& PathLearner::StateOf(const PortKey& key) {
  const auto [state, inserted] = keys_.try_emplace(key);
  if (inserted) SourceOf(key.source).keys.push_back(key);
  if (std::exchange(state->second.fabric, fabric_) != fabric_) {
    state->second.unverified.StartOver();
    state->second.asked.clear();
    state->second.predicted = {};
  }
  return state->second;
}

void PathLearner::Queue(const PortKey& key, KeyState& state) {
  if (state.queued || state.ordered) return;
  SourceOf(key.source).queue.push_back(key);
  waiting_.insert(key.source);
  state.queued = true;
}

std::optional<std::uint16_t> PathLearner::RequestPort(const PortKey& key, PathIndex path) {
  // First, or every request would try ports in vain.
  if (IsUnreachable(map_, key, PathsOf(key), path)) return std::nullopt;
  KeyState& state = StateOf(key);
  if (const auto port = PredictPort(key, path, state)) return port;
  if (!CanProbe(key) || IsUnreachable(map_, key, PathsOf(key), path)) return std::nullopt;
  state.wanted = true;
  Queue(key, state);
  return std::nullopt;
}

std::optional<std::uint16_t> PathLearner::PredictPort(const PortKey& key, PathIndex path,
                                                      KeyState& state) {
  const auto model = models_.ModelOf(key);
  if (!model) return std::nullopt;
  PredictedPorts& ports = state.predicted;
  const std::size_t path_count = PathsOf(key).size();
  ports.StartOver(model->version(), path_count);
  const std::size_t enough = EnoughPortsToReach(path_count);
  while (true) {
    while (const auto port = ports.Take(path)) {
      if (map_.Find(key, *port) || state.unverified.IsQuarantined(*port)) continue;
      map_.Predict(key, *port, path);
      return port;
    }
    const std::uint32_t n = ports.next();
    if (n == fabric::kRocePortCount || (n >= enough && !ports.HasPort(path))) break;
    const std::uint16_t port = NthPort(key, n);
    ports.Note(port, model->Predict(port));
    predictions_metric_.Add();
  }
  if (!ports.knows_all()) return std::nullopt;
  auto without = ports.PathsWithoutPorts();
  if (!without.empty()) map_.PredictNone(key, std::move(without));
  return std::nullopt;
}

void PathLearner::QueueToVerify(KeyState& state, std::uint16_t port) {
  if (state.verifying.Insert(port)) state.verify.push_back(port);
}

void PathLearner::Verify(const PortKey& key, std::uint16_t port) {
  if (!CanProbe(key)) return;
  KeyState& state = StateOf(key);
  state.asked.insert(port);
  const auto known = map_.Find(key, port);
  if (known && known->origin == fabric::PortOrigin::kPredicted) {
    state.unverified.Add(port, known->path);
  } else {
    state.unverified.Renew(port);
  }
  QueueToVerify(state, port);
  Queue(key, state);
}

bool PathLearner::IsQuarantined(const PortKey& key, std::uint16_t port) const {
  const auto state = keys_.find(key);
  return state != keys_.end() && state->second.fabric == fabric_ &&
         state->second.unverified.IsQuarantined(port);
}

bool PathLearner::VerifyOnce(const PortKey& key, std::uint16_t port) {
  const KeyState& state = StateOf(key);
  if (state.asked.contains(port)) return state.ordered || state.queued;
  Verify(key, port);
  return true;
}

std::vector<std::uint16_t> PathLearner::NextPorts(const PortKey& key, KeyState& state,
                                                  std::size_t limit) {
  std::vector<std::uint16_t> ports;
  while (!state.verify.empty() && ports.size() < limit) {
    ports.push_back(state.verify.front());
    state.verifying.Erase(state.verify.front());
    state.verify.pop_front();
  }
  AddControlProbes(key, state, ports);
  if (!state.wanted) return ports;
  state.wanted = false;
  const std::size_t enough = ports.size() + 3 * PathsOf(key).size() + 4;
  const std::size_t wanted = models_.WantsSamples(key) ? limit : std::min(limit, enough);
  AddSilentPorts(key, state, ports, (wanted - std::min(wanted, ports.size())) / 2);
  const auto silent = map_.SilentPorts(key);
  for (const PortEntry& entry : map_.Ports(key)) {
    if (ports.size() >= wanted) break;
    const bool is_silent = std::ranges::binary_search(silent, entry.port);
    if (entry.trust == PortTrust::kReverify && !is_silent) ports.push_back(entry.port);
  }
  // Unknown ports in sequence.
  const std::size_t unknown =
      fabric::kRocePortCount - std::min(map_.Ports(key).size(), fabric::kRocePortCount);
  const std::size_t most = ports.size() + unknown;
  for (std::size_t tried = 0;
       ports.size() < std::min(wanted, most) && tried < fabric::kRocePortCount; ++tried) {
    const std::uint16_t port = NthPort(key, state.cursor++);
    if (!map_.Find(key, port)) ports.push_back(port);
  }
  std::sort(ports.begin(), ports.end());
  ports.erase(std::unique(ports.begin(), ports.end()), ports.end());
  return ports;
}

void PathLearner::AddSilentPorts(const PortKey& key, KeyState& state,
                                 std::vector<std::uint16_t>& ports, std::size_t limit) {
  const auto silent = map_.SilentPorts(key);
  const auto next = std::ranges::upper_bound(silent, state.retried) - silent.begin();
  for (std::size_t i = 0; i < std::min(limit, silent.size()); ++i) {
    state.retried = silent[(static_cast<std::size_t>(next) + i) % silent.size()];
    ports.push_back(state.retried);
  }
}

void PathLearner::AddControlProbes(const PortKey& key, KeyState& state,
                                   std::vector<std::uint16_t>& ports) {
  const auto unverified = std::ranges::find_if(
      ports, [&](std::uint16_t port) { return state.unverified.NeedsControlProbes(port); });
  if (unverified == ports.end()) return;
  const PathIndex path = *state.unverified.PathOf(*unverified);
  const std::size_t enough =
      std::min<std::size_t>(ports.size() + kMaxControlProbes, options_.max_ports_per_order);
  const auto add_known = [&](bool verified) {
    for (const PortEntry& entry : map_.Ports(key)) {
      if (ports.size() >= enough) return;
      const bool fits = entry.path == path && (entry.trust == PortTrust::kVerified) == verified;
      if (fits && std::ranges::find(ports, entry.port) == ports.end()) ports.push_back(entry.port);
    }
  };
  const std::size_t before = ports.size();
  add_known(/*verified=*/true);
  for (std::size_t i = ports.size(); i < enough && ports.size() == before; ++i) {
    if (!PredictPort(key, path, state)) break;
  }
  add_known(/*verified=*/false);
  // If no model predicts others any more, probe arbitrary ports.
  while (ports.size() < enough) {
    const std::uint16_t port = NthPort(key, state.cursor++);
    if (std::ranges::find(ports, port) == ports.end()) ports.push_back(port);
  }
}

PathLearner::Order PathLearner::MakeOrder(const PortKey& key, KeyState& state, SourceState& source,
                                          TimePoint now) {
  // At most about half a second of probing per order, so that a low rate takes effect early.
  const std::vector<std::uint8_t> ttls = FewestTtls(topology_, PathsOf(key));
  const std::size_t affordable = source.pace / 2 / std::max<std::size_t>(ttls.size(), 1);
  const std::size_t limit = std::clamp<std::size_t>(affordable, 2, options_.max_ports_per_order);

  Order order{key.source, {}};
  wire::ProbeOrder& wire_order = order.order;
  wire_order.source_ports = NextPorts(key, state, limit);
  if (ttls.empty() || wire_order.source_ports.empty()) return order;
  wire_order.order = numbers_.Next();
  wire_order.source = topology_.node(key.source).addresses.front();
  wire_order.destination = topology_.node(key.destination).addresses.front();
  wire_order.destination_port = key.destination_port;
  wire_order.destination_qpn = key.destination_qpn;
  wire_order.flow_protocol = key.protocol;
  wire_order.ttls = ttls;
  wire_order.probes_per_second = source.pace;
  wire_order.timeout_us = static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(options_.answer_timeout).count());

  const std::size_t probes = wire_order.source_ports.size() * ttls.size();
  const Duration pacing =
      std::chrono::nanoseconds(1'000'000'000LL * static_cast<std::int64_t>(probes) / source.pace);
  orders_[wire_order.order] = {
      .key = key,
      .ports = {wire_order.source_ports.begin(), wire_order.source_ports.end()},
      .expected = {},
      .ttls = ttls,
      .answers = {},
      .resolved = 0,
      .deadline = now + pacing * static_cast<int>(source.open_orders + 1) +
                  options_.answer_timeout + options_.order_grace};
  for (const std::uint16_t port : wire_order.source_ports) {
    const auto known = map_.Find(key, port);
    if (known) orders_[wire_order.order].expected.emplace(port, known->path);
  }
  state.ordered = true;
  ++source.open_orders;
  probes_metric_.Add(static_cast<std::int64_t>(probes));
  return order;
}

std::vector<PathLearner::Order> PathLearner::TakeOrders(
    TimePoint now, const std::function<bool(fabric::NodeId)>& can_probe) {
  std::vector<Order> orders;
  for (auto waiting = waiting_.begin(); waiting != waiting_.end();) {
    const auto here = waiting++;
    SourceState& source = sources_.at(*here);
    if (!can_probe(*here)) continue;
    while (!source.queue.empty() && source.open_orders < options_.max_orders_per_source) {
      const PortKey key = source.queue.front();
      source.queue.pop_front();
      KeyState& state = StateOf(key);
      state.queued = false;
      Order order = MakeOrder(key, state, source, now);
      if (order.order.order != 0) orders.push_back(std::move(order));
    }
    if (source.queue.empty()) waiting_.erase(here);
  }
  return orders;
}

void PathLearner::TakeAnswer(OpenOrder& order, const wire::ProbeAnswer& answer,
                             Findings& findings) {
  const bool asked =
      order.ports.contains(answer.source_port) &&
      std::find(order.ttls.begin(), order.ttls.end(), answer.ttl) != order.ttls.end();
  if (!asked) {
    unexpected_metric_.Add();
    return;
  }
  auto& answers = order.answers[answer.source_port];
  answers.push_back(answer);
  const auto path = PathOfAnswers(topology_, PathsOf(order.key), answers);
  if (!path) {
    const bool names_none =
        answers.size() >= order.ttls.size() || !topology_.FindInterface(answer.responder);
    if (names_none) unexpected_metric_.Add();
    return;
  }
  answers_metric_.Add();
  ++order.resolved;
  StateOf(order.key).unverified.HandleAnswer(answer.source_port);
  findings.answered.push_back({order.key, answer.source_port});
  models_.LearnReturn(order.key, answer.source_port, *path);
  const auto known = map_.Find(order.key, answer.source_port);
  if (!map_.Observe(order.key, answer.source_port, *path)) {
    ESPALIER_CHECK(known.has_value(), "mismatch for an unknown port");
    mismatch_metric_.Add();
    const bool was_verified = known->trust == PortTrust::kVerified;
    findings.mismatches.push_back(
        {order.key, answer.source_port, known->path, *path, was_verified});
    if (!was_verified) {
      map_.DropPredictions(order.key);
      models_.Distrust(order.key);
    }
  }
  findings.changed.insert(order.key);
}

PathLearner::Findings PathLearner::HandleReport(const wire::ProbeReport& report,
                                                const std::function<bool(fabric::NodeId)>& is_own) {
  Findings findings;
  const auto order = orders_.find(report.order);
  if (order == orders_.end() || !is_own(order->second.key.source)) {
    unexpected_metric_.Add(static_cast<std::int64_t>(report.answers.size()));
    return findings;
  }
  for (const wire::ProbeAnswer& answer : report.answers) {
    TakeAnswer(order->second, answer, findings);
  }
  if (report.done) Finish(order, findings);
  return findings;
}

// Whether another port of this path was answered, or any port if no model predicts the path any
// more.
bool PathLearner::AreOtherPortsAnswered(const OpenOrder& order, std::uint16_t port,
                                        PathIndex path) const {
  const bool has_model = map_.Find(order.key, port).has_value();
  return std::ranges::any_of(order.answers, [&](const auto& answered) {
    const auto seen = map_.Find(order.key, answered.first);
    if (!seen || seen->trust != PortTrust::kVerified) return false;
    const auto expected = order.expected.find(answered.first);
    return !has_model || seen->path == path ||
           (expected != order.expected.end() && expected->second == path);
  });
}

void PathLearner::HandleSilentPorts(const OpenOrder& order, KeyState& state, bool may_ask_again,
                                    Findings& findings) {
  for (const std::uint16_t port : order.ports) {
    const auto path = state.unverified.PathOf(port);
    if (!path || order.answers.contains(port)) continue;
    switch (state.unverified.HandleSilence(port, AreOtherPortsAnswered(order, port, *path))) {
      case UnverifiedPorts::Verdict::kUnknown:
        break;
      case UnverifiedPorts::Verdict::kAskAgain:
        if (may_ask_again) QueueToVerify(state, port);
        break;
      case UnverifiedPorts::Verdict::kQuarantined:
        map_.DropPrediction(order.key, port);
        quarantined_metric_.Add();
        findings.quarantined.push_back({order.key, port});
        break;
    }
  }
}

void PathLearner::Finish(std::map<std::uint64_t, OpenOrder>::iterator order, Findings& findings) {
  const OpenOrder& open = order->second;
  SourceState& source = sources_.at(open.key.source);
  --source.open_orders;
  const std::size_t half = open.ports.size() / 2;
  if (open.resolved <= half) {
    source.pace = std::max(options_.min_probes_per_second, source.pace / 2);
  } else {
    source.pace = std::min(options_.max_probes_per_second, source.pace * 2);
  }
  source.silent_orders = open.answers.empty() ? source.silent_orders + 1 : 0;
  for (const std::uint16_t port : open.ports) map_.NoteSilence(open.key, port);
  models_.Learn(open.key);
  if (auto found = ConcludeUnreachable(map_, open.key, PathsOf(open.key).size()); !found.empty()) {
    map_.PredictNone(open.key, std::move(found));
  }
  KeyState& state = StateOf(open.key);
  state.ordered = false;
  HandleSilentPorts(open, state, source.silent_orders < kMaxSilentOrders, findings);
  if (state.wanted || !state.verify.empty()) Queue(open.key, state);
  findings.changed.insert(open.key);
  orders_.erase(order);
}

PathLearner::Findings PathLearner::ExpireOrders(TimePoint now) {
  Findings findings;
  for (auto order = orders_.begin(); order != orders_.end();) {
    const auto next = std::next(order);
    if (order->second.deadline <= now) Finish(order, findings);
    order = next;
  }
  return findings;
}

void PathLearner::ForgetUnused(const std::function<bool(const PortKey&)>& is_used) {
  for (auto& [node, source] : sources_) {
    // Not for every new key, as this scans all of them.
    if (source.keys.size() <= source.used_keys + 2 * options_.max_keys_per_source) continue;
    const auto may_go = [&](const PortKey& key) {
      const KeyState& state = keys_.at(key);
      return !state.queued && !state.ordered && !is_used(key);
    };
    auto unused = std::count_if(source.keys.begin(), source.keys.end(), may_go);
    const auto most = static_cast<std::ptrdiff_t>(options_.max_keys_per_source);
    std::erase_if(source.keys, [&](const PortKey& key) {
      if (unused <= most || !may_go(key)) return false;
      --unused;
      keys_.erase(key);
      map_.Forget(key);
      models_.Forget(key);
      return true;
    });
    source.used_keys = source.keys.size() - static_cast<std::size_t>(unused);
  }
}

void PathLearner::HandleLinkChange(std::span<const fabric::LinkId> links) {
  // Evaluated for each key when it is looked up, as there may be very many keys.
  std::vector<bool> has_changed(topology_.links().size());
  for (const fabric::LinkId link : links) has_changed[link.Index()] = true;
  std::unordered_map<std::uint64_t, bool> known;  // by pair of leaves, which many keys share
  auto affected = [&table = paths_, has_changed = std::move(has_changed),
                   known = std::move(known)](const PortKey& key) mutable {
    const auto from = table.FindAttachment(key.source);
    const auto to = table.FindAttachment(key.destination);
    if (!from || !to) return false;
    const auto pair = static_cast<std::uint64_t>(from->leaf.Index()) << 32U | to->leaf.Index();
    const auto [has_one, is_new] = known.try_emplace(pair);
    if (is_new) {
      const auto paths = table.Between(from->leaf, to->leaf);
      has_one->second = std::any_of(paths.begin(), paths.end(), [&](const Path& path) {
        return std::any_of(path.hops.begin(), path.hops.end(),
                           [&](DirectedLink hop) { return has_changed[hop.link.Index()]; });
      });
    }
    return has_one->second;
  };
  map_.MarkReverify(std::move(affected));
  ++fabric_;
  models_.HandleFabricChange();
}

void PathLearner::LearnAgain(const RehashScope& scope) {
  map_.MarkReverify([&table = paths_, &topology = topology_, scope](const PortKey& key) {
    const auto from = table.FindAttachment(key.source);
    const auto to = table.FindAttachment(key.destination);
    if (!from || !to) return false;
    if (scope.host_pairs.empty()) return scope.Contains(from->leaf, to->leaf);
    return scope.ContainsHost(from->leaf, to->leaf, fabric::HostOf(topology.node(key.source)));
  });
  models_.HandleRehash(scope);
}

}  // namespace espalier::controller
