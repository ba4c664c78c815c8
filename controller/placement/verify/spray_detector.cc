#include "controller/placement/verify/spray_detector.h"

namespace espalier::controller {

bool SprayDetector::HandleSighting(const Sender& sender, const Port& port, fabric::PathIndex path,
                                   std::optional<fabric::PathIndex> before, TimePoint now) {
  auto found = suspects_.find(sender);
  if (found != suspects_.end() && !found->second.sprays && now - found->second.began > kPatience) {
    suspects_.erase(found);  // its answers are lost
    found = suspects_.end();
  }
  if (found == suspects_.end()) {
    if (!before) return false;
    suspects_.emplace(sender, Suspect{.port = port,
                                      .path = path,
                                      .other = *before,
                                      .changes = 1,
                                      .is_probed = true,
                                      .began = now});
    return true;
  }
  Suspect& suspect = found->second;
  if (!suspect.is_probed || suspect.port != port) return false;
  ++suspect.seen;
  if (suspect.path != path) {
    ++suspect.changes;
    suspect.other = std::exchange(suspect.path, path);
  }
  if (suspect.changes < kChanges && suspect.seen < kProbes) return true;
  suspect.is_probed = false;
  Conclude(sender, suspect);
  if (!suspect.sprays) suspects_.erase(found);
  return false;
}

void SprayDetector::Conclude(const Sender& sender, Suspect& suspect) {
  if (suspect.changes >= kChanges && !suspect.sprays) {
    suspect.sprays = true;
    verdicts_.push_back({sender, true, suspect.port, suspect.path, suspect.other});
  } else if (suspect.changes == 0 && suspect.sprays) {
    suspect.sprays = false;
    verdicts_.push_back({sender, false, suspect.port, suspect.path, suspect.path});
  }
}

std::vector<SprayDetector::Port> SprayDetector::TakeDue(TimePoint now) {
  std::vector<Port> due;
  for (auto at = suspects_.begin(); at != suspects_.end();) {
    Suspect& suspect = at->second;
    if (!suspect.sprays || now - suspect.began < kRecheck) {
      ++at;
      continue;
    }
    if (suspect.is_probed && suspect.seen == 0) {  // nobody has answered: the host is gone
      verdicts_.push_back({at->first, false, suspect.port, suspect.path, suspect.path});
      at = suspects_.erase(at);
      continue;
    }
    suspect.seen = suspect.changes = 0;
    suspect.is_probed = true;
    suspect.began = now;
    due.push_back(suspect.port);
    ++at;
  }
  return due;
}

}  // namespace espalier::controller
