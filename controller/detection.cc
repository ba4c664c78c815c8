// What the controller makes of hosts' and feeds' word on links that it has no intent for.
#include <fmt/format.h>

#include "common/base/log.h"
#include "controller/controller.h"

namespace espalier::controller {
namespace {

// A rate that a host reports was measured over the time before.
constexpr Duration kWitnessLag = std::chrono::milliseconds(50);

std::vector<fabric::LinkId> LinksOf(const fabric::Path& path) {
  std::vector<fabric::LinkId> links;
  for (const fabric::DirectedLink hop : path.hops) links.push_back(hop.link);
  return links;
}

}  // namespace

void Controller::HandleLinkReport(fabric::LinkId link, bool up, const std::string& source) {
  state_.history.RecordOf(
      "feeds", loop_.Now(), up ? "link_reported_up" : "link_reported_down",
      fmt::format("link={} source=\"{}\"", state_.topology.link(link).id, source));
  link_monitor_.TakeReport(link, up, loop_.Now());
  if (up) {
    ForgetReport(link);
  } else {
    const ReportedLink report{source, WallNow()};
    reports_changed_ |= state_.feed_down.try_emplace(state_.topology.link(link).id, report).second;
  }
  StoreReports();
  UpdateLinkMonitor();
}

void Controller::ForgetReport(fabric::LinkId link) {
  reports_changed_ |= state_.feed_down.erase(state_.topology.link(link).id) > 0;
}

void Controller::RememberReports(const ReportedLinks& reported) {
  for (const auto& [id, report] : reported) {
    const auto link = state_.topology.FindLink(id);
    if (!link) {  // the topology is another than it was
      reports_changed_ = true;
      continue;
    }
    state_.feed_down.emplace(id, report);
    link_monitor_.Remember(*link, loop_.Now());
    state_.detected_down.insert(*link);
    state_.history.Record(loop_.Now(), "link_remembered_down",
                          fmt::format("link={} source=\"{}\"", id, report.source));
  }
}

void Controller::StoreReports() {
  if (!reports_changed_ || storing_reports_) return;
  reports_changed_ = false;
  storing_reports_ = true;
  StoreChange change;
  change.reported_down = state_.feed_down;
  for (const fabric::LinkId link : state_.awaiting_operator) {
    change.reported_down->erase(state_.topology.link(link).id);
  }
  store_.Commit(std::move(change), [this](const Result<Committed>& committed) {
    storing_reports_ = false;
    if (committed) return StoreReports();
    reports_changed_ = true;  // the next tick tries again
    Log(LogLevel::kWarning, "event=link_reports_not_stored error=\"{}\"",
        committed.error().message);
  });
}

void Controller::TakeRevival(AgentId id, const wire::ProbeReport& report) {
  const auto link = revival_probes_.TakeAnswer(id, report);
  if (!link) return;
  state_.history.RecordOf(
      state_.agents.At(id).name, loop_.Now(), "link_carries_packets",
      fmt::format("link={} seen_by={}", state_.topology.link(*link).id, state_.agents.At(id).name));
  link_monitor_.TakeProof(*link, loop_.Now());
  ForgetReport(*link);
  StoreReports();
}

void Controller::TakeAccusation(AgentId id, const Flow& flow, std::uint32_t path) {
  if (flow.ways.empty()) return;
  const auto paths = state_.PathsOf(flow);
  if (path >= paths.size()) return;
  const std::vector<fabric::LinkId> links = LinksOf(paths[path]);
  link_monitor_.TakeAccusation(id.value(), links, loop_.Now());
  SendQuestions(suspect_probes_.Ask(id, links, loop_.Now()));
}

void Controller::SendQuestions(std::vector<SuspectProbes::Question> questions) {
  for (SuspectProbes::Question& question : questions) {
    Send(question.agent, std::move(question.order));
  }
}

void Controller::TakeSuspectAnswer(AgentId id, const wire::ProbeReport& report) {
  const auto verdict = suspect_probes_.TakeAnswer(id, report);
  if (!verdict) return;
  if (verdict->dead) {
    link_monitor_.TakeAccusation(id.value(), verdict->links, loop_.Now());
  } else {
    link_monitor_.TakeWitness(verdict->links, loop_.Now());
  }
  UpdateLinkMonitor();
}

void Controller::TakeWitnesses(AgentId id, const wire::FlowReport& report) {
  for (const wire::FlowProgress& progress : report.progress) {
    if (progress.achieved_bps == 0 || progress.state != wire::FlowState::kActive) continue;
    const auto slot = state_.flows.Find(id, progress.id);
    if (!slot) continue;
    const Flow& flow = state_.flows.At(*slot);
    // Of a flow that is split nobody knows which of its paths carried it.
    if (flow.status != FlowStatus::kRouted || flow.ways.size() != 1) continue;
    // Nor does anybody see that a leaf has left its own dead link: only what follows was passed.
    const auto path = flow.ways.front().port_path;
    const std::vector<fabric::LinkId> links = LinksOf(state_.PathsOf(flow)[path.Index()]);
    link_monitor_.TakeWitness(std::span(links).subspan(1), loop_.Now() - kWitnessLag);
  }
}

bool Controller::IsFailedByOperator(fabric::LinkId id) const {
  const fabric::Link& link = state_.topology.link(id);
  const Intents& intents = state_.intents;
  const auto is_failed = [&](fabric::NodeId end) {
    return intents.failed_nodes.contains(state_.topology.node(end).id);
  };
  return intents.failed_links.contains(link.id) || is_failed(link.a) || is_failed(link.b);
}

void Controller::TellWaitingLinks(const std::set<fabric::LinkId>& before) {
  const std::set<fabric::LinkId>& waiting = link_monitor_.Waiting();
  links_waiting_.Set(static_cast<double>(waiting.size()));
  if (waiting == before) return;
  state_.awaiting_operator = waiting;
  reports_changed_ = true;  // what waits is not remembered as down
  if (!before.empty() && !waiting.empty()) return;
  if (waiting.empty()) {
    return state_.history.RecordOf("detection", loop_.Now(), "detection_budget_free", "");
  }
  detection_budget_exceeded_.Add();
  constexpr std::size_t kMostNamed = 16;
  std::string named;
  std::size_t count = 0;
  for (const fabric::LinkId link : waiting) {
    if (++count > kMostNamed) break;
    named += (named.empty() ? "" : ",") + state_.topology.link(link).id;
  }
  state_.history.RecordOf(
      "detection", loop_.Now(), "detection_budget_exceeded",
      fmt::format("links={} waiting={} limit={} remedy=\"these links stay in use; if they are "
                  "down, espalier fail link or espalier fail node takes them out of use\"",
                  named, waiting.size(), options_.detection.most_links));
}

void Controller::UpdateLinkMonitor() {
  const std::set<fabric::LinkId> waiting = link_monitor_.Waiting();
  const auto changes = link_monitor_.Update(
      loop_.Now(), [this](fabric::LinkId link) { return IsFailedByOperator(link); });
  TellWaitingLinks(waiting);
  if (changes.empty()) return;
  for (const LinkMonitor::Change& change : changes) {
    if (change.down) {
      state_.detected_down.insert(change.link);
      links_detected_down_.Add();
    } else {
      state_.detected_down.erase(change.link);
    }
    state_.history.RecordOf(
        "detection", loop_.Now(), change.down ? "link_detected_down" : "link_detected_up",
        fmt::format("link={} why={}", state_.topology.link(change.link).id, change.why));
  }
  ReactToReports();
}

}  // namespace espalier::controller
