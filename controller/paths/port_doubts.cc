#include "controller/paths/port_doubts.h"

#include <algorithm>

namespace espalier::controller {
namespace {

constexpr std::size_t kMostDoubts = 64;
constexpr int kMostAsked = 4;  // alone, and then along with others
constexpr int kMostSilent = 2;

}  // namespace

const PortDoubts::Doubt* PortDoubts::Find(std::uint16_t port) const {
  const auto found = std::ranges::find(doubts_, port, &Doubt::port);
  return found == doubts_.end() ? nullptr : &*found;
}

PortDoubts::Doubt* PortDoubts::Find(std::uint16_t port) {
  const auto found = std::ranges::find(doubts_, port, &Doubt::port);
  return found == doubts_.end() ? nullptr : &*found;
}

void PortDoubts::Add(std::uint16_t port, fabric::PathIndex path) {
  Doubt* doubt = Find(port);
  if (doubt == nullptr) {
    if (doubts_.size() < kMostDoubts) doubts_.push_back({.port = port, .path = path});
    return;
  }
  if (doubt->path != path) *doubt = {.port = port, .path = path};
  doubt->asked = 0;
}

void PortDoubts::Renew(std::uint16_t port) {
  if (Doubt* doubt = Find(port)) doubt->asked = 0;
}

void PortDoubts::HandleAnswer(std::uint16_t port) {
  std::erase_if(doubts_, [&](const Doubt& doubt) { return doubt.port == port; });
}

PortDoubts::Verdict PortDoubts::HandleSilence(std::uint16_t port, bool others_answered) {
  Doubt* doubt = Find(port);
  if (doubt == nullptr || doubt->given_up) return Verdict::kUnknown;
  ++doubt->asked;
  if (others_answered) ++doubt->silent;
  if (doubt->silent >= kMostSilent) {
    doubt->given_up = true;
    return Verdict::kGivenUp;
  }
  return doubt->asked < kMostAsked ? Verdict::kAskAgain : Verdict::kUnknown;
}

std::optional<fabric::PathIndex> PortDoubts::PathOf(std::uint16_t port) const {
  const Doubt* doubt = Find(port);
  return doubt == nullptr ? std::nullopt : std::optional(doubt->path);
}

bool PortDoubts::WantsOthers(std::uint16_t port) const {
  const Doubt* doubt = Find(port);
  return doubt != nullptr && !doubt->given_up && doubt->asked > 0;
}

bool PortDoubts::HasGivenUp(std::uint16_t port) const {
  const Doubt* doubt = Find(port);
  return doubt != nullptr && doubt->given_up;
}

void PortDoubts::StartOver() {
  std::erase_if(doubts_, [](const Doubt& doubt) { return doubt.given_up; });
  for (Doubt& doubt : doubts_) doubt.asked = doubt.silent = 0;
}

}  // namespace espalier::controller
