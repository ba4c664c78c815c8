#include "controller/links/link_health.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "common/base/log.h"
#include "common/base/time/wall_time.h"
#include "controller/links/link_tiers.h"

namespace espalier::controller {

LinkHealth::LinkHealth(State& state, const Options& options, WallClock clock, EventLoop& loop,
                       Store& store, PathLearner& learner, Callbacks callbacks, Metrics& metrics)
    : state_(state),
      most_links_(options.monitor.max_links),
      clock_(std::move(clock)),
      loop_(loop),
      store_(store),
      callbacks_(std::move(callbacks)),
      monitor_(options.monitor, TiersOf(state.topology)),
      tester_(state, loop, learner, options.tests, options.hashes_protocol,
              {.find_prober = callbacks_.find_prober,
               .send = callbacks_.send,
               .request_turn = callbacks_.request_turn,
               .on_fault = [this](const LinkFault& fault) { HandleFault(fault); }},
              metrics),
      links_detected_down_(metrics.MakeCounter(
          "espalier_controller_links_detected_down_total",
          "Links taken out of use because tests or a telemetry feed found them dead")),
      links_found_lossy_(metrics.MakeCounter(
          "espalier_controller_links_found_lossy_total",
          "Links that flows were moved off because tests found that they lose packets")),
      budget_exceeded_(metrics.MakeCounter("espalier_controller_detection_budget_exceeded_total",
                                           "Times that tests or feeds found more dead or lossy "
                                           "links than a detection budget allows")),
      links_waiting_(metrics.MakeGauge("espalier_controller_links_awaiting_operator",
                                       "Links found dead or lossy that stay in use until an "
                                       "operator fails or drains them, because "
                                       "a detection budget is spent")) {}

void LinkHealth::Restore(const ReportedLinks& reported) {
  for (const auto& [id, report] : reported) {
    const auto link = state_.topology.FindLink(id);
    if (!link) {  // the topology has changed since the report
      feed_changed_ = true;
      continue;
    }
    feed_down_.emplace(id, report);
    monitor_.RestoreDown(*link, loop_.Now());
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
  // Of a NIC with several uplinks the report does not name the one that is down.
  if (!attachment || !attachment->uplink) return false;
  const fabric::LinkId link = attachment->uplink->link;
  const bool changed = event.up ? nics_down_.erase(link) > 0 : nics_down_.insert(link).second;
  if (!changed) return true;
  state_.history.RecordOf(
      state_.agents.At(id).name, loop_.Now(), event.up ? "nic_up" : "nic_down",
      fmt::format("agent={} link={}", state_.agents.At(id).name, state_.topology.link(link).id));
  callbacks_.on_change();
  return true;
}

std::string LinkHealth::WhyDown(fabric::LinkId link) const {
  const fabric::Link& of = state_.topology.link(link);
  const auto reported = feed_down_.find(of.id);
  if (reported != feed_down_.end()) {
    return fmt::format("the feed {} reports it down since {}", reported->second.source,
                       FormatWallTime(reported->second.since));
  }
  if (nics_down_.contains(link)) {
    const bool is_a = state_.topology.IsFlowEndpoint(of.a);
    return fmt::format("the agent of {} reports that its NIC has no link",
                       fabric::HostOf(state_.topology.node(is_a ? of.a : of.b)));
  }
  const auto found = found_.find(link);
  if (found == found_.end()) return "";
  const std::string words = DescribeFault(state_.topology, found->second);
  if (found->second.suspected_by.empty()) return words;
  return fmt::format("{}; suspected by {}", words, fmt::join(found->second.suspected_by, ", "));
}

void LinkHealth::HandlePathFailure(AgentId id, const Flow& flow, std::uint32_t path) {
  const auto paths = state_.PathsOf(flow);
  if (flow.subflows.empty() || path >= paths.size()) return;
  tester_.HandleDeadPath(id, paths[path].hops);
}

void LinkHealth::HandleRepeats(AgentId id, const Flow& flow, std::uint32_t path) {
  const auto paths = state_.PathsOf(flow);
  if (flow.subflows.empty() || path >= paths.size()) return;
  tester_.HandleRepeats(id, paths[path].hops);
}

void LinkHealth::HandleLostAnswers(AgentId id, const Flow& flow, std::uint32_t path) {
  const auto left = std::ranges::find_if(flow.subflows, [&](const Subflow& subflow) {
    return subflow.port != 0 && static_cast<std::uint32_t>(subflow.port_path.value()) == path;
  });
  if (left == flow.subflows.end()) return;
  if (const fabric::Path* const back = ReturnPath(flow, left->port))
    tester_.HandleDeadPath(id, back->hops);
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

bool LinkHealth::IsDownOtherwise(fabric::LinkId link) const {
  return state_.topology.link(link).state == fabric::LinkState::kDown && !IsDown(link);
}

void LinkHealth::HandleFault(const LinkFault& fault) {
  // Its return then waits for nothing but the operator.
  if (IsDownOtherwise(fault.direction.link)) return;
  found_.insert_or_assign(fault.direction.link, fault);
  monitor_.HandleFault(fault.direction.link, fault.kind, loop_.Now());
  Update();
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
      fmt::format(
          "links={} waiting={} limit={} remedy=\"these links stay in use; if they are "
          "dead or lossy, take them out of use with espalier fail link, espalier drain link "
          "or espalier fail node\"",
          named, waiting.size(), most_links_));
}

void LinkHealth::Update() {
  const std::set<fabric::LinkId> waiting = awaiting_operator_;
  const auto changes = monitor_.Update(
      loop_.Now(),
      {.is_failed = [this](fabric::LinkId link) { return IsFailedByOperator(link); },
       .can_be_tested = [this](fabric::LinkId link) { return tester_.CanTest(link); }});
  RecordAwaitingOperator(waiting);
  if (changes.empty()) return;
  for (const LinkMonitor::Change& change : changes) RecordChange(change);
  AskTests();
  callbacks_.on_change();
}

void LinkHealth::RecordChange(const LinkMonitor::Change& change) {
  const std::string& id = state_.topology.link(change.link).id;
  const auto before = state_.link_faults.find(change.link);
  const bool was_lossy =
      before != state_.link_faults.end() && before->second.kind == LinkFault::Kind::kLossy;
  if (before != state_.link_faults.end()) state_.link_faults.erase(before);
  std::string text;
  if (change.why == "tests" && change.use != LinkMonitor::Use::kInUse) {
    const LinkFault& fault = found_.at(change.link);
    state_.link_faults.emplace(change.link, fault);
    text = fmt::format(" test=\"{}\"", DescribeFault(state_.topology, fault));
  }
  const char* kind = "link_detected_up";
  if (change.use == LinkMonitor::Use::kLossy) {
    kind = "link_lossy";
    links_found_lossy_.Add();
  } else if (change.use == LinkMonitor::Use::kDown) {
    kind = "link_detected_down";
    links_detected_down_.Add();
  } else if (was_lossy) {
    kind = "link_recovered";
  }
  state_.history.RecordOf("detection", loop_.Now(), kind,
                          fmt::format("link={} why={}{}", id, change.why, text));
}

void LinkHealth::AskTests() {
  asked_version_ = state_.topology.version();
  TrainPlanner::Links links;
  for (const LinkMonitor::Question& question : monitor_.Questions()) {
    links.emplace(question.link, true);
  }
  for (std::size_t i = 0; i < state_.topology.links().size(); ++i) {
    const fabric::LinkId link(static_cast<std::int32_t>(i));
    if (IsDownOtherwise(link)) links.emplace(link, false);
  }
  tester_.SetOutOfUse(std::move(links));
}

void LinkHealth::Tick() {
  StoreFeedReports();
  if (state_.topology.version() != asked_version_) AskTests();
  tester_.Tick();
  for (const LinkMonitor::Question& question : monitor_.Questions()) {
    if (!tester_.IsHealthy(question.link, question.kind, question.since)) continue;
    monitor_.ConfirmAlive(question.link, loop_.Now());
    ForgetFeedReport(question.link);
  }
  Update();
}

}  // namespace espalier::controller
