#include "controller/discovery/stop_rule.h"

#include <algorithm>
#include <cmath>

namespace espalier::discovery {

double ChanceOfOneMore(std::size_t next_hops, std::size_t answers) {
  if (next_hops == 0) return 1;
  const auto k = static_cast<double>(next_hops);
  return std::min(1.0, (k + 1) * std::pow(k / (k + 1), static_cast<double>(answers)));
}

std::size_t AnswersNeeded(std::size_t next_hops, double alpha) {
  const auto k = static_cast<double>(std::max<std::size_t>(next_hops, 1));
  return static_cast<std::size_t>(std::ceil(std::log(alpha / (k + 1)) / std::log(k / (k + 1))));
}

}  // namespace espalier::discovery
