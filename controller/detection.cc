// What the controller makes of hosts' and feeds' word on links that it has no intent for.
#include <fmt/format.h>

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
  state_.history.Record(
      loop_.Now(), up ? "link_reported_up" : "link_reported_down",
      fmt::format("link={} source=\"{}\"", state_.topology.link(link).id, source));
  link_monitor_.TakeReport(link, up, loop_.Now());
  UpdateLinkMonitor();
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

void Controller::UpdateLinkMonitor() {
  const auto changes = link_monitor_.Update(loop_.Now());
  if (changes.empty()) return;
  for (const LinkMonitor::Change& change : changes) {
    if (change.down) {
      state_.detected_down.insert(change.link);
      links_detected_down_.Add();
    } else {
      state_.detected_down.erase(change.link);
    }
    state_.history.Record(
        loop_.Now(), change.down ? "link_detected_down" : "link_detected_up",
        fmt::format("link={} why={}", state_.topology.link(change.link).id, change.why));
  }
  ReactToReports();
}

}  // namespace espalier::controller
