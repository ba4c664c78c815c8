#include "controller/paths/unverified_ports.h"

#include <algorithm>

namespace espalier::controller {
namespace {

constexpr std::size_t kMaxDoubts = 64;
constexpr int kMaxAsked = 4;  // alone, and then along with others
constexpr int kMaxSilent = 2;

}  // namespace

const UnverifiedPorts::UnverifiedPort* UnverifiedPorts::Find(std::uint16_t port) const {
  const auto found = std::ranges::find(doubts_, port, &UnverifiedPort::port);
  return found == doubts_.end() ? nullptr : &*found;
}

UnverifiedPorts::UnverifiedPort* UnverifiedPorts::Find(std::uint16_t port) {
  const auto found = std::ranges::find(doubts_, port, &UnverifiedPort::port);
  return found == doubts_.end() ? nullptr : &*found;
}

void UnverifiedPorts::Add(std::uint16_t port, fabric::PathIndex path) {
  UnverifiedPort* doubt = Find(port);
  if (doubt == nullptr) {
    if (doubts_.size() < kMaxDoubts) doubts_.push_back({.port = port, .path = path});
    return;
  }
  if (doubt->path != path) *doubt = {.port = port, .path = path};
  doubt->asked = 0;
}

void UnverifiedPorts::Renew(std::uint16_t port) {
  if (UnverifiedPort* doubt = Find(port)) doubt->asked = 0;
}

void UnverifiedPorts::HandleAnswer(std::uint16_t port) {
  std::erase_if(doubts_, [&](const UnverifiedPort& doubt) { return doubt.port == port; });
}

UnverifiedPorts::Verdict UnverifiedPorts::HandleSilence(std::uint16_t port, bool others_answered) {
  UnverifiedPort* doubt = Find(port);
  if (doubt == nullptr || doubt->quarantined) return Verdict::kUnknown;
  ++doubt->asked;
  if (others_answered) ++doubt->silent;
  if (doubt->silent >= kMaxSilent) {
    doubt->quarantined = true;
    return Verdict::kQuarantined;
  }
  return doubt->asked < kMaxAsked ? Verdict::kAskAgain : Verdict::kUnknown;
}

std::optional<fabric::PathIndex> UnverifiedPorts::PathOf(std::uint16_t port) const {
  const UnverifiedPort* doubt = Find(port);
  return doubt == nullptr ? std::nullopt : std::optional(doubt->path);
}

bool UnverifiedPorts::NeedsControlProbes(std::uint16_t port) const {
  const UnverifiedPort* doubt = Find(port);
  return doubt != nullptr && !doubt->quarantined && doubt->asked > 0;
}

bool UnverifiedPorts::IsQuarantined(std::uint16_t port) const {
  const UnverifiedPort* doubt = Find(port);
  return doubt != nullptr && doubt->quarantined;
}

void UnverifiedPorts::StartOver() {
  std::erase_if(doubts_, [](const UnverifiedPort& doubt) { return doubt.quarantined; });
  for (UnverifiedPort& doubt : doubts_) doubt.asked = doubt.silent = 0;
}

}  // namespace espalier::controller
