#pragma once

#include <string>
#include <utility>
#include <vector>

#include "controller/placement/arrivals/bursts.h"
#include "controller/placement/placement.h"
#include "controller/planning/start_predictor.h"
#include "controller/settings/options.h"
#include "tests/controller/links/link_fixture.h"

namespace espalier::controller {

// FlowIntake with placement, prediction and the health of links, without a bus.
class FlowFixture : public LinkFixture {
 protected:
  explicit FlowFixture(ControllerOptions options = {}) : controller_options_(std::move(options)) {}

  // A report of a flow from one host to another, with this sequence number.
  wire::FlowReport Opening(std::uint64_t sequence, const std::vector<std::uint64_t>& ids,
                           const std::string& from = "h0", const std::string& to = "h1") const {
    wire::FlowReport report;
    report.sequence = sequence;
    report.jobs = {"job"};
    report.addresses = {Address(from), Address(to)};
    for (const std::uint64_t id : ids) {
      wire::OpenedFlow flow;
      flow.id = wire::LocalFlowId(id);
      flow.destination = 1;
      report.opened.push_back(flow);
    }
    return report;
  }
  static wire::FlowReport Ending(std::uint64_t sequence, std::vector<wire::LocalFlowId> ids) {
    wire::FlowReport report;
    report.sequence = sequence;
    report.ended = std::move(ids);
    return report;
  }
  std::vector<std::uint64_t> OpenOf(const std::string& agent) const {
    std::vector<std::uint64_t> ids;
    for (const FlowSlot slot : state_.flows.OfAgent(Agent(agent))) {
      ids.push_back(state_.flows.At(slot).local.value());
    }
    return ids;
  }
  const Flow& FlowOf(const std::string& agent, std::uint64_t id) {
    return state_.flows.At(*state_.flows.Find(Agent(agent), wire::LocalFlowId(id)));
  }

  ControllerOptions controller_options_;
  Metrics flow_metrics_;
  Placement placement_{state_, learner_, controller_options_, flow_metrics_};
  StartPredictor predictor_{state_, learner_, controller_options_, flow_metrics_};
  Bursts bursts_{state_,     state_.decisions,    placement_.ports(),
                 predictor_, controller_options_, flow_metrics_};
};

}  // namespace espalier::controller
