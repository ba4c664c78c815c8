#include "controller/links/link_health.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include "common/base/log.h"
#include "controller/links/link_tiers.h"

namespace espalier::controller {
namespace {

// A host measures the rate that it reports over the time before the report.
constexpr Duration kDeliveryLag = std::chrono::milliseconds(50);

}  // namespace

LinkHealth::LinkHealth(State& state, const LinkMonitorOptions& options, WallClock clock,
                       EventLoop& loop, Store& store, Callbacks callbacks, Metrics& metrics)
    : state_(state),
      most_links_(options.max_links),
      clock_(std::move(clock)),
      loop_(loop),
      store_(store),
      callbacks_(std::move(callbacks)),
      monitor_(options, TiersOf(state.topology)),
      failure_probes_(state, callbacks_.find_prober),
      recovery_probes_(state, callbacks_.find_prober),
      quality_(state, loop,
               {.on_change = [this] { callbacks_.on_change(); }, .verify = callbacks_.verify},
               metrics),
      links_detected_down_(metrics.MakeCounter(
          "espalier_controller_links_detected_down_total",
          "Links taken out of use because hosts or a telemetry feed found them down")),
      budget_exceeded_(metrics.MakeCounter(
          "espalier_controller_detection_budget_exceeded_total",
          "Times that hosts or feeds reported more dead links than the detection budget allows")),
      links_waiting_(metrics.MakeGauge(
          "espalier_controller_links_awaiting_operator",
          "Links reported as dead that stay in use until an operator fails them, because the "
          "detection budget is spent")) {}

void LinkHealth::Restore(const ReportedLinks& reported) {
  for (const auto& [id, report] : reported) {
    const auto link = state_.topology.FindLink(id);
    if (!link) {  // the topology has changed since the report
      feed_changed_ = true;
      continue;
    }
    feed_down_.emplace(id, report);
    monitor_.RestoreDown(*link, loop_.Now());
    detected_down_.insert(*link);
    state_.history.Record(loop_.Now(), "link_remembered_down",
                          fmt::format("link={} source=\"{}\"", id, report.source));
  }
}

void LinkHealth::HandleFeedReport(fabric::LinkId link, bool up, const std::string& source) {
  state_.history.RecordOf(
      "feeds", loop_.Now(), up ? "link_reported_up" : "link_reported_down",
      fmt::format("link={} source=\"{}\"", state_.topology.link(link).id, source));
  monitor_.HandleFeedState(link, up, loop_.Now());
  if (up) {
    ForgetFeedReport(link);
  } else {
    const ReportedLink report{source, clock_()};
    feed_changed_ |= feed_down_.try_emplace(state_.topology.link(link).id, report).second;
  }
  StoreFeedReports();
  Update();
}

void LinkHealth::ForgetFeedReport(fabric::LinkId link) {
  feed_changed_ |= feed_down_.erase(state_.topology.link(link).id) > 0;
}

void LinkHealth::StoreFeedReports() {
  if (!feed_changed_ || storing_feed_) return;
  feed_changed_ = false;
  storing_feed_ = true;
  StoreChange change;
  change.reported_down = feed_down_;
  for (const fabric::LinkId link : awaiting_operator_) {
    change.reported_down->erase(state_.topology.link(link).id);
  }
  store_.Commit(std::move(change), [this](const Result<Committed>& committed) {
    storing_feed_ = false;
    if (committed) return StoreFeedReports();
    feed_changed_ = true;  // the next tick tries again
    Log(LogLevel::kWarning, "event=link_reports_not_stored error=\"{}\"",
        committed.error().message);
  });
}

bool LinkHealth::HandleNicEvent(AgentId id, const wire::LinkEvent& event) {
  const auto nic = state_.topology.FindNic(event.address);
  const auto attachment =
      nic && callbacks_.find_prober(*nic) == id ? state_.paths.FindAttachment(*nic) : std::nullopt;
  if (!attachment) return false;
  const fabric::LinkId link = attachment->uplink.link;
  const bool changed = event.up ? nics_down_.erase(link) > 0 : nics_down_.insert(link).second;
  if (!changed) return true;
  state_.history.RecordOf(
      state_.agents.At(id).name, loop_.Now(), event.up ? "nic_up" : "nic_down",
      fmt::format("agent={} link={}", state_.agents.At(id).name, state_.topology.link(link).id));
  callbacks_.on_change();
  return true;
}

void LinkHealth::HandlePathFailure(AgentId id, const Flow& flow, std::uint32_t path) {
  if (flow.subflows.empty()) return;
  const auto paths = state_.PathsOf(flow);
  if (path >= paths.size()) return;
  monitor_.ReportPathFailure(id, paths[path].hops, loop_.Now());
  ProbePath(id, paths[path]);
}

void LinkHealth::HandleLostAnswers(AgentId id, const Flow& flow, std::uint32_t path) {
  const auto left = std::ranges::find_if(flow.subflows, [&](const Subflow& subflow) {
    return subflow.port != 0 && static_cast<std::uint32_t>(subflow.port_path.value()) == path;
  });
  if (left == flow.subflows.end()) return;
  if (const fabric::Path* const back = ReturnPath(flow, left->port)) ProbePath(id, *back);
}

const fabric::Path* LinkHealth::ReturnPath(const Flow& flow, std::uint16_t port) const {
  std::optional<fabric::PathIndex> path;
  if (flow.protocol == wire::kProtocolTcp) {
    path = callbacks_.predict_return({flow.key, port});
  } else if (flow.opposite) {
    const auto& subflows = state_.flows.At(*flow.opposite).subflows;
    // Of several queue pairs it is not known which one answers.
    if (subflows.size() == 1 && subflows.front().port != 0) path = subflows.front().port_path;
  }
  const auto from = state_.paths.FindAttachment(flow.key.destination);
  const auto to = state_.paths.FindAttachment(flow.key.source);
  if (!path || !from || !to) return nullptr;
  const auto paths = state_.paths.Between(from->leaf, to->leaf);
  return path->Index() < paths.size() ? &paths[path->Index()] : nullptr;
}

void LinkHealth::ProbePath(AgentId id, const fabric::Path& path) {
  std::vector<fabric::LinkId> links;
  for (const fabric::DirectedLink hop : path.hops) links.push_back(hop.link);
  Send(failure_probes_.Ask(id, links, loop_.Now()));
}

void LinkHealth::Send(std::vector<LinkFailureProbes::AddressedProbe> probes) {
  for (LinkFailureProbes::AddressedProbe& probe : probes) {
    callbacks_.send(probe.agent, std::move(probe.order));
  }
}

void LinkHealth::HandleFailureProbe(AgentId id, const wire::ProbeReport& report) {
  const auto verdict = failure_probes_.TakeAnswer(id, report);
  if (!verdict) return;
  if (verdict->dead) {
    monitor_.ReportPathFailure(id, verdict->links, loop_.Now());
    // What the path shares with paths that work is not to blame.
    monitor_.ReportDelivery(verdict->passed, loop_.Now());
  } else {
    monitor_.ReportDelivery(verdict->links, loop_.Now());
  }
  Update();
}

void LinkHealth::HandleRecoveryProbe(AgentId id, const wire::ProbeReport& report) {
  const auto link = recovery_probes_.TakeAnswer(id, report);
  if (!link) return;
  state_.history.RecordOf(
      state_.agents.At(id).name, loop_.Now(), "link_carries_packets",
      fmt::format("link={} seen_by={}", state_.topology.link(*link).id, state_.agents.At(id).name));
  monitor_.ConfirmAlive(*link, loop_.Now());
  ForgetFeedReport(*link);
  StoreFeedReports();
  Update();
}

void LinkHealth::HandleDeliveries(AgentId id, const wire::FlowReport& report) {
  if (!monitor_.HasPathFailures()) return;
  for (const wire::FlowProgress& progress : report.progress) {
    if (progress.achieved_bps == 0 || progress.state != wire::FlowState::kActive) continue;
    const auto slot = state_.flows.Find(id, progress.id);
    if (!slot) continue;
    const Flow& flow = state_.flows.At(*slot);
    // A split flow does not show which of its paths made the progress.
    if (flow.status != FlowStatus::kRouted || flow.subflows.size() != 1) continue;
    // The leaf may have stopped using its own dead link unnoticed, so only the further links count.
    const auto path = flow.subflows.front().port_path;
    const std::span<const fabric::DirectedLink> hops = state_.PathsOf(flow)[path.Index()].hops;
    monitor_.ReportDelivery(hops.subspan(1), loop_.Now() - kDeliveryLag);
  }
}

bool LinkHealth::IsFailedByOperator(fabric::LinkId id) const {
  const fabric::Link& link = state_.topology.link(id);
  const Intents& intents = state_.intents;
  const auto is_failed = [&](fabric::NodeId end) {
    return intents.failed_nodes.contains(state_.topology.node(end).id);
  };
  return intents.failed_links.contains(link.id) || is_failed(link.a) || is_failed(link.b);
}

void LinkHealth::RecordAwaitingOperator(const std::set<fabric::LinkId>& before) {
  const std::set<fabric::LinkId>& waiting = monitor_.AwaitingOperator();
  links_waiting_.Set(static_cast<double>(waiting.size()));
  if (waiting == before) return;
  awaiting_operator_ = waiting;
  feed_changed_ = true;  // links that await the operator are not stored as down
  if (!before.empty() && !waiting.empty()) return;
  if (waiting.empty()) {
    return state_.history.RecordOf("detection", loop_.Now(), "detection_budget_free", "");
  }
  budget_exceeded_.Add();
  constexpr std::size_t kMaxNamed = 16;
  std::string named;
  std::size_t count = 0;
  for (const fabric::LinkId link : waiting) {
    if (++count > kMaxNamed) break;
    named += (named.empty() ? "" : ",") + state_.topology.link(link).id;
  }
  state_.history.RecordOf(
      "detection", loop_.Now(), "detection_budget_exceeded",
      fmt::format("links={} waiting={} limit={} remedy=\"these links stay in use; if they are "
                  "down, take them out of use with espalier fail link or espalier fail node\"",
                  named, waiting.size(), most_links_));
}

void LinkHealth::Update() {
  const std::set<fabric::LinkId> waiting = monitor_.AwaitingOperator();
  const auto changes = monitor_.Update(
      loop_.Now(),
      {.is_failed = [this](fabric::LinkId link) { return IsFailedByOperator(link); },
       .can_be_probed = [this](fabric::LinkId link) { return recovery_probes_.CanProbe(link); }});
  RecordAwaitingOperator(waiting);
  if (changes.empty()) return;
  for (const LinkMonitor::Change& change : changes) {
    if (change.down) {
      detected_down_.insert(change.link);
      links_detected_down_.Add();
    } else {
      detected_down_.erase(change.link);
    }
    state_.history.RecordOf(
        "detection", loop_.Now(), change.down ? "link_detected_down" : "link_detected_up",
        fmt::format("link={} why={}", state_.topology.link(change.link).id, change.why));
  }
  callbacks_.on_change();
}

void LinkHealth::Tick() {
  Send(failure_probes_.RetryProbes(loop_.Now()));
  StoreFeedReports();
  Update();
  Send(recovery_probes_.Ask(monitor_.UnconfirmedDown(), loop_.Now()));
}

}  // namespace espalier::controller
