#include "controller/links/suspect_paths.h"

#include <utility>

namespace espalier::controller {

SuspectPaths::Verdict SuspectPaths::Judge(std::uint64_t subflow, const UsedPort& port,
                                          TimePoint now) {
  const auto [at, is_new] = suspects_.try_emplace(subflow);
  Suspect& suspect = at->second;
  if (is_new || suspect.port != port) suspect = {.port = port, .since = now, .asked = now};
  const bool is_first = !std::exchange(suspect.is_judged, true) && suspect.since == now;
  if (suspect.is_confirmed || now - suspect.since >= kPatience) return Verdict::kBelieve;
  if (!is_first && now - suspect.asked < kAskAgain) return Verdict::kWait;
  suspect.asked = now;
  return Verdict::kAsk;
}

void SuspectPaths::HandleAnswer(const UsedPort& port) {
  for (auto& [subflow, suspect] : suspects_) {
    if (suspect.port == port) suspect.is_confirmed = true;
  }
}

void SuspectPaths::EndRound() {
  std::erase_if(suspects_, [](const auto& of) { return !of.second.is_judged; });
  for (auto& [subflow, suspect] : suspects_) suspect.is_judged = false;
}

}  // namespace espalier::controller
