#include "controller/telemetry/polls/state_reports.h"

#include <utility>

#include "common/base/log.h"

namespace espalier::telemetry {

StateReports::StateReports(ControllerFeed& feed, const fabric::Topology& topology,
                           LinkStates& links, Metrics& metrics)
    : feed_(feed),
      topology_(topology),
      links_(links),
      accepted_(metrics.MakeCounter("espalier_telemetry_link_states_accepted_total",
                                    "States of links that the controller accepted")),
      refused_(metrics.MakeCounter("espalier_telemetry_link_states_refused_total",
                                   "States of links that the controller refused")) {}

void StateReports::Send() {
  if (is_sending_) return;
  std::vector<LinkStates::LinkState> report = links_.Due();
  if (report.empty()) return;
  is_sending_ = feed_.SendStates(report, [this, report](int status) {
    is_sending_ = false;
    HandleAnswer(report, status);
  });
}

void StateReports::HandleAnswer(const std::vector<LinkStates::LinkState>& report, int status) {
  if (status == 200) {
    links_.HandleAccepted(report);
    accepted_.Add(static_cast<std::int64_t>(report.size()));
  } else if (status == 400 || status == 404) {
    if (report.size() == 1) {
      refused_.Add();
      Log(LogLevel::kWarning, "event=link_state_refused link={} (is its topology file the same?)",
          topology_.link(report[0].link).id);
    }
    links_.HandleRefused(report);
  } else {
    return;  // no answer, or a wrong token: the next call tries again
  }
  Send();
}

}  // namespace espalier::telemetry
