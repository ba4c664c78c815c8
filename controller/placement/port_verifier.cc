#include "controller/placement/port_verifier.h"

#include <iterator>
#include <utility>
#include <vector>

namespace espalier::controller {
namespace {

// After a change of links: flows or edges verified in one batch, and the time between batches.
constexpr std::size_t kFlowsAtOnce = 64;
constexpr Duration kPause = std::chrono::milliseconds(2);

}  // namespace

PortVerifier::PortVerifier(State& state, PathLearner& learner, Placement& placement,
                           const ControllerOptions& options, EventLoop& loop, Callbacks callbacks)
    : state_(state),
      learner_(learner),
      placement_(placement),
      options_(options),
      loop_(loop),
      callbacks_(std::move(callbacks)),
      last_(loop.Now()) {}

void PortVerifier::HandleLinkChange() {
  links_changed_ = loop_.Now();
  slots_left_ = state_.flows.slot_count();
  edges_left_ = state_.edges.all().size();
  if (!timer_) timer_ = loop_.After(kPause, [this] { VerifySome(); });
}

void PortVerifier::VerifySome() {
  timer_.reset();
  const bool has_patience = loop_.Now() - links_changed_ < kAcknowledgementPatience;
  if (!has_patience || !callbacks_.awaits_acknowledgements()) {
    for (std::size_t i = 0; i < kFlowsAtOnce && slots_left_ + edges_left_ > 0; ++i) {
      slots_left_ > 0 ? VerifyNextSlot() : VerifyNextEdge();
    }
    callbacks_.request_turn();
  }
  if (slots_left_ + edges_left_ == 0) return;
  timer_ = loop_.After(kPause, [this] { VerifySome(); });
}

void PortVerifier::VerifyNextSlot() {
  --slots_left_;
  const FlowSlot slot(static_cast<std::uint32_t>(next_slot_++ % state_.flows.slot_count()));
  if (state_.flows.IsOpen(slot)) placement_.VerifyPorts(slot);
}

void PortVerifier::VerifyNextEdge() {
  --edges_left_;
  const EdgeReservations::ByName& edges = state_.edges.all();
  if (edges.empty()) return;
  auto next = edges.upper_bound(last_edge_);
  if (next == edges.end()) next = edges.begin();
  const auto& [name, edge] = *next;
  last_edge_ = name;
  const auto known = state_.path_map.Find(edge.key, edge.source_port);
  if (known && known->trust != fabric::PortTrust::kVerified) {
    learner_.Verify(edge.key, edge.source_port);
  }
}

void PortVerifier::Tick() {
  const Duration interval = options_.verify_interval;
  if (interval == Duration::zero() || loop_.Now() - last_ < interval) return;
  last_ = loop_.Now();
  VerifyOnePort();
}

void PortVerifier::VerifyOnePort() {
  const std::vector<FlowSlot> slots = state_.flows.All();
  const EdgeReservations::ByName& edges = state_.edges.all();
  const std::size_t all = slots.size() + edges.size();
  for (std::size_t tried = 0; tried < all; ++tried) {
    const std::size_t next = cursor_++ % all;
    if (next >= slots.size()) {
      const auto edge = std::next(edges.begin(), static_cast<std::ptrdiff_t>(next - slots.size()));
      return learner_.Verify(edge->second.key, edge->second.source_port);
    }
    const Flow& flow = state_.flows.At(slots[next]);
    if (flow.status != FlowStatus::kRouted) continue;
    return learner_.Verify(flow.key, flow.subflows[cursor_ / all % flow.subflows.size()].port);
  }
}

}  // namespace espalier::controller
