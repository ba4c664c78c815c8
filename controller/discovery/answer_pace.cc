#include "controller/discovery/answer_pace.h"

#include <algorithm>

namespace espalier::discovery {

void AnswerPace::HandleBatch(std::size_t hop, std::size_t probes, std::size_t answers) {
  if (probes < kLeastProbes) return;
  Hop& at = hops_[hop];
  const double share = static_cast<double>(answers) / static_cast<double>(probes);
  at.best_share = std::max(at.best_share, share);
  if (share >= 0.95 * at.best_share) {
    at.per_second = std::min(kMost, 1.5 * at.per_second);
  } else if (share < 0.8 * at.best_share) {
    at.per_second = std::max(kLeast, at.per_second / 2);
  }
}

}  // namespace espalier::discovery
