#include "deploy/lab/workload/ring_member.h"

#include <algorithm>

#include "common/base/check.h"

namespace espalier::traffic {

int RingMember::BeginEpoch() {
  ESPALIER_CHECK(IsEpochDone(), "sent={} of={}", sent_, epoch_end_);
  epoch_begin_ = epoch_end_;
  epoch_end_ += rounds_;
  return TakeSendable();
}

int RingMember::HandleReceived(std::int64_t total_bytes) {
  received_ = total_bytes / chunk_bytes_;
  return TakeSendable();
}

bool RingMember::IsEpochDone() const {
  return sent_ == epoch_end_ && acknowledged_ >= epoch_end_ && received_ >= epoch_end_;
}

int RingMember::TakeSendable() {
  // Round k of the epoch may be sent after k of its rounds were received; the first needs none.
  const std::int64_t unlocked = std::max(received_, epoch_begin_) + 1;
  const std::int64_t end = std::min(epoch_end_, unlocked);
  const auto count = static_cast<int>(std::max<std::int64_t>(0, end - sent_));
  sent_ += count;
  return count;
}

}  // namespace espalier::traffic
