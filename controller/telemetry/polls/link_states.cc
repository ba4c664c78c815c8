#include "controller/telemetry/polls/link_states.h"

#include <algorithm>

namespace espalier::telemetry {

PortState LinkStates::Of(fabric::LinkId link) const {
  const Ports& ports = links_[link.Index()];
  if (ports.down > 0) return PortState::kDown;
  return ports.up > 0 ? PortState::kUp : PortState::kUnknown;
}

void LinkStates::UpdateDue(fabric::LinkId link) {
  const PortState state = Of(link);
  const bool is_news =
      state != PortState::kUnknown && links_[link.Index()].accepted != (state == PortState::kUp);
  if (is_news) {
    due_.insert(link);
  } else {
    due_.erase(link);
  }
}

void LinkStates::HandlePort(fabric::LinkId link, PortState from, PortState to) {
  Ports& ports = links_[link.Index()];
  if (from == PortState::kUp) --ports.up;
  if (from == PortState::kDown) --ports.down;
  if (to == PortState::kUp) ++ports.up;
  if (to == PortState::kDown) ++ports.down;
  UpdateDue(link);
}

std::vector<LinkStates::LinkState> LinkStates::Due() const {
  std::vector<LinkState> report;
  for (const PortState state : {PortState::kDown, PortState::kUp}) {
    for (const fabric::LinkId link : due_) {
      if (report.size() == most_of_report_) return report;
      if (Of(link) == state) report.push_back({link, state == PortState::kUp});
    }
  }
  return report;
}

void LinkStates::HandleAccepted(const std::vector<LinkState>& report) {
  for (const LinkState& state : report) {
    links_[state.link.Index()].accepted = state.is_up;
    UpdateDue(state.link);
  }
  most_of_report_ = std::min(kMostOfReport, 2 * most_of_report_);
}

void LinkStates::HandleRefused(const std::vector<LinkState>& report) {
  if (report.size() == 1) return HandleAccepted(report);  // it is left out
  most_of_report_ = std::max<std::size_t>(1, report.size() / 2);
}

}  // namespace espalier::telemetry
