#include "agent/verbs/live_queue_pair.h"

#include "common/base/check.h"
#include "common/verbs/source_port.h"
#include "common/verbs/verbs.h"

namespace espalier::agent {

std::uint16_t LiveQueuePair::OwnPort() const {
  return verbs::SourcePortOf(0, pair_.qp_num, remote_number_);
}

Result<void> LiveQueuePair::Start(std::uint16_t port) {
  change_.emplace(pair_, way_, port);
  return change_->Start();
}

Result<bool> LiveQueuePair::Continue() {
  ESPALIER_CHECK(change_.has_value());
  return change_->Continue();
}

Result<void> LiveQueuePair::LimitRate(std::uint64_t bits_per_second) {
  return verbs::LimitRate(pair_, bits_per_second);
}

}  // namespace espalier::agent
