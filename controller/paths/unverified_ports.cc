#include "controller/paths/unverified_ports.h"

#include <algorithm>

namespace espalier::controller {
namespace {

constexpr std::size_t kMaxPorts = 64;
constexpr int kMaxAsked = 4;  // the first time alone, then together with others
constexpr int kMaxSilent = 2;

}  // namespace

const UnverifiedPorts::UnverifiedPort* UnverifiedPorts::Find(std::uint16_t port) const {
  const auto found = std::ranges::find(ports_, port, &UnverifiedPort::port);
  return found == ports_.end() ? nullptr : &*found;
}

UnverifiedPorts::UnverifiedPort* UnverifiedPorts::Find(std::uint16_t port) {
  const auto found = std::ranges::find(ports_, port, &UnverifiedPort::port);
  return found == ports_.end() ? nullptr : &*found;
}

void UnverifiedPorts::Add(std::uint16_t port, fabric::PathIndex path) {
  UnverifiedPort* unverified = Find(port);
  if (unverified == nullptr) {
    if (ports_.size() < kMaxPorts) ports_.push_back({.port = port, .path = path});
    return;
  }
  if (unverified->path != path) *unverified = {.port = port, .path = path};
  unverified->asked = 0;
}

void UnverifiedPorts::Renew(std::uint16_t port) {
  if (UnverifiedPort* unverified = Find(port)) unverified->asked = 0;
}

void UnverifiedPorts::HandleAnswer(std::uint16_t port) {
  std::erase_if(ports_, [&](const UnverifiedPort& unverified) { return unverified.port == port; });
}

UnverifiedPorts::Verdict UnverifiedPorts::HandleSilence(std::uint16_t port, bool others_answered) {
  UnverifiedPort* unverified = Find(port);
  if (unverified == nullptr || unverified->quarantined) return Verdict::kUnknown;
  ++unverified->asked;
  if (others_answered) ++unverified->silent;
  if (unverified->silent >= kMaxSilent) {
    unverified->quarantined = true;
    return Verdict::kQuarantined;
  }
  return unverified->asked < kMaxAsked ? Verdict::kAskAgain : Verdict::kUnknown;
}

std::optional<fabric::PathIndex> UnverifiedPorts::PathOf(std::uint16_t port) const {
  const UnverifiedPort* unverified = Find(port);
  return unverified == nullptr ? std::nullopt : std::optional(unverified->path);
}

bool UnverifiedPorts::NeedsControlProbes(std::uint16_t port) const {
  const UnverifiedPort* unverified = Find(port);
  return unverified != nullptr && !unverified->quarantined && unverified->asked > 0;
}

bool UnverifiedPorts::IsQuarantined(std::uint16_t port) const {
  const UnverifiedPort* unverified = Find(port);
  return unverified != nullptr && unverified->quarantined;
}

void UnverifiedPorts::StartOver() {
  std::erase_if(ports_, [](const UnverifiedPort& unverified) { return unverified.quarantined; });
  for (UnverifiedPort& unverified : ports_) unverified.asked = unverified.silent = 0;
}

}  // namespace espalier::controller
