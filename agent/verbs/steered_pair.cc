#include "agent/verbs/steered_pair.h"

#include <algorithm>

namespace espalier::shim {

// The transport waits for 4.096 us x 2^timeout, or for ever if the timeout is 0 (InfiniBand
// specification, 9.7.6.1.3).
void SteeredPair::NoteTimeout(const ibv_qp_attr& attributes, int mask) {
  if ((mask & IBV_QP_TIMEOUT) != 0) {
    constexpr std::uint64_t kUnitNs = 4'096;
    const std::uint64_t us = (kUnitNs << (attributes.timeout % 32U)) / 1'000;
    timeout_us = attributes.timeout == 0
                     ? UINT32_MAX
                     : static_cast<std::uint32_t>(std::min<std::uint64_t>(us, UINT32_MAX));
  }
  if ((mask & IBV_QP_RETRY_CNT) != 0) repetitions = attributes.retry_cnt;
  if (flow != nullptr) espalier_flow_timeout(flow, timeout_us, repetitions);
}

}  // namespace espalier::shim
