#include "controller/placement/port_verifier.h"

#include <utility>
#include <vector>

namespace espalier::controller {
namespace {

// After a change of links: flows whose ports are looked at in one go, and the time between.
constexpr std::size_t kFlowsAtOnce = 64;
constexpr Duration kPause = std::chrono::milliseconds(2);

}  // namespace

PortVerifier::PortVerifier(State& state, PathLearner& learner, Placement& placement,
                           const ControllerOptions& options, EventLoop& loop, Wiring wiring)
    : state_(state),
      learner_(learner),
      placement_(placement),
      options_(options),
      loop_(loop),
      wiring_(std::move(wiring)),
      last_(loop.Now()) {}

void PortVerifier::HandleLinkChange() {
  links_changed_ = loop_.Now();
  left_ = state_.flows.slot_count();
  if (!timer_) timer_ = loop_.After(kPause, [this] { VerifySomeFlows(); });
}

void PortVerifier::VerifySomeFlows() {
  timer_.reset();
  const std::size_t slots = state_.flows.slot_count();
  const bool has_patience = loop_.Now() - links_changed_ < kAcknowledgementPatience;
  if (!has_patience || !wiring_.awaits_acknowledgements()) {
    for (std::size_t i = 0; i < kFlowsAtOnce && left_ > 0; ++i, --left_) {
      const FlowSlot slot(static_cast<std::uint32_t>(next_++ % slots));
      if (state_.flows.IsOpen(slot)) placement_.VerifyPorts(slot);
    }
    wiring_.request_turn();
  }
  if (left_ == 0) return;
  timer_ = loop_.After(kPause, [this] { VerifySomeFlows(); });
}

void PortVerifier::PassTime() {
  const Duration interval = options_.verify_interval;
  if (interval == Duration::zero() || loop_.Now() - last_ < interval) return;
  last_ = loop_.Now();
  VerifyOnePort();
}

void PortVerifier::VerifyOnePort() {
  const std::vector<FlowSlot> slots = state_.flows.All();
  for (std::size_t tried = 0; tried < slots.size(); ++tried) {
    const Flow& flow = state_.flows.At(slots[cursor_++ % slots.size()]);
    if (flow.status != FlowStatus::kRouted) continue;
    learner_.Verify(flow.key, flow.ways[cursor_ / slots.size() % flow.ways.size()].port);
    return;
  }
}

}  // namespace espalier::controller
